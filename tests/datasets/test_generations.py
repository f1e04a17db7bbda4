"""A generation is built by a run, current in one cutover, and can be taken back."""

import asyncio
import contextlib

import pytest

from holdfast.datasets.store import Datasets
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Output, Submission
from holdfast.errors import DatasetNotFound, GenerationIncomplete, OutputRefused
from holdfast.testing import Clock, Database
from tests.datasets.stage import Runs, deliver, publish
from tests.promises.stage import MINUTE, state_of, submit, take, take_one

ROWS = [{"price": 1}]
OTHER = [{"price": 2}]


async def test_nobody_sees_a_generation_before_all_its_tasks_are_done(runs: Runs) -> None:
    await runs.start("a", "b")
    assert ((await runs.read())["version"], await runs.states()) == (0, ["building"])
    await runs.end(one=ROWS)
    assert (await runs.keys(), await runs.states()) == ({}, ["building"])
    with pytest.raises(DatasetNotFound, match="that can be read"):
        await runs.read(version=1)
    await runs.end(two=ROWS)
    assert (await runs.keys(), await runs.states()) == ({"one": ROWS, "two": ROWS}, ["current"])
    (only,) = await runs.datasets.generations(await runs.id())
    assert (only["made_by"], only["by"], only["origin"], only["files"]) == ("ada", "ada", "run", 2)


async def test_a_new_generation_is_only_what_its_tasks_wrote_or_extends_what_is_current_then(
    store: Store, runs: Runs
) -> None:
    await publish(store, Output("prices", "old", rows=ROWS))
    await runs.start("a", extends=True)
    lease = await take_one(store)
    await publish(store, Output("prices", "meanwhile", rows=ROWS), Output("prices", "both", rows=ROWS))
    await deliver(store, lease, Output("prices", "both", rows=OTHER), Output("prices", "old", "append", rows=OTHER))
    assert await runs.keys() == {"old": ROWS, "meanwhile": ROWS, "both": OTHER}
    await runs.start("a")
    await runs.end(fresh=ROWS)
    assert await runs.keys() == {"fresh": ROWS}
    assert await runs.states() == ["superseded", "superseded", "superseded", "current"]


async def test_a_slow_night_does_not_undo_the_next_one(store: Store, runs: Runs) -> None:
    await runs.start("slow")
    slow = await take_one(store)
    await runs.start("quick")
    await runs.end(tonight=ROWS)
    await deliver(store, slow, Output("prices", "last night", rows=OTHER))
    assert (await runs.keys(), await runs.states()) == ({"tonight": ROWS}, ["superseded", "current"])
    newest, oldest = await runs.datasets.generations(await runs.id())
    assert "A newer generation was current" in oldest["reason"]
    with pytest.raises(GenerationIncomplete):  # it never was current, so nobody goes back to it
        await runs.datasets.rollback(await runs.id())
    await runs.datasets.cutover(await runs.id(), 1)
    assert await runs.keys() == {"last night": OTHER}
    assert newest["version"] == 2


async def test_a_slow_run_that_extends_adds_to_what_is_current(store: Store, runs: Runs) -> None:
    await runs.start("slow", extends=True)
    slow = await take_one(store)
    await publish(store, Output("prices", "tonight", rows=ROWS))
    await deliver(store, slow, Output("prices", "last night", rows=OTHER))
    assert await runs.keys() == {"tonight": ROWS, "last night": OTHER}


@pytest.mark.parametrize("cancelled", [False, True])
async def test_the_generation_of_a_run_that_ends_badly_is_never_seen(store: Store, runs: Runs, cancelled: bool) -> None:
    await publish(store, Output("prices", "old", rows=ROWS))
    run = await runs.start("a", "b")
    await runs.end(one=OTHER)
    lease = await take_one(store)
    if cancelled:
        await store.cancel(run)
    else:
        await store.finish(lease, Failed("Fatal", "no"))
    assert (await runs.keys(), (await runs.states())[1]) == ({"old": ROWS}, "rolled_back" if cancelled else "failed")
    with pytest.raises(GenerationIncomplete, match=r"(?s)not complete.*(cancelled|failed)"):
        await runs.datasets.cutover(await runs.id(), 2)
    if cancelled:
        assert (await deliver(store, lease, Output("prices", rows=OTHER))).status == "ok"
    assert await runs.keys() == {"old": ROWS}


async def test_a_retried_run_goes_on_with_what_was_built(store: Store, runs: Runs) -> None:
    first = await runs.start("a", "b")
    await runs.end(one=ROWS)
    await store.finish(await take_one(store), Failed("Fatal", "no"))
    made = await store.submit(Submission("nightly", lifecycle="some_run"), Submission("b", parent=0))
    await runs.owner.execute("select holdfast.adopt_generations($1, $2)", first, made[0].id)
    assert await runs.states() == ["building"]
    await runs.end(two=ROWS)
    assert (await runs.states(), await runs.keys()) == (["current"], {"one": ROWS, "two": ROWS})


async def test_a_straggler_of_the_old_run_writes_nothing_into_the_new_one(store: Store, runs: Runs) -> None:
    first = await runs.start("a")
    straggler = await take_one(store)
    await store.cancel(first)
    made = await store.submit(Submission("nightly", lifecycle="some_run"), Submission("a", parent=0))
    await runs.owner.execute("select holdfast.adopt_generations($1, $2)", first, made[0].id)
    assert (await deliver(store, straggler, Output("prices", "late", rows=ROWS))).status == "ok"
    assert await runs.owner.fetchval("select dropped from holdfast.delivery") == 1
    await runs.end(new=OTHER)
    assert await runs.keys() == {"new": OTHER}


async def test_a_run_writes_only_what_it_declares(store: Store, runs: Runs) -> None:
    run = await runs.start("a", writes="prices volumes")
    lease = await take_one(store)
    with pytest.raises(
        OutputRefused, match=rf"run {run} does not write the dataset other.\nIt writes: prices, volumes."
    ):
        await deliver(store, lease, Output("other", rows=ROWS))
    await deliver(store, lease, Output("prices", rows=ROWS))
    assert (await runs.states("prices"), await runs.states("volumes")) == (["current"], ["failed"])
    (empty,) = await runs.datasets.generations(await runs.id("volumes"))
    assert empty["reason"] == "Nothing was written into it."


async def test_a_copy_of_a_node_does_not_publish_beside_its_run(store: Store, runs: Runs) -> None:
    run = await runs.start("a")
    lease = await take_one(store)
    await store.finish(lease, Failed("Fatal", "no"))
    await store.retry(lease.task_id)
    copy = await take_one(store)
    with pytest.raises(OutputRefused, match=f"Retry the run: holdfast retry {run}"):
        await deliver(store, copy, Output("prices", rows=ROWS))
    await store.finish(copy, Failed("Fatal", "no"))
    await store.retry(copy.task_id)
    with pytest.raises(OutputRefused, match="Retry the run"):
        await deliver(store, await take_one(store), Output("prices", rows=ROWS))
    assert await runs.states() == ["failed"]


async def test_a_person_may_decide_when_it_is_current(store: Store, runs: Runs) -> None:
    await publish(store, Output("prices", "old", rows=ROWS))
    await runs.start("a", "b", cutover="manual")
    await runs.end(one=OTHER)
    with pytest.raises(GenerationIncomplete, match="Generation 2 is building"):
        await runs.datasets.cutover(await runs.id(), 2, "ada")
    await runs.end(two=OTHER)
    assert (await runs.keys(), await runs.states()) == ({"old": ROWS}, ["current", "ready"])
    for _ in range(2):
        assert await runs.datasets.cutover(await runs.id(), 2, "ada") == {"version": 2, "before": 1}
    assert (sorted(await runs.keys()), await runs.states()) == (["one", "two"], ["superseded", "current"])
    with pytest.raises(DatasetNotFound, match="no generation 7"):
        await runs.datasets.cutover(await runs.id(), 7)


async def test_a_rollback_brings_back_what_was_current_before(store: Store, runs: Runs) -> None:
    for number in (1, 2, 3):
        await publish(store, Output("prices", "a", rows=[{"n": number}]))
    dataset = await runs.id()
    assert await runs.datasets.rollback(dataset, by="ada") == {
        "version": 3, "state": "rolled_back", "current_version": 2,
    }  # fmt: skip
    assert (await runs.keys(), await runs.states()) == ({"a": [{"n": 2}]}, ["superseded", "current", "rolled_back"])
    await runs.datasets.rollback(dataset)
    assert await runs.states() == ["current", "rolled_back", "rolled_back"]
    with pytest.raises(GenerationIncomplete, match="none to go back to"):
        await runs.datasets.rollback(dataset)
    await runs.datasets.cutover(dataset, 3, "ada")
    assert (await runs.keys(), await runs.states()) == ({"a": [{"n": 3}]}, ["superseded", "rolled_back", "current"])
    with pytest.raises(GenerationIncomplete, match="nothing to take back"):
        await runs.datasets.rollback(dataset, 1)
    kept = await runs.owner.fetch("select version, before, kind, by from holdfast.dataset_cutover order by number")
    assert [tuple(one) for one in kept][3:] == [
        (2, 3, "rollback", "ada"), (1, 2, "rollback", ""), (3, 1, "cutover", "ada"),
    ]  # fmt: skip
    await publish(store, Output("prices", "b", rows=ROWS))
    assert await runs.keys() == {"a": [{"n": 3}], "b": ROWS}


async def test_a_rollback_of_what_is_built_cancels_its_tasks(store: Store, runs: Runs) -> None:
    await publish(store, Output("prices", "old", rows=ROWS))
    run = await runs.start("a", "b", "c")
    await runs.end(one=OTHER)
    lease = await take_one(store)
    rolled = await runs.datasets.rollback(await runs.id(), 2, "ada")
    assert rolled == {"version": 2, "state": "rolled_back", "current_version": 1}
    assert await state_of(store, run) == "CANCELLED"
    beats = await store.heartbeat([lease], lasting=MINUTE)
    assert (beats[lease.task_id].cancel_requested, await take(store)) == (True, [])
    assert (await deliver(store, lease, Output("prices", "two", rows=OTHER))).status == "ok"
    assert (await runs.keys(), await runs.states()) == ({"old": ROWS}, ["current", "rolled_back"])
    with pytest.raises(GenerationIncomplete):
        await runs.datasets.cutover(await runs.id(), 2)


async def test_a_rollback_of_what_waits_to_be_current_leaves_it_there(store: Store, runs: Runs) -> None:
    await runs.start("a", cutover="manual")
    await runs.end(one=ROWS)
    assert (await runs.datasets.rollback(await runs.id(), 1))["current_version"] == 0
    assert (await runs.keys(), await runs.states()) == ({}, ["rolled_back"])
    await runs.datasets.cutover(await runs.id(), 1)
    assert await runs.keys() == {"one": ROWS}


async def test_nodes_that_end_at_once_with_the_same_key_leave_one_entry_and_one_cutover(
    runs: Runs, store: Store
) -> None:
    for _ in range(10):
        await runs.start(*"abcdefgh")
        leases = await runs.held(8)
        outputs = [Output("prices", f"k{n % 3}", rows=[{"n": n}], schema=[["n", "int"]]) for n in range(8)]
        given = zip(leases, outputs, strict=True)
        settled = await asyncio.gather(*(deliver(store, *one) for one in given))
        assert {one.status for one in settled} == {"ok"}
        assert sorted(await runs.keys()) == ["k0", "k1", "k2"]
    assert await runs.states() == ["superseded"] * 9 + ["current"]
    assert await store.verify() == []


async def test_whoever_ends_the_run_while_its_nodes_deliver_meets_no_deadlock(
    store: Store, runs: Runs, database: Database
) -> None:
    """All at once, over connections that do not ask again: two nodes deliver, the run is cancelled, and rolled back."""
    async with contextlib.AsyncExitStack() as stack:
        hands = [await stack.enter_async_context(database.connect()) for _ in range(4)]
        for version in range(1, 31):
            run = await runs.start("a", "b")
            one, two = await runs.held(2)
            output = Output("prices", "k", rows=ROWS, schema=[["price", "int"]])
            answers = await asyncio.gather(
                deliver(Store(hands[0]), one, output), deliver(Store(hands[1]), two, output),
                Store(hands[2]).cancel(run), Datasets(hands[3]).rollback(await runs.id(), version),
                return_exceptions=True,
            )  # fmt: skip
            wrong = [each for each in answers if isinstance(each, BaseException)]
            assert all(isinstance(each, GenerationIncomplete) for each in wrong), wrong
            assert (await runs.states())[-1] in ("current", "rolled_back")
            assert await state_of(store, run) in ("DONE", "CANCELLED")
    assert await store.verify() == []


async def test_the_columns_of_all_nodes_agree(store: Store, runs: Runs) -> None:
    await publish(store, Output("prices", "x", uri="s3://x", schema=[["a", "int"]]))
    await runs.start("a", "b")
    first, second = await runs.held(2)
    await deliver(store, first, Output("prices", "a", uri="s3://a", schema=[["a", "int"], ["b", "int"]]))
    with pytest.raises(OutputRefused, match=r"generation 2 of prices: - b int, \+ c int"):
        await deliver(store, second, Output("prices", "b", uri="s3://b", schema=[["a", "int"], ["c", "int"]]))
    with pytest.raises(OutputRefused, match=r"generation 2 of prices: - b int, \+ c any"):
        await deliver(store, second, Output("prices", "b", rows=[{"a": 1}, {"c": 2}]))
    await deliver(store, second, Output("prices", "b", rows=[{"b": 1}, {"a": 2}]))
    newest, _ = await runs.datasets.generations(await runs.id())
    assert newest["changes"] == [{"column": "b", "change": "added", "after": "int"}]
    await runs.start("a", extends=True)
    with pytest.raises(OutputRefused, match="extends none"):
        await deliver(store, await take_one(store), Output("prices", "c", uri="s3://c", schema=[["z", "int"]]))


async def test_rows_have_the_columns_of_the_tables_beside_them(store: Store, runs: Runs) -> None:
    await publish(store, Output("prices", "x", uri="s3://x", schema=[["a", "int"]]))
    with pytest.raises(OutputRefused, match=r"Its rows have other columns than its tables: - a int, \+ z any"):
        await publish(store, Output("prices", "y", rows=[{"z": 1}]))
    await publish(store, Output("prices", "y", rows=[]), Output("prices", "z", rows=[{"a": None}]))
    await runs.start("a", "b")
    first, second = await runs.held(2)
    await deliver(store, first, Output("prices", "a", rows=[{"z": 1}]))
    await deliver(store, second, Output("prices", "b", uri="s3://b", schema=[["a", "int"]]))
    newest, *_ = await runs.datasets.generations(await runs.id())
    assert (newest["state"], "- a int, + z any" in newest["reason"]) == ("failed", True)


RAW = {
    "a current one": "update holdfast.dataset_version set state = 'building' where version = 2",
    "what is not complete": "update holdfast.dataset_version set state = 'current', completed_at = now()"
    " where state = 'failed'",
    "without its dataset": "update holdfast.dataset_version set state = 'rolled_back' where version = 2",
    "to what is not there": "update holdfast.dataset set version = 1",
    "its counts": "update holdfast.dataset_version set files = 7 where version = 2",
    "a file": "update holdfast.dataset_file set uri = 's3://forged', rows_id = null where version = 2",
    "one file more": "insert into holdfast.dataset_file (dataset_id, version, number, uri, name)"
    " select dataset_id, 2, 99, 's3://forged', 'x' from holdfast.dataset_version where version = 2",
    "one file less": "delete from holdfast.dataset_file where version = 1",
    "all of it": "delete from holdfast.dataset_version where version = 2",
    "a new one": "insert into holdfast.dataset_version (dataset_id, version, state, completed_at)"
    " select dataset_id, 9, 'ready', now() from holdfast.dataset_version where version = 2",
}


@pytest.mark.parametrize("what", RAW)
async def test_raw_sql_does_not_change_what_is_published(store: Store, runs: Runs, what: str) -> None:
    for number in (1, 2):
        await publish(store, Output("prices", rows=[{"n": number}]))
    await runs.start("a")
    await store.finish(await take_one(store), Failed("Fatal", "no"))
    before = await runs.read()
    with pytest.raises(Exception) as refused:  # noqa: PT011
        await runs.owner.execute(RAW[what])
    assert refused.value.sqlstate == "TK002"  # type: ignore[attr-defined]
    assert await runs.read() == before


async def test_what_is_not_current_is_forgotten_after_thirty_days_with_files_that_nobody_has(
    store: Store, runs: Runs, clock: Clock
) -> None:
    wrote = await submit(store, "fetch")
    lease = await take_one(store)
    kept, gone = (f"object:tables/{wrote}/{lease.token}/{name}.parquet" for name in ("kept", "gone"))
    await deliver(store, lease, Output("prices", "kept", uri=kept), Output("prices", "gone", uri=gone))
    await publish(store, Output("prices", "gone", rows=ROWS))
    await publish(store, Output("prices", "kept", uri=kept), Output("prices", "gone", rows=OTHER))
    await runs.datasets.make("", "uploaded", [{"uri": "s3://a"}])
    await runs.datasets.make("", "uploaded", [{"uri": "s3://b"}])
    clock.advance(days=29)
    assert await runs.datasets.forget() == 0
    clock.advance(days=2)
    assert (await runs.datasets.forget(), await runs.datasets.forget()) == (2, 0)
    assert (await runs.states(), await runs.states("uploaded")) == (["current"], ["superseded", "current"])
    assert await runs.owner.fetch("select * from holdfast.cleanup") == []
    assert await runs.owner.fetchval("select count(*) from holdfast.dataset_rows") == 1
    await runs.start("a")
    await runs.end(fresh=ROWS)
    clock.advance(days=31)
    assert await runs.datasets.forget() == 1
    due = await runs.owner.fetch(
        "select prefix from holdfast.cleanup where task_id = $1 and due_at <= holdfast.now()", wrote
    )
    assert [one["prefix"] for one in due] == [f"tables/{wrote}"]
    with pytest.raises(DatasetNotFound):
        await runs.datasets.cutover(await runs.id(), 1)


async def test_what_many_single_tasks_have_published_is_thinned_out(store: Store, runs: Runs, clock: Clock) -> None:
    for _ in range(105):
        await publish(store, Output("prices", rows=ROWS))
    assert await runs.datasets.forget() == 0
    clock.advance(days=2)
    assert await runs.datasets.forget() == 4
    assert len(await runs.owner.fetch("select from holdfast.dataset_version")) == 101


async def test_tables_of_nodes_that_published_nothing_are_kept_for_a_week(
    store: Store, runs: Runs, clock: Clock
) -> None:
    await runs.start("a", "b")
    first, second = await runs.held(2)
    await deliver(store, first, Output("prices", uri=f"object:tables/{first.task_id}/{first.token}/x.parquet"))
    await store.finish(second, Done())
    cleanups = await runs.owner.fetch("select prefix, kept_until - holdfast.now() as left from holdfast.cleanup")
    assert [(one["prefix"], one["left"].days) for one in cleanups] == [(f"tables/{second.task_id}", 7)]
