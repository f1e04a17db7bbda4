"""A document has one version that searchers see: the newest, whole, from one commit to the next."""

from array import array
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from holdfast import Fatal
from holdfast.apps.documents.ingestion import Documents
from holdfast.engine.task import Cancelled, Checkpoint, Done, Failed, Lease
from holdfast.lifecycles.ingest.store import Passage
from holdfast.sdk.handle import Handle
from tests.lifecycles.ingest.app import hf
from tests.lifecycles.ingest.harness import Harness, harness_of
from tests.promises.stage import MINUTE

OLD = "# Tides\n\nThe old text speaks of lanterns.\n"
NEW = "# Tides\n\nThe new text speaks of barometers.\n"


async def chunks(harness: Harness) -> list[str]:
    """What is kept of all documents: the text of each chunk."""
    async with harness.engine.database.connect_owner() as owner:
        return [row["text"] for row in await owner.fetch("select text from holdfast.chunk order by text")]


async def test_the_same_name_again_replaces_the_document(harness: Harness) -> None:
    await harness.ingest({"uri": harness.write("a.md", OLD), "name": "tides"})
    harness.clock.advance(seconds=1)
    await harness.ingest({"uri": harness.write("b.md", NEW), "name": "tides"})
    assert await harness.found("lanterns", mode="text") == []
    assert await harness.found("barometers", mode="text") == ["tides"]
    assert [("barometers" in text) for text in await chunks(harness)] == [True]
    (document,) = (await harness.get("/ingest/documents"))["items"]
    assert (document["name"], document["about"]["title"], document["chunks"]) == ("tides", "Tides", 1)


async def test_a_document_may_have_the_longest_name_in_any_script(harness: Harness) -> None:
    name = "".join(chr(0x4E00 + 7919 * place % 20000) for place in range(2000))
    await harness.ingest({"uri": harness.write("a.md", OLD), "name": name})
    assert await harness.found("lanterns", mode="text") == [name]


async def test_a_document_that_is_as_it_was_is_not_made_again(harness: Harness) -> None:
    uri = harness.write("a.md", OLD)
    await harness.ingest(uri)
    run = await harness.ingest(uri)
    item = await harness.item(run)
    assert (item["status"], item["result"]["unchanged"]) == ("DONE", True)
    assert await harness.steps(item["item_id"]) == ["FETCHED"]
    assert (await harness.kinds(item["item_id"])).count("EMBEDDED skipped") == 1
    assert await harness.found("lanterns", mode="text") == [uri]


async def test_what_was_skipped_is_done_after_all_if_the_document_is_gone_meanwhile(harness: Harness) -> None:
    uri = harness.write("a.md", OLD)
    await harness.ingest(uri)
    run = await harness.begin(uri)
    (lease,) = await harness.store.claim_these([(await harness.item(run))["item_id"]], lasting=MINUTE, worker="w")
    for state in ("FETCHED", "CONTENT_EXTRACTED", "PERSISTED"):  # as far as it came before its worker was lost
        await harness.store.checkpoint(Checkpoint(lease, to=state))
    (document,) = (await harness.get("/ingest/documents"))["items"]
    await harness.http.delete(f"/ingest/documents/{document['document_id']}")
    harness.work()
    assert (await harness.item(run))["status"] == "DONE"
    assert await harness.found("lanterns", mode="text") == [uri]


async def test_unless_that_is_forced(harness: Harness) -> None:
    uri = harness.write("a.md", OLD)
    await harness.ingest(uri)
    harness.clock.advance(seconds=1)
    item = await harness.item(await harness.ingest(uri, force=True))
    assert "INDEXED" in await harness.steps(item["item_id"])
    assert len(await chunks(harness)) == 1


async def test_an_old_failure_that_is_retried_does_not_undo_what_is_newer(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise Fatal("Not today.")

    with monkeypatch.context() as patch:
        patch.setattr(Documents, "chunk", broken)
        failed = await harness.item(await harness.ingest({"uri": harness.write("a.md", OLD), "name": "tides"}))
    harness.clock.advance(days=1)
    await harness.ingest({"uri": harness.write("a.md", NEW), "name": "tides"})
    harness.clock.advance(days=1)
    await harness.store.retry(UUID(failed["item_id"]))
    harness.work()
    assert await harness.found("barometers", mode="text") == ["tides"]
    assert await harness.found("lanterns", mode="text") == []
    await harness.store.retry(UUID(failed["item_id"]), "FETCHED")  # what is fetched anew is the newest
    harness.work()
    assert await harness.found("barometers", mode="text") == ["tides"]


async def fetched(harness: Harness, content: str) -> Lease:
    """An item of the document `tides` that a worker holds and has fetched."""
    (item,) = await harness.items(await harness.begin({"uri": harness.write("slow.md", content), "name": "tides"}))
    (lease,) = await harness.store.claim_these([item["item_id"]], lasting=timedelta(days=1), worker="slow")
    await harness.store.keep(lease, "FETCHED", to="FETCHED")
    return lease


async def meanwhile(harness: Harness, content: str) -> dict[str, Any]:
    """Another item of it, from its beginning to its end, while the clock stands still."""
    run = await harness.begin({"uri": harness.write("a.md", content), "name": "tides"})
    harness.work(moving=False)
    return await harness.item(run)


async def publish(harness: Harness, lease: Lease, text: str) -> None:
    await harness.library.persist(
        lease, name="tides", sha256="0" * 64, recipe="r", about={}, passages=[Passage(0, 0, len(text), None, text)],
        embedder="e", dimensions=2, vectors=array("f", [1, 0]), entities=[],
    )  # fmt: skip
    for state in ("CONTENT_EXTRACTED", "PERSISTED", "INDEXED"):
        await harness.store.keep(lease, state, to=state)
    await harness.store.finish(lease, Done())


async def test_the_last_to_find_a_document_unchanged_counts(harness: Harness) -> None:
    await harness.ingest({"uri": harness.write("a.md", OLD), "name": "tides"})
    harness.clock.advance(seconds=1)
    slow = await fetched(harness, NEW)
    harness.clock.advance(seconds=1)
    assert (await meanwhile(harness, OLD))["result"]["unchanged"]
    await publish(harness, slow, NEW)
    assert await harness.found("lanterns", mode="text") == ["tides"]
    assert await harness.found("barometers", mode="text") == []


async def test_what_was_fetched_before_a_document_was_removed_does_not_bring_it_back(harness: Harness) -> None:
    slow = await fetched(harness, NEW)
    harness.clock.advance(seconds=1)
    await meanwhile(harness, OLD)
    (document,) = (await harness.get("/ingest/documents"))["items"]
    harness.clock.advance(seconds=1)
    assert (await harness.http.delete(f"/ingest/documents/{document['document_id']}")).status_code == 204
    await publish(harness, slow, NEW)
    assert (await harness.get("/ingest/documents"))["items"] == []
    assert await chunks(harness) == []


async def test_a_failed_ingestion_leaves_the_version_before(harness: Harness) -> None:
    await harness.ingest({"uri": harness.write("a.md", OLD), "name": "tides"})
    run = await harness.ingest({"uri": harness.write("b.pdf", b"%PDF-1.7 and nothing more"), "name": "tides"})
    assert run["status"] == "FAILED"
    assert await harness.found("lanterns", mode="text") == ["tides"]


@pytest.mark.parametrize("end", ["cancelled", "failed"])
async def test_what_was_persisted_and_never_published_is_gone_with_its_item(harness: Harness, end: str) -> None:
    run = await harness.begin(harness.write("a.md", OLD))
    (item,) = await harness.items(run)
    (lease,) = await harness.store.claim_these([item["item_id"]], lasting=MINUTE, worker="w")
    await harness.library.persist(
        lease, name="tides", sha256="0" * 64, recipe="r", about={}, passages=[], embedder="e", dimensions=2,
        vectors=array("f"), entities=[{"kind": "place", "value": "Kiel", "times": 1, "starts": 0}],
    )  # fmt: skip
    if end == "cancelled":
        await harness.store.cancel(UUID(item["item_id"]))
        await harness.store.finish(lease, Cancelled())
    else:
        await harness.store.finish(lease, Failed("Fatal", "No."))
    async with harness.engine.database.connect_owner() as owner:
        assert await owner.fetchval("select count(*) from holdfast.entity") == 0
        assert await owner.fetchval(
            "select published_at is null and replaced_at is not null from holdfast.document_version"
        )


async def test_a_retry_of_what_was_never_published_makes_it_searchable(harness: Harness) -> None:
    uri = harness.write("a.md", OLD)
    item = UUID((await harness.item(await harness.begin(uri)))["item_id"])
    harness.engine.run(Handle(hf, item), crash_before="INDEXED", crashes=9)
    assert (await harness.get(f"/ingest/items/{item}"))["status"] == "FAILED"
    again = await harness.store.retry(item)
    harness.work()
    assert (await harness.get(f"/ingest/items/{again}"))["status"] == "DONE"
    assert await harness.found("lanterns", mode="text") == [uri]


async def test_a_removed_document_is_found_no_more_and_can_come_back(harness: Harness) -> None:
    uri = harness.write("a.md", OLD)
    await harness.ingest(uri)
    (document,) = (await harness.get("/ingest/documents"))["items"]
    assert (await harness.http.delete(f"/ingest/documents/{document['document_id']}")).status_code == 204
    assert (await harness.http.delete(f"/ingest/documents/{document['document_id']}")).status_code == 404
    assert await harness.found("lanterns", mode="text") == []
    await harness.ingest(uri)
    assert await harness.found("lanterns", mode="text") == [uri]


async def test_every_user_finds_their_own(harness: Harness) -> None:
    uri = harness.write("a.md", OLD)
    await harness.ingest(uri)
    async with harness_of(harness, "eve") as eve:
        assert await eve.found("lanterns") == []
        assert (await eve.get("/ingest/documents"))["items"] == []


async def test_without_pgvector_the_same_is_found(harness: Harness) -> None:
    """The fallback on the same server: the column is taken away before anything is kept."""
    async with harness.engine.database.connect_owner() as owner:
        assert await owner.fetchval("select holdfast.vector_schema()") == "public"
        await owner.execute("alter table holdfast.chunk drop column vector")
    await harness.ingest(
        {"uri": harness.write("a.md", OLD), "name": "old"}, {"uri": harness.write("b.md", NEW), "name": "new"}
    )
    assert await harness.found("an instrument that measures air pressure", mode="vector") == ["new", "old"]
    async with harness.engine.database.connect_owner() as owner:
        assert await owner.fetchval("select bool_and(cardinality(embedding) = 256) from holdfast.chunk")
        await owner.execute("select holdfast.use_vectors()")
        assert await owner.fetchval("select bool_and(embedding is null) from holdfast.chunk")
    assert await harness.found("an instrument that measures air pressure", mode="vector") == ["new", "old"]
