"""Bad input gets a clear answer, and nobody reads what is not theirs."""

import hashlib
from array import array
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast.engine.task import Done, Submission
from holdfast.errors import LeaseLost, MoveRefused, RequestInvalid
from holdfast.lifecycles.ingest.store import Passage
from tests.lifecycles.ingest.harness import Harness, harness_of
from tests.promises.stage import MINUTE

TEXT = b"# Lighthouse\n\nThe keeper writes down every hour.\n"


async def upload(harness: Harness, body: bytes = TEXT, **promised: Any) -> tuple[dict[str, Any], int]:
    """A link, and how its server answered to the bytes."""
    file = {"name": "a.md", "size": len(body), "sha256": hashlib.sha256(body).hexdigest(), **promised}
    answer = await harness.http.post("/ingest/uploads", json={"files": [file]})
    assert answer.status_code == 201, answer.text
    (link,) = answer.json()["uploads"]
    put = await harness.http.request(link["method"], link["url"], content=body, headers=link["headers"])
    return link, put.status_code


# Uploads


async def test_what_was_uploaded_is_ingested_under_its_name(harness: Harness) -> None:
    async with harness_of(harness, "ada") as ada:
        link, status = await upload(ada)
        assert status == 200
        run = await ada.ingest({"uri": link["uri"], "name": "docs/a.md"})
        assert run["status"] == "COMPLETED", await ada.items(run)
        assert await ada.found("who writes down every hour") == ["docs/a.md"]


async def test_other_bytes_than_were_promised_are_refused(harness: Harness) -> None:
    assert (await upload(harness, sha256="0" * 64))[1] == 422
    assert (await upload(harness, size=3))[1] in (413, 422)


async def test_an_upload_is_its_owners(harness: Harness) -> None:
    async with harness_of(harness, "ada") as ada, harness_of(harness, "eve") as eve:
        link, _ = await upload(ada)
        for uri in (link["uri"], f" {link['uri']}", link["uri"].replace("/ada/", "/eve/../ada/")):
            answer = await eve.http.post("/ingest/runs", json={"files": [uri]})
            if answer.status_code == 201:  # it may be named, as long as it leads nowhere
                eve.work()
                assert (await eve.run(answer.json()["run_id"]))["status"] == "FAILED"
            else:
                assert answer.status_code == 422
        assert await eve.found("lighthouse") == []


# Files of the server


async def test_files_of_the_server_are_for_who_sits_at_it(harness: Harness) -> None:
    uri = harness.write("secret.md", TEXT)
    async with harness_of(harness, "eve") as eve:
        for written in (uri, uri.replace("file:", "FILE:"), f"\t{uri}"):
            answer = await eve.http.post("/ingest/runs", json={"files": [written]})
            assert answer.status_code == 422, written


async def test_not_by_a_retry_with_another_payload_either(harness: Harness) -> None:
    uri = harness.write("secret.md", TEXT)
    async with harness_of(harness, "eve") as eve:
        item = await eve.item(await eve.ingest("http://127.0.0.1:9/nothing"))
        assert item["status"] == "FAILED"
        answer = await eve.http.post(f"/api/v1/tasks/{item['item_id']}/retry", json={"payload": {"uri": uri}})
        assert (answer.status_code, "not yours" in answer.text) == (422, True)


async def test_not_by_sql_under_another_owner(harness: Harness) -> None:
    with pytest.raises(RequestInvalid, match="not yours"):
        await harness.store.submit(Submission("documents", {"uri": "file:///etc/passwd"}, "ingest_item", owner="eve"))


# Addresses


@pytest.mark.parametrize(
    "uri", ["http://169.254.169.254/latest/meta-data", "http://[::1]:7777/", "http://0x7f000002/", "http://10.0.0.1/"]
)
async def test_addresses_inside_are_not_fetched(harness: Harness, uri: str) -> None:
    item = await harness.item(await harness.ingest(uri))
    assert (item["status"], item["last_error_kind"], item["failed_step"]) == ("FAILED", "Fatal", "FETCHED")


# Requests


@pytest.mark.parametrize(
    "body",
    [
        {"files": []},
        {"files": ["ftp://example.org/a.pdf"]},
        {"files": ["a.pdf"]},
        {"files": [{"name": "a.pdf"}]},
        {"files": ["file:///a"], "sort": "fast"},
        {"files": ["file:///a\0"]},
        {"files": ["file:///a"] * 10_001},
        {},
    ],
    ids=["no file", "ftp", "a path", "no uri", "unknown field", "NUL", "too many", "nothing"],
)  # fmt: skip
async def test_a_run_that_cannot_be_is_refused_whole(harness: Harness, body: dict[str, Any]) -> None:
    answer = await harness.http.post("/ingest/runs", json=body)
    assert answer.status_code == 422
    assert (await harness.get("/ingest/runs"))["items"] == []


async def test_the_same_key_makes_a_run_once(harness: Harness) -> None:
    body = {"files": [harness.write("a.md", TEXT)]}
    first, again = [
        await harness.http.post("/ingest/runs", json=body, headers={"Idempotency-Key": "k"}) for _ in range(2)
    ]
    assert first.json()["run_id"] == again.json()["run_id"]
    assert again.headers["Idempotency-Replayed"] == "true"
    other = await harness.http.post("/ingest/runs", json={"files": ["file:///b"]}, headers={"Idempotency-Key": "k"})
    assert other.status_code == 422


@pytest.mark.parametrize("path", ["runs/{}", "runs/{}/items", "items/{}", "items/{}/events"])
async def test_what_is_not_there_and_what_is_anothers_look_alike(harness: Harness, path: str) -> None:
    run = await harness.ingest(harness.write("a.md", TEXT))
    item = await harness.item(run)
    there = run["run_id"] if path.startswith("runs") else item["item_id"]
    async with harness_of(harness, "eve") as eve:
        assert [(await eve.http.get(f"/ingest/{path.format(one)}")).status_code for one in (there, uuid4())] == [
            404,
            404,
        ]


async def test_any_text_can_be_searched_for(harness: Harness) -> None:
    uri = harness.write("a.md", TEXT)
    await harness.ingest(uri)
    for query in ("'", "\\", "' | !", "a:*", "🦑", " ", "x" * 2000, "%", "--", "select"):
        for mode in ("hybrid", "text", "vector"):
            assert await harness.found(query, mode=mode) == ([] if mode == "text" else [uri]), (query, mode)


async def test_nobody_persists_without_the_lease(harness: Harness) -> None:
    (item,) = await harness.items(await harness.begin(harness.write("a.md", TEXT)))
    (lease,) = await harness.store.claim_these([item["item_id"]], lasting=MINUTE, worker="w")
    harness.clock.advance(minutes=2)
    await harness.store.sweep()
    given: dict[str, Any] = {"passages": [], "vectors": array("f"), "entities": [], "about": {}}
    with pytest.raises(LeaseLost):
        await harness.library.persist(
            lease, name="a", sha256="0", recipe="", embedder="e", dimensions=2, **given
        )  # fmt: skip
    assert (await harness.store.settle((lease, Done())))[0].status == "lost"


async def test_an_item_is_not_published_with_chunks_missing(harness: Harness) -> None:
    """A worker that says INDEXED without having persisted all of it is refused."""
    (item,) = await harness.items(await harness.begin(harness.write("a.md", TEXT)))
    (lease,) = await harness.store.claim_these([item["item_id"]], lasting=MINUTE, worker="w")
    passages = [Passage(n, 0, 1, None, "x") for n in range(2)]
    await harness.library.persist(
        lease, name="a", sha256="0", recipe="", embedder="e", dimensions=2, passages=passages,
        vectors=array("f", [1.0, 0.0, 0.0, 1.0]), entities=[], about={},
    )  # fmt: skip
    async with harness.engine.database.connect_owner() as owner:
        await owner.execute("delete from holdfast.chunk where number = 1")
    for state in ("FETCHED", "CONTENT_EXTRACTED", "PERSISTED"):
        await harness.store.keep(lease, state, to=state)
    with pytest.raises(MoveRefused, match="Not all chunks"):
        await harness.store.keep(lease, "INDEXED", to="INDEXED")
    assert (await harness.library.item(UUID(item["item_id"])))["status"] == "PERSISTED"
