"""Runs of graphs: released once, ended by what their nodes make of them, cancelled whole; verified after each test."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Outcome, Policy, Submission
from holdfast.errors import GraphCycle, KeyConflict, RequestInvalid
from holdfast.lifecycles.dispatch.store import Dags
from holdfast.testing import Clock, Database
from tests.lifecycles.dispatch.graphs import FATAL, Running, shape
from tests.promises.stage import MINUTE, state_of, until_somebody_waits_for_a_lock

parents = 1_000
connections = 8


@pytest.fixture(autouse=True)
async def verified(store: Store) -> AsyncIterator[None]:
    yield
    assert await store.verify() == []


async def test_a_thousand_parents_that_end_at_once_in_any_order_release_their_dependent_once(
    store: Store, database: Database
) -> None:
    run = await Running.of(store, f"{' '.join(f'p{n}' for n in range(parents))} -> last")
    names = [f"p{n}" for n in range(parents)]
    leases = await run.take(names)
    random.Random(7).shuffle(leases)  # noqa: S311
    last = (await run.ids())["last"]
    async with database.store(connections=connections) as many:
        shares = [leases[n::connections] for n in range(connections)]

        async def end(share: list[Any]) -> None:
            sizes = itertools.cycle((1, 7, 2, 20))  # one by one, and some at a time, as workers do
            while share:
                size = next(sizes)
                settled = await many.settle(*((lease, Done()) for lease in share[:size]))
                assert {one.status for one in settled} == {"ok"}
                share = share[size:]

        await asyncio.gather(*(end(list(share)) for share in shares))
    assert [event.verb for event in await store.events(last)] == ["submit_blocked", "unblock"]
    assert [one.verb for one in await store.events(run.id)] == ["submit"]
    await run.done("last")
    assert (await store.read(run.id))["result"] == {"done": parents + 1}


@pytest.mark.parametrize("order", list(itertools.permutations("abc")), ids="".join)
async def test_a_diamond_is_released_in_any_order(order: tuple[str, ...], store: Store) -> None:
    run = await Running.of(store, "top -> a b c", "a b c -> bottom", "bottom")
    await run.done("top")
    for name in order:
        assert (await run.states())["bottom"] == "Blocked"
        await run.done(name)
    assert (await run.states())["bottom"] == "Queued"
    await run.done("bottom")
    assert await run.state() == "Completed"


@pytest.mark.parametrize("last", ["settle", "cancel"])
async def test_the_last_two_parents_see_each_other_however_they_interleave(
    last: str, store: Store, database: Database
) -> None:
    """In forced order: the first has ended and is not committed; the second waits for it, then looks again."""
    run = await Running.of(store, "a b ->ignore c")
    first, second = await run.take("ab")
    async with database.connect() as connection, database.connect_owner() as owner:
        transaction = connection.transaction()
        await transaction.start()
        await Store(connection).finish(first, Done())
        ending = store.finish(second, Done()) if last == "settle" else store.cancel(run.id)
        waiting = asyncio.create_task(ending)
        await until_somebody_waits_for_a_lock(owner)
        await transaction.commit()
        await waiting
    verbs = [event.verb for event in await store.events((await run.ids())["c"])]
    assert verbs == (["submit_blocked", "unblock"] if last == "settle" else ["submit_blocked", "cancel"])


POLICIES: list[tuple[Policy, Policy, str, str, str]] = [
    ("cancel", "cancel", "failed", "done", "Canceled"),
    ("cancel", "ignore", "failed", "done", "Canceled"),
    ("cancel", "ignore", "done", "failed", "Queued"),
    ("ignore", "ignore", "failed", "failed", "Queued"),
    ("skip", "ignore", "failed", "failed", "Canceled"),
    ("skip", "cancel", "failed", "failed", "Canceled"),
    ("ignore", "skip", "failed", "done", "Queued"),
]


@pytest.mark.parametrize(("one", "other", "first", "second", "state"), POLICIES)
async def test_each_edge_has_a_policy_of_its_own(
    one: Policy, other: Policy, first: str, second: str, state: str, store: Store
) -> None:
    run = await Running.of(store, f"a ->{one} c", f"b ->{other} c")
    outcomes: dict[str, Outcome] = {"done": Done(), "failed": FATAL}
    await run.end(a=outcomes[first])
    if (await run.states())["c"] == "Blocked":
        await run.end(b=outcomes[second])
    assert (await run.states())["c"] == state


async def test_a_submission_may_give_each_dependency_its_own_policy(store: Store) -> None:
    bad, good, child, other = [
        one.id
        for one in await store.submit(
            Submission("bad"),
            Submission("good"),
            Submission("child", after={0: "ignore", 1: "cancel"}),
            Submission("other", after={0: "cancel", 1: "ignore"}),
        )
    ]
    assert bad
    assert good
    assert child
    assert other
    leases = {one.task_id: one for one in await store.claim_these([bad, good], lasting=MINUTE, worker="worker")}
    await store.finish(leases[bad], FATAL)
    await store.finish(leases[good], Done())
    assert [await state_of(store, one) for one in (child, other)] == ["Queued", "Canceled"]


@pytest.mark.parametrize(
    ("a", "b", "state", "counts"),
    [
        (Done(), Done(), "Completed", {"done": 3}),
        (Done(), FATAL, "Partial", {"done": 2, "failed": 1}),
        (FATAL, Done(), "Partial", {"done": 1, "failed": 1, "cancelled": 1}),
        (FATAL, FATAL, "Failed", {"failed": 2, "cancelled": 1}),
    ],
)
async def test_a_run_ends_as_its_nodes_did(a: Outcome, b: Outcome, state: str, counts: Any, store: Store) -> None:
    run = await Running.of(store, "a -> c", "b")
    await run.end(a=a)
    if isinstance(a, Done):
        await run.done("c")
    assert await run.state() == "Running"
    await run.end(b=b)
    assert (await run.state(), (await store.read(run.id))["result"]) == (state, counts)


async def test_cancelling_a_run_cancels_what_is_open_and_tells_who_works(store: Store) -> None:
    run = await Running.of(store, "a -> b", "b -> c", "d e")
    await run.done("a")
    (lease,) = await run.take("d")
    assert await store.cancel(run.id, "enough") == "cancelled"
    assert await run.states() == {"a": "Completed", "b": "Canceled", "c": "Canceled", "d": "Running", "e": "Canceled"}
    assert (await store.heartbeat([lease], lasting=MINUTE))[lease.task_id].cancel_requested
    assert await run.state() == "Canceled"


async def test_a_worker_that_is_lost_in_a_node_costs_an_attempt_and_no_more(store: Store, clock: Clock) -> None:
    run = await Running.of(store, "a -> b")
    (lost,) = await run.take("a")
    clock.advance(seconds=61)
    await store.sweep()
    clock.advance(seconds=60)
    await store.sweep()
    (again,) = await run.take("a")
    assert (await store.settle((lost, Done("late"))))[0].status in ("lost", "stale")
    assert (await run.states())["b"] == "Blocked"
    await store.finish(again, Done("kept"))
    (upstream,) = await store.upstream((await run.ids())["b"])
    assert (upstream.name, upstream.outcome, upstream.result) == ("t.a", "done", "kept")


async def test_a_blocked_node_says_by_name_what_it_waits_for(store: Store) -> None:
    run = await Running.of(store, "a b -> c")
    await run.done("b")
    (lease,) = await run.take("a")
    ids = await run.ids()
    why = await store.explain(ids["c"])
    assert why.sentence == f"It waits for 1 other task, the first is t.a ({lease.task_id}, Running)."
    assert why.fix == f"See why that one waits: holdfast why {lease.task_id}"


# What is no graph


async def test_a_circle_is_refused_and_named(store: Store) -> None:
    with pytest.raises(GraphCycle, match=r"other: (b -> c -> d -> b|c -> d -> b -> c|d -> b -> c -> d)\."):
        await Running.of(store, "a -> b", "b -> c", "c -> d", "d -> b", "d -> e")
    with pytest.raises(GraphCycle, match="a -> a"):
        await Running.of(store, "a -> a")
    dags = Dags.over(store)
    with pytest.raises(GraphCycle, match="wait for each other"):
        await dags.declare("g", title="", params={}, writes={}, cutover="auto", **shape("a -> b", "b -> a"))
    assert (await store.list_tasks()).items == []
    assert await dags.list_declared() == []


NODE = {"name": "a", "task": "t"}
WRONG: list[tuple[list[Any], list[Any], str]] = [
    ([], [], "it has 0 nodes"),
    ([NODE, NODE], [], "'a' is the name of two nodes"),
    ([{"name": "a"}], [], "node 'a' has no task"),
    ([{"task": "t"}], [], "a node has no name"),
    ([NODE], [{"from": "a", "to": "b"}], "'b' is not a node"),
    ([NODE, {**NODE, "name": "b"}], [{"from": "a", "to": "b"}] * 2, "two edges from 'a' to 'b'"),
    ([NODE, {**NODE, "name": "b"}], [{"from": "a", "to": "b", "on_failure": "gather"}], "has the policy 'gather'"),
    ([{**NODE, "queue": "nowhere"}], [], "Queue 'nowhere' does not exist"),
    ([{"name": f"n{n}", "task": "t"} for n in range(5001)], [], "it has 5001 nodes"),
]


@pytest.mark.parametrize(("nodes", "edges", "problem"), WRONG, ids=[one[2] for one in WRONG])
async def test_what_is_no_graph_is_refused_whole(
    nodes: list[Any], edges: list[Any], problem: str, store: Store
) -> None:
    with pytest.raises(RequestInvalid, match=problem):
        await Dags.over(store).start_graph("g", nodes, edges, writes={})
    assert (await store.list_tasks()).items == []


# Once


async def test_twenty_that_start_the_same_at_once_start_one_run(store: Store) -> None:
    dags = Dags.over(store)
    graph = shape("a -> b c", "b c -> d")
    made = await asyncio.gather(
        *(dags.start_graph("g", graph["nodes"], graph["edges"], writes={}, key="once", owner="ada") for _ in range(20))
    )
    assert (len({run for run, _ in made}), sum(created for _, created in made)) == (1, 1)
    assert (await store.list_tasks(lifecycle="dag")).approx_count == 1
    assert (await store.list_tasks(lifecycle="dispatch")).approx_count == 4
    with pytest.raises(KeyConflict):
        await dags.start_graph("g", graph["nodes"], graph["edges"][:-1], writes={}, key="once", owner="ada")
    other, created = await dags.start_graph("g", graph["nodes"], [], writes={}, key="once", owner="bob")
    assert created
    assert other != made[0][0]


async def test_a_declared_graph_is_run_by_name_also_from_sql(store: Store, database: Database) -> None:
    dags = Dags.over(store)
    params = {"day": {"kinds": ["string"], "needed": True}, "rows": {"kinds": ["integer"], "default": 3}}
    nodes = [
        {"name": "b", "task": "n.b", "params": ["day"], "queue": "mine"},
        {"name": "a", "task": "n.a", "params": ["rows", "day"]},
    ]
    await dags.declare(
        "n", title="N", nodes=nodes, edges=[{"from": "a", "to": "b"}], params=params, writes={}, cutover="auto"
    )
    async with database.connect() as connection:
        run = await connection.fetchval("""select holdfast.run_dag('n', '{"day": "mon"}', 'ada', 'k')""")
        again = await connection.fetchval("""select holdfast.run_dag('n', '{"day": "mon"}', 'ada', 'k', 'me')""")
    assert run == again
    found = await dags.run(run, "ada")
    assert ([one["name"] for one in found["nodes"]], found["params"]) == (["a", "b"], {"day": "mon"})
    b = await store.read(found["nodes"][1]["task_id"])
    assert (b["payload"], b["queue"], b["owner"], b["name"]) == ({"day": "mon"}, "mine", "ada", "n.b")
    for given, problem in (
        ({}, "day is missing"),
        ({"day": 1}, "day is a number"),
        ({"day": "x", "odd": 1}, "'odd' is no"),
    ):
        with pytest.raises(RequestInvalid, match=problem):
            await dags.start("n", given)
    with pytest.raises(RequestInvalid, match=r"There is no graph 'm'\.\nThere are: n\."):
        await dags.start("m", {})


async def test_a_run_vanishes_with_the_transaction_that_started_it(store: Store, database: Database) -> None:
    graph = shape("a -> b")
    async with database.connect() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await Dags(connection).start_graph("g", graph["nodes"], graph["edges"], writes={})
        await transaction.rollback()
    assert (await store.list_tasks()).items == []


def failing(message: str) -> Failed:
    return Failed("Fatal", message)


async def test_a_run_shows_where_each_node_is(store: Store) -> None:
    run = await Running.of(store, "a -> b", "c", "d -> e")
    await run.end(a=Done(), d=failing("no such file"))
    await run.take("c")
    found = await run.read()
    states = {one["name"]: (one["state"], one["error"]) for one in found["nodes"]}
    assert states["d"] == ("Dead", "no such file")
    assert states["e"][0] == "Canceled"
    assert found["progress"] == {
        "total": 5, "blocked": 0, "queued": 1, "running": 1, "retrying": 0, "completed": 1, "failed": 1, "canceled": 1,
    }  # fmt: skip
    assert await run.dags.read([run.id], "somebody else") == []
    assert UUID(found["dag_id"]) == run.id
