"""What a task has made is published by its accepted completion, once, and by nothing else."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Completion, Done, Failed, Later, Output, Proof
from holdfast.errors import DatasetNotFound, OutputRefused, PayloadTooLarge, RequestInvalid
from holdfast.testing import Clock, Database
from tests.datasets.stage import Runs, deliver, publish
from tests.promises.stage import MINUTE, meet, state_of, submit, take_one

ROWS = [{"day": "monday", "price": 1.5}]


async def test_a_completion_publishes_its_outputs_and_they_say_who_wrote_them(store: Store, runs: Runs) -> None:
    task = await publish(
        store, Output("prices", rows=ROWS), Output("files", "a", uri="s3://bucket/a.csv"), name="fetch"
    )
    prices, files = await runs.read(), await runs.read("files")
    (entry,) = prices["items"]
    assert (prices["version"], prices["files"], prices["row_count"], prices["state"]) == (1, 1, 1, "current")
    assert (entry["key"], entry["rows"], entry["task_id"], entry["attempt"]) == ("fetch", ROWS, str(task), 1)
    assert [(one["key"], one["uri"]) for one in files["items"]] == [("a", "s3://bucket/a.csv")]


async def test_a_stale_attempt_publishes_nothing(store: Store, runs: Runs, clock: Clock) -> None:
    task = await submit(store)
    zombie = await take_one(store)
    for _ in range(2):
        clock.advance(minutes=2)
        await store.sweep()
    current = await take_one(store)
    assert current.attempt == 2
    settled = await deliver(store, zombie, Output("prices", rows=ROWS))
    assert settled.status == "stale"
    forged = await deliver(store, Proof(task, 2, uuid4()), Output("prices", rows=ROWS))
    assert forged.status == "lost"
    with pytest.raises(DatasetNotFound):
        await runs.read()
    assert await runs.owner.fetchval("select count(*) from holdfast.delivery") == 0
    await deliver(store, current, Output("prices", rows=[{"of": "the second"}]))
    assert (await deliver(store, zombie, Output("prices", rows=ROWS))).status == "stale"
    assert await runs.keys() == {"work": [{"of": "the second"}]}


async def test_the_same_completion_again_is_answered_the_same_and_another_is_stale(store: Store, runs: Runs) -> None:
    await submit(store)
    lease = await take_one(store)
    given = (Output("prices", "a", rows=ROWS), Output("prices", "b", "append", uri="s3://b/1"))
    first = await deliver(store, lease, *given, result=7)
    for _ in range(2):
        again = await deliver(store, lease, *given, result=7)
        assert (first.status, again.status, again.state, again.version) == ("ok", "repeat", "Completed", first.version)
    for other in ([given[0]], [given[1], given[0]], [*given, Output("prices", "c", uri="s3://c")], []):
        assert (await deliver(store, lease, *other, result=7)).status == "stale"
    assert (await deliver(store, lease, *given, result=8)).status == "stale"
    assert (await runs.states(), sorted(await runs.keys())) == (["current"], ["a", "b"])


async def test_what_is_broken_off_before_the_commit_has_written_nothing(
    store: Store, runs: Runs, database: Database
) -> None:
    task = await submit(store)
    lease = await take_one(store)
    async with database.connect() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await deliver(Store(connection), lease, Output("prices", rows=ROWS))
        await transaction.rollback()
    assert await state_of(store, task) == "Running"
    with pytest.raises(DatasetNotFound):
        await runs.read()
    assert (await deliver(store, lease, Output("prices", rows=ROWS))).status == "ok"
    assert (await runs.read())["version"] == 1


async def test_fifty_tasks_that_append_at_once_lose_nothing(store: Store, runs: Runs) -> None:
    for _ in range(50):
        await submit(store, "collect")
    leases = await runs.held(50)
    outputs = [Output("prices", mode="append", rows=[{"n": n}]) for n in range(50)]
    settled = await asyncio.gather(*(deliver(store, *one) for one in zip(leases, outputs, strict=True)))
    assert {one.status for one in settled} == {"ok"}
    found = await runs.read()
    assert (found["version"], found["files"], found["row_count"]) == (50, 50, 50)
    assert sorted(one["rows"][0]["n"] for one in found["items"]) == list(range(50))
    assert [one["number"] for one in found["items"]] == list(range(1, 51))
    assert await runs.states() == ["superseded"] * 49 + ["current"]


async def test_the_second_of_two_that_publish_at_once_builds_on_the_first(
    store: Store, runs: Runs, database: Database
) -> None:
    for _ in range(2):
        await submit(store)
    first, second = await runs.held(2)
    outputs = [Output("prices", key, rows=ROWS) for key in ("one", "two")]
    await publish(store, Output("prices", "zero", rows=ROWS))
    await meet(
        database,
        lambda connection: deliver(Store(connection), first, outputs[0]),
        lambda connection: deliver(Store(connection), second, outputs[1]),
    )
    assert ((await runs.read())["version"], list(await runs.keys())) == (3, ["zero", "one", "two"])


async def test_a_key_is_replaced_or_added_once(store: Store, runs: Runs) -> None:
    await publish(store, Output("prices", "a", rows=[{"n": 1}]), Output("prices", "b", rows=[{"n": 1}]))
    await publish(store, Output("prices", "a", rows=[{"n": 2}]))
    await publish(
        store, Output("prices", "b", "append", rows=[{"n": 2}]), Output("prices", "c", "append", uri="s3://c")
    )
    assert await runs.keys() == {"a": [{"n": 2}], "b": [{"n": 1}], "c": None}
    with pytest.raises(OutputRefused, match="under the key b"):
        await publish(store, Output("prices", "b", rows=ROWS), Output("prices", "b", "append", rows=ROWS))
    versions = [await runs.read(version=number) for number in (1, 2, 3)]
    assert [[one["number"] for one in each["items"]] for each in versions] == [[1, 2], [1, 2], [1, 2, 3]]


async def test_only_a_task_that_is_done_publishes(store: Store, runs: Runs) -> None:
    task = await submit(store)
    lease = await take_one(store)
    with pytest.raises(RequestInvalid, match="deliver"):
        await store.settle((lease, Done(1, [Output("prices", rows=ROWS)])))
    for outcome in (Failed("Fatal", "no"), Later()):
        query = "select * from holdfast.deliver($1, $2, $3, $4, p_output_task => $1, p_output => $5)"
        given = (
            [task],
            [1],
            [lease.token],
            ["failed" if isinstance(outcome, Failed) else "later"],
            ['{"dataset": "x"}'],
        )
        with pytest.raises(Exception, match="Only a task that is done"):
            await runs.owner.fetch(query, *given)
    assert await state_of(store, task) == "Running"
    assert await runs.datasets.find() == []


async def test_a_delivery_of_many_is_each_for_itself_or_refused_whole(store: Store, runs: Runs) -> None:
    for _ in range(3):
        await submit(store)
    one, two, three = await runs.held(3)
    lost = Proof(two.task_id, two.attempt, uuid4())
    given = [Completion(each, Done(None, [Output("prices", each.token.hex, rows=ROWS)])) for each in (one, lost)]
    assert {each.task_id: each.status for each in await store.deliver(*given, Completion(three, Done(3)))} == {
        one.task_id: "ok", two.task_id: "lost", three.task_id: "ok",
    }  # fmt: skip
    assert list(await runs.keys()) == [one.token.hex]
    with pytest.raises(RequestInvalid, match="twice"):
        await store.deliver(*(Completion(two, Done(None, [Output("prices", key, rows=ROWS)])) for key in "xy"))
    assert list(await runs.keys()) == [one.token.hex]


BAD: dict[str, dict[str, Any]] = {
    "names its dataset": {"dataset": "a/b", "uri": "s3://x"},
    "1 to 200 characters and no slash": {"dataset": "", "uri": "s3://x"},
    "replace or append": {"mode": "prepend", "uri": "s3://x"},
    "key of an output": {"key": "x" * 201, "uri": "s3://x"},
    "either a uri or rows": {},
    "either a uri or rows.": {"uri": "s3://x", "rows": []},
    "list of objects": {"rows": [1]},
    "list of \\[name, type\\]": {"uri": "s3://x", "schema": [["a"]]},
    "are counts": {"uri": "s3://x", "row_count": -1},
}


@pytest.mark.parametrize("says", BAD)
async def test_what_is_no_output_is_refused_and_the_task_can_end_otherwise(store: Store, runs: Runs, says: str) -> None:
    task = await submit(store)
    lease = await take_one(store)
    with pytest.raises(OutputRefused, match=says):
        await deliver(store, lease, Output(**{"dataset": "prices", **BAD[says]}))
    assert await state_of(store, task) == "Running"
    await store.finish(lease, Done())


async def test_rows_that_are_too_many_belong_into_a_file(store: Store, runs: Runs) -> None:
    await submit(store)
    lease = await take_one(store)
    with pytest.raises(PayloadTooLarge, match="256 KiB"):
        await deliver(store, lease, Output("prices", rows=[{"text": "x" * 300_000}]))
    assert (await deliver(store, lease, Output("prices", rows=[{"text": "x" * 200_000}]))).status == "ok"
    assert (await runs.read())["bytes"] == 200_014


async def test_an_address_must_be_the_owners_own(store: Store, runs: Runs) -> None:
    """A user names neither files of the server nor objects of others; a table only if a task of theirs wrote it."""
    foreign = await submit(store, owner="bob")
    task = await submit(store, owner="ada")
    (lease,) = await store.claim_these([task], lasting=MINUTE, worker="worker")
    uris = [
        "file:///etc/passwd",
        "object:users/bob/ingest/x",
        f"object:tables/{foreign}/t/x.parquet",
        f"object:tables/{task}/../../users/bob/x",
        f"OBJECT:tables/{task}/t/x.parquet",
        "object:tables/x/y",
    ]
    for uri in uris:
        with pytest.raises(RequestInvalid, match="not yours"):
            await deliver(store, lease, Output("prices", uri=uri))
    own = f"object:tables/{task}/{lease.token}/prices.parquet"
    assert (await deliver(store, lease, Output("prices", uri=own))).status == "ok"
    assert (await runs.datasets.read("ada", name="prices"))["items"][0]["uri"] == own
    with pytest.raises(DatasetNotFound):
        await runs.datasets.read("", name="prices")


async def test_columns_that_differ_are_named_and_refused(store: Store, runs: Runs) -> None:
    old, new = [["day", "date"], ["price", "float"]], [["day", "date"], ["price", "text"], ["currency", "text"]]
    await publish(
        store, Output("prices", "a", uri="s3://a", schema=old), Output("prices", "b", uri="s3://b", schema=old)
    )
    await submit(store)
    lease = await take_one(store)
    with pytest.raises(OutputRefused, match=r"price float -> text, \+ currency text.*new generation that extends none"):
        await deliver(store, lease, Output("prices", "a", uri="s3://a2", schema=new))
    both = [Output("prices", key, uri=f"s3://{key}2", schema=new) for key in ("a", "b")]
    assert (await deliver(store, lease, *both)).status == "ok"
    found = await runs.read()
    assert (found["version"], found["schema"]) == (2, new)
    (second, _) = await runs.datasets.generations(await runs.id())
    assert second["changes"] == [
        {"column": "price", "change": "type", "before": "float", "after": "text"},
        {"column": "currency", "change": "added", "after": "text"},
    ]
