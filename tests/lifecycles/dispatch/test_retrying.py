"""Retries in graphs: with what was cancelled because of it, within a run, and of a whole run."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from holdfast.engine.store.bulk import Filters
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Cancelled, Done, Lease, Submission
from holdfast.errors import GraphUnknown, MoveRefused
from holdfast.testing import Database
from tests.lifecycles.dispatch.graphs import FATAL, Running
from tests.promises.stage import MINUTE, meet, state_of, submit, take_one


@pytest.fixture(autouse=True)
async def verified(store: Store) -> AsyncIterator[None]:
    yield
    assert await store.verify() == []


async def lease(store: Store, task: UUID) -> Lease:
    (one,) = await store.claim_these([task], lasting=MINUTE, worker="worker")
    return one


async def made(store: Store, *tasks: Submission) -> list[UUID]:
    return [one.id for one in await store.submit(*tasks) if one.id]


async def test_what_was_cancelled_because_of_a_task_runs_again_with_it(store: Store) -> None:
    open_one, done, bad, skipped, last, ignoring = await made(
        store,
        Submission("open"),
        Submission("done"),
        Submission("bad", {"n": 1}, max_attempts=1, tags=["mine"]),
        Submission("skipped", after={2: "skip", 1: "cancel"}),
        Submission("last", after=[0, 3]),
        Submission("ignoring", after={2: "ignore", 0: "ignore"}),
    )
    await store.finish(await lease(store, done), Done("kept"))
    await store.finish(await lease(store, bad), FATAL)
    assert [await state_of(store, one) for one in (skipped, last, ignoring)] == ["Canceled", "Canceled", "Blocked"]
    again = await store.retry_dependents(bad, by="ada")
    assert list(again) == [bad, skipped, last]
    new = await store.read(again[bad])
    assert (new["state"], new["payload"], new["tags"], new["retry_of"]) == ("Queued", {"n": 1}, ["mine"], str(bad))
    assert {(one.task_id, one.policy) for one in await store.upstream(again[skipped])} == {
        (again[bad], "skip"),
        (done, "cancel"),
    }
    assert {one.task_id for one in await store.upstream(again[last])} == {again[skipped], open_one}
    await store.finish(await lease(store, again[bad]), Done())
    await store.finish(await lease(store, again[skipped]), Done())
    assert await state_of(store, again[last]) == "Blocked"
    await store.finish(await lease(store, open_one), Done())
    assert await state_of(store, again[last]) == "Queued"


async def test_a_task_that_two_failures_stopped_runs_when_both_are_retried(store: Store) -> None:
    one, two, joined = await made(store, Submission("a"), Submission("b"), Submission("join", after=[0, 1]))
    await store.finish(await lease(store, one), FATAL)
    await store.finish(await lease(store, two), FATAL)
    first = await store.retry_dependents(one)
    assert list(first) == [one, joined]
    assert await state_of(store, first[joined]) == "Canceled"  # the other one has still failed
    await store.finish(await lease(store, first[one]), Done())
    second = await store.retry_dependents(two)
    assert list(second) == [two, first[joined]]
    await store.finish(await lease(store, second[two]), Done())
    assert await state_of(store, second[first[joined]]) == "Queued"


async def test_steps_and_inbox_entries_are_those_of_any_retry(store: Store) -> None:
    bad, child = await made(store, Submission("bad"), Submission("child", after=[0]))
    held = await lease(store, bad)
    await store.keep(held, "fetched", {"bytes": 3})
    await store.finish(held, FATAL)
    again = await store.retry_dependents(bad, by="ada")
    assert [one.result for one in await store.steps(again[bad])] == [{"bytes": 3}]
    assert await store.steps(again[child]) == []
    assert [one.kind for one in await store.step_events(again[child])] == ["requeued"]
    assert await store.inbox.newest() == []


async def test_retrying_at_once_makes_one_retry_of_each_dependent(store: Store) -> None:
    bad, child = await made(store, Submission("bad"), Submission("child", after=[0]))
    await store.finish(await lease(store, bad), FATAL)
    answers = await asyncio.gather(*(store.retry_dependents(bad) for _ in range(5)))
    assert sum(child in one for one in answers) == 1


async def test_what_has_no_inbox_entry_is_retried_once_at_once_too(store: Store, database: Database) -> None:
    stopped, _ = await made(store, Submission("stopped"), Submission("child", after=[0]))
    await store.cancel(stopped)

    async def first(connection: asyncpg.Connection) -> None:
        await Store(connection).retry_dependents(stopped)

    again = await meet(database, first, lambda connection: Store(connection).retry_dependents(stopped))
    assert list(again) == [stopped]  # the child has its retry


async def test_who_retries_many_sees_what_is_retried_with_another(store: Store, database: Database) -> None:
    stopped, child = await made(store, Submission("stopped"), Submission("child", after=[0]))
    await store.cancel(stopped)

    async def first(connection: asyncpg.Connection) -> None:
        assert list(await Store(connection).retry_dependents(stopped)) == [stopped, child]

    did = await meet(database, first, lambda connection: Store(connection).bulk.run("retry", Filters(), "ada"))
    assert (did.done, did.refused) == (0, [])


# Within a run that goes on


async def test_a_node_is_retried_within_its_run_which_then_completes(store: Store) -> None:
    run = await Running.of(store, "a -> b", "b -> c", "d")
    await run.end(a=Done(5), b=FATAL)
    old = await run.ids()
    again = await store.retry_dependents(old["b"], by="ada")
    new = await run.ids()
    assert (new["b"], new["c"], new["a"]) == (again[old["b"]], again[old["c"]], old["a"])
    assert [(one.name, one.result) for one in await store.upstream(new["b"])] == [("t.a", 5)]
    await run.done("d b")
    assert await run.state() == "Running"
    await run.done("c")
    assert (await run.state(), (await store.read(run.id))["result"]) == ("Completed", {"done": 4})


async def test_a_node_is_not_retried_out_of_its_run(store: Store) -> None:
    run = await Running.of(store, "a -> b", "c")
    await run.end(a=FATAL)
    a = (await run.ids())["a"]
    (entry,) = await store.inbox.newest()
    for refused in (store.retry(a), store.inbox.retry(entry["id"], "ada")):
        with pytest.raises(MoveRefused, match=f"which goes on(.|\n)*holdfast retry {a} --dependents"):
            await refused
    await run.done("c")
    assert await run.state() == "Partial"
    for retry in (store.retry, store.retry_dependents):
        with pytest.raises(MoveRefused, match=f"which has ended(.|\n)*holdfast dag retry {run.id}"):
            await retry(a)
    assert await run.states() == {"a": "Dead", "b": "Canceled", "c": "Completed"}


async def fix(store: Store, task: UUID) -> str:
    return (await store.explain(task)).fix


async def test_why_names_the_retry_that_works(store: Store) -> None:
    run = await Running.of(store, "a -> b", "b -> c", "d")
    await run.end(a=FATAL)
    ids = await run.ids()
    within = f"It is a node of run {run.id}, which goes on."
    assert await fix(store, ids["a"]) == f"{within} Run it again in it: holdfast retry {ids['a']} --dependents"
    for because in ("b", "c"):
        assert await fix(store, ids[because]) == (
            f"{within} Run what ended first again in it: holdfast retry {ids['a']} --dependents"
        )
    again = await store.retry_dependents(ids["a"])
    for old, new in again.items():
        assert await fix(store, old) == f"It was retried as {new}: holdfast why {new}"
    await run.end(a=FATAL, d=Done())
    assert await run.state() == "Partial"
    for node in ("a", "b", "c"):
        assert (await fix(store, (await run.ids())[node])).endswith(f"as a new run: holdfast dag retry {run.id}")
    assert (await fix(store, run.id)).endswith(f"as a new run: holdfast dag retry {run.id}")
    assert await fix(store, ids["d"]) == ""
    anew = await run.dags.retry(run.id)
    assert await fix(store, run.id) == f"It was retried as {anew}: holdfast why {anew}"


async def test_a_node_that_completed_or_was_replaced_is_not_retried(store: Store) -> None:
    run = await Running.of(store, "a", "b", "c")
    await run.end(a=Done(), b=FATAL)
    ids = await run.ids()
    with pytest.raises(MoveRefused, match="and completed"):
        await store.retry_dependents(ids["a"])
    again = await store.retry_dependents(ids["b"])
    with pytest.raises(MoveRefused, match=f"was retried in its run, as {again[ids['b']]}"):
        await store.retry_dependents(ids["b"])


async def test_a_run_that_ends_while_a_node_is_retried_gathers_it_or_refuses(store: Store, database: Database) -> None:
    for _ in range(8):
        run = await Running.of(store, "a", "b")
        await run.end(a=FATAL)
        (held,) = await run.take("b")
        a = (await run.ids())["a"]
        answers = await asyncio.gather(store.retry_dependents(a), store.finish(held, Done()), return_exceptions=True)
        if isinstance(answers[0], MoveRefused):
            assert await run.state() == "Partial"
        else:
            assert await run.state() == "Running"
            await run.done("a")
            assert await run.state() == "Completed"


# A whole run


async def test_a_run_that_did_not_complete_goes_on_in_a_new_one(store: Store) -> None:
    run = await Running.of(store, "a -> b c", "b c -> d", "e", owner="ada", tags=["nightly"])
    await run.end(a=Done({"rows": 3}), b=FATAL, c=Done(), e=Done())
    assert await run.state() == "Partial"
    old = await run.ids()
    again = Running(store, await run.dags.retry(run.id, "ada"))
    new = await again.ids()
    assert {name for name in old if old[name] != new[name]} == {"b", "d"}
    assert await again.states() == {"a": "Completed", "b": "Queued", "c": "Completed", "d": "Blocked", "e": "Completed"}
    found = await again.read()
    assert (found["retry_of"], found["owner"], (await run.read())["retried_as"]) == (str(run.id), "ada", str(again.id))
    assert [(one.name, one.result) for one in await store.upstream(new["b"])] == [("t.a", {"rows": 3})]
    await again.done("b d")
    assert (await again.state(), (await store.read(again.id))["result"]) == ("Completed", {"done": 5})
    assert await run.state() == "Partial"


async def test_a_run_is_retried_once_and_only_where_something_is_left(store: Store) -> None:
    run = await Running.of(store, "a")
    with pytest.raises(MoveRefused, match="has not ended"):
        await run.dags.retry(run.id)
    await run.done("a")
    with pytest.raises(MoveRefused, match="nothing is left to run"):
        await run.dags.retry(run.id)
    bad = await Running.of(store, "a -> b")
    await bad.end(a=FATAL)
    with pytest.raises(MoveRefused, match=r"gathers others(.|\n)*holdfast dag retry"):
        await store.retry(bad.id)
    answers = await asyncio.gather(*(bad.dags.retry(bad.id) for _ in range(4)), return_exceptions=True)
    (new,) = [one for one in answers if isinstance(one, UUID)]
    assert all(isinstance(one, UUID | MoveRefused) for one in answers)
    with pytest.raises(MoveRefused, match=f"was retried as {new}"):
        await bad.dags.retry(bad.id)
    with pytest.raises(GraphUnknown):
        await bad.dags.retry(await submit(store, "no run"))


async def test_a_cancelled_run_is_retried_when_its_last_node_has_stopped(store: Store) -> None:
    run = await Running.of(store, "a -> b", "c")
    (held,) = await run.take("a")
    await store.cancel(run.id)
    with pytest.raises(MoveRefused, match=r"Node a of run .* is still being stopped"):
        await run.dags.retry(run.id)
    await store.finish(held, Cancelled())
    again = Running(store, await run.dags.retry(run.id))
    await again.done("a b c")
    assert await again.state() == "Completed"


async def test_a_retried_run_that_fails_again_is_retried_again(store: Store) -> None:
    run = await Running.of(store, "a -> b", "b -> c")
    await run.end(a=Done(), b=FATAL)
    second = Running(store, await run.dags.retry(run.id))
    await second.end(b=FATAL)
    assert await second.state() == "Partial"
    third = Running(store, await run.dags.retry(second.id))
    assert (await third.ids())["a"] == (await run.ids())["a"]
    await third.done("b c")
    assert await third.state() == "Completed"


async def test_a_task_beside_runs_is_retried_as_ever(store: Store) -> None:
    task = await submit(store)
    await store.finish(await take_one(store), FATAL)
    assert await state_of(store, await store.retry(task)) == "Queued"
