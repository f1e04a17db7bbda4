"""A document has one version that searchers see: the newest, whole, from one commit to the next."""

from array import array
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from holdfast import Fatal
from holdfast.engine.task import Cancelled, Checkpoint, Done, Failed, Lease
from holdfast.lifecycles.ingest.documents import Documents
from holdfast.lifecycles.ingest.library import Passage
from holdfast.sdk.handle import Handle
from tests.lifecycles.ingest.app import hf
from tests.lifecycles.ingest.desk import Desk, desk_of
from tests.promises.stage import MINUTE

OLD = "# Tides\n\nThe old text speaks of lanterns.\n"
NEW = "# Tides\n\nThe new text speaks of barometers.\n"


async def chunks(desk: Desk) -> list[str]:
    """What is kept of all documents: the text of each chunk."""
    async with desk.engine.database.connect_owner() as owner:
        return [row["text"] for row in await owner.fetch("select text from holdfast.chunk order by text")]


async def test_the_same_name_again_replaces_the_document(desk: Desk) -> None:
    await desk.ingest({"uri": desk.write("a.md", OLD), "name": "tides"})
    desk.clock.advance(seconds=1)
    await desk.ingest({"uri": desk.write("b.md", NEW), "name": "tides"})
    assert await desk.found("lanterns", mode="text") == []
    assert await desk.found("barometers", mode="text") == ["tides"]
    assert [("barometers" in text) for text in await chunks(desk)] == [True]
    (document,) = (await desk.get("/ingest/documents"))["items"]
    assert (document["name"], document["about"]["title"], document["chunks"]) == ("tides", "Tides", 1)


async def test_a_document_may_have_the_longest_name_in_any_script(desk: Desk) -> None:
    name = "".join(chr(0x4E00 + 7919 * place % 20000) for place in range(2000))
    await desk.ingest({"uri": desk.write("a.md", OLD), "name": name})
    assert await desk.found("lanterns", mode="text") == [name]


async def test_a_document_that_is_as_it_was_is_not_made_again(desk: Desk) -> None:
    uri = desk.write("a.md", OLD)
    await desk.ingest(uri)
    run = await desk.ingest(uri)
    item = await desk.item(run)
    assert (item["status"], item["result"]["unchanged"]) == ("DONE", True)
    assert await desk.steps(item["item_id"]) == ["FETCHED"]
    assert (await desk.kinds(item["item_id"])).count("EMBEDDED skipped") == 1
    assert await desk.found("lanterns", mode="text") == [uri]


async def test_what_was_skipped_is_done_after_all_if_the_document_is_gone_meanwhile(desk: Desk) -> None:
    uri = desk.write("a.md", OLD)
    await desk.ingest(uri)
    run = await desk.begin(uri)
    (lease,) = await desk.store.claim_these([(await desk.item(run))["item_id"]], lasting=MINUTE, worker="w")
    for state in ("FETCHED", "CONTENT_EXTRACTED", "PERSISTED"):  # as far as it came before its worker was lost
        await desk.store.checkpoint(Checkpoint(lease, to=state))
    (document,) = (await desk.get("/ingest/documents"))["items"]
    await desk.http.delete(f"/ingest/documents/{document['document_id']}")
    desk.work()
    assert (await desk.item(run))["status"] == "DONE"
    assert await desk.found("lanterns", mode="text") == [uri]


async def test_unless_that_is_forced(desk: Desk) -> None:
    uri = desk.write("a.md", OLD)
    await desk.ingest(uri)
    desk.clock.advance(seconds=1)
    item = await desk.item(await desk.ingest(uri, force=True))
    assert "INDEXED" in await desk.steps(item["item_id"])
    assert len(await chunks(desk)) == 1


async def test_an_old_failure_that_is_retried_does_not_undo_what_is_newer(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise Fatal("Not today.")

    with monkeypatch.context() as patch:
        patch.setattr(Documents, "chunk", broken)
        failed = await desk.item(await desk.ingest({"uri": desk.write("a.md", OLD), "name": "tides"}))
    desk.clock.advance(days=1)
    await desk.ingest({"uri": desk.write("a.md", NEW), "name": "tides"})
    desk.clock.advance(days=1)
    await desk.store.retry(UUID(failed["item_id"]))
    desk.work()
    assert await desk.found("barometers", mode="text") == ["tides"]
    assert await desk.found("lanterns", mode="text") == []
    await desk.store.retry(UUID(failed["item_id"]), "FETCHED")  # what is fetched anew is the newest
    desk.work()
    assert await desk.found("barometers", mode="text") == ["tides"]


async def fetched(desk: Desk, content: str) -> Lease:
    """An item of the document `tides` that a worker holds and has fetched."""
    (item,) = await desk.items(await desk.begin({"uri": desk.write("slow.md", content), "name": "tides"}))
    (lease,) = await desk.store.claim_these([item["item_id"]], lasting=timedelta(days=1), worker="slow")
    await desk.store.keep(lease, "FETCHED", to="FETCHED")
    return lease


async def meanwhile(desk: Desk, content: str) -> dict[str, Any]:
    """Another item of it, from its beginning to its end, while the clock stands still."""
    run = await desk.begin({"uri": desk.write("a.md", content), "name": "tides"})
    desk.work(moving=False)
    return await desk.item(run)


async def publish(desk: Desk, lease: Lease, text: str) -> None:
    await desk.library.persist(
        lease, name="tides", sha256="0" * 64, recipe="r", about={}, passages=[Passage(0, 0, len(text), None, text)],
        embedder="e", dimensions=2, vectors=array("f", [1, 0]), entities=[],
    )  # fmt: skip
    for state in ("CONTENT_EXTRACTED", "PERSISTED", "INDEXED"):
        await desk.store.keep(lease, state, to=state)
    await desk.store.finish(lease, Done())


async def test_who_finds_a_document_unchanged_has_the_last_word(desk: Desk) -> None:
    await desk.ingest({"uri": desk.write("a.md", OLD), "name": "tides"})
    desk.clock.advance(seconds=1)
    slow = await fetched(desk, NEW)
    desk.clock.advance(seconds=1)
    assert (await meanwhile(desk, OLD))["result"]["unchanged"]
    await publish(desk, slow, NEW)
    assert await desk.found("lanterns", mode="text") == ["tides"]
    assert await desk.found("barometers", mode="text") == []


async def test_what_was_fetched_before_a_document_was_removed_does_not_bring_it_back(desk: Desk) -> None:
    slow = await fetched(desk, NEW)
    desk.clock.advance(seconds=1)
    await meanwhile(desk, OLD)
    (document,) = (await desk.get("/ingest/documents"))["items"]
    desk.clock.advance(seconds=1)
    assert (await desk.http.delete(f"/ingest/documents/{document['document_id']}")).status_code == 204
    await publish(desk, slow, NEW)
    assert (await desk.get("/ingest/documents"))["items"] == []
    assert await chunks(desk) == []


async def test_a_failed_ingestion_leaves_the_version_before(desk: Desk) -> None:
    await desk.ingest({"uri": desk.write("a.md", OLD), "name": "tides"})
    run = await desk.ingest({"uri": desk.write("b.pdf", b"%PDF-1.7 and nothing more"), "name": "tides"})
    assert run["status"] == "FAILED"
    assert await desk.found("lanterns", mode="text") == ["tides"]


@pytest.mark.parametrize("end", ["cancelled", "failed"])
async def test_what_was_persisted_and_never_published_is_gone_with_its_item(desk: Desk, end: str) -> None:
    run = await desk.begin(desk.write("a.md", OLD))
    (item,) = await desk.items(run)
    (lease,) = await desk.store.claim_these([item["item_id"]], lasting=MINUTE, worker="w")
    await desk.library.persist(
        lease, name="tides", sha256="0" * 64, recipe="r", about={}, passages=[], embedder="e", dimensions=2,
        vectors=array("f"), entities=[{"kind": "place", "value": "Kiel", "times": 1, "starts": 0}],
    )  # fmt: skip
    if end == "cancelled":
        await desk.store.cancel(UUID(item["item_id"]))
        await desk.store.finish(lease, Cancelled())
    else:
        await desk.store.finish(lease, Failed("Fatal", "No."))
    async with desk.engine.database.connect_owner() as owner:
        assert await owner.fetchval("select count(*) from holdfast.entity") == 0
        assert await owner.fetchval(
            "select published_at is null and replaced_at is not null from holdfast.document_version"
        )


async def test_a_retry_of_what_was_never_published_makes_it_searchable(desk: Desk) -> None:
    uri = desk.write("a.md", OLD)
    item = UUID((await desk.item(await desk.begin(uri)))["item_id"])
    desk.engine.run(Handle(hf, item), crash_before="INDEXED", crashes=9)
    assert (await desk.get(f"/ingest/items/{item}"))["status"] == "FAILED"
    again = await desk.store.retry(item)
    desk.work()
    assert (await desk.get(f"/ingest/items/{again}"))["status"] == "DONE"
    assert await desk.found("lanterns", mode="text") == [uri]


async def test_a_removed_document_is_found_no_more_and_can_come_back(desk: Desk) -> None:
    uri = desk.write("a.md", OLD)
    await desk.ingest(uri)
    (document,) = (await desk.get("/ingest/documents"))["items"]
    assert (await desk.http.delete(f"/ingest/documents/{document['document_id']}")).status_code == 204
    assert (await desk.http.delete(f"/ingest/documents/{document['document_id']}")).status_code == 404
    assert await desk.found("lanterns", mode="text") == []
    await desk.ingest(uri)
    assert await desk.found("lanterns", mode="text") == [uri]


async def test_every_user_finds_their_own(desk: Desk) -> None:
    uri = desk.write("a.md", OLD)
    await desk.ingest(uri)
    async with desk_of(desk, "eve") as eve:
        assert await eve.found("lanterns") == []
        assert (await eve.get("/ingest/documents"))["items"] == []


async def test_without_pgvector_the_same_is_found(desk: Desk) -> None:
    """The fallback on the same server: the column is taken away before anything is kept."""
    async with desk.engine.database.connect_owner() as owner:
        assert await owner.fetchval("select holdfast.vector_schema()") == "public"
        await owner.execute("alter table holdfast.chunk drop column vector")
    await desk.ingest({"uri": desk.write("a.md", OLD), "name": "old"}, {"uri": desk.write("b.md", NEW), "name": "new"})
    assert await desk.found("an instrument that measures air pressure", mode="vector") == ["new", "old"]
    async with desk.engine.database.connect_owner() as owner:
        assert await owner.fetchval("select bool_and(cardinality(embedding) = 256) from holdfast.chunk")
        await owner.execute("select holdfast.use_vectors()")
        assert await owner.fetchval("select bool_and(embedding is null) from holdfast.chunk")
    assert await desk.found("an instrument that measures air pressure", mode="vector") == ["new", "old"]
