"""Only declared moves happen, whoever writes, and each leaves its event.

Every pair of states of every lifecycle is tried: through the functions, by raw SQL as the application's role, and by
raw SQL as the owner of the tables.
"""

import contextlib
from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4

import asyncpg
import pytest

from holdfast.engine.lifecycle.model import Lifecycle
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Cancelled, Checkpoint, Done, Failed, Later, Lease, Moved, Outcome, Partial
from holdfast.errors import HoldfastError
from holdfast.lifecycles import LIFECYCLES
from holdfast.testing import Database
from tests.promises.stage import MINUTE, POLLED, lease_of, place
from tests.tiers import deep

REFUSALS = r"denied|must be owner|is not a table|cannot delete from view"

# Of a batch its jobs have a say too: tests/lifecycles/batch/test_rules.py.
ALL = [POLLED if lifecycle.name == "batch" else lifecycle for lifecycle in LIFECYCLES]


def every_lifecycle(*rich: str) -> pytest.MarkDecorator:
    """All of them, those with the richest tables in the deep tier."""
    cases = [pytest.param(lifecycle, id=lifecycle.name) for lifecycle in ALL]
    return pytest.mark.parametrize("lifecycle", [deep(one) if one.id in rich else one for one in cases])


Attempt = Callable[[UUID], Awaitable[object]]


def declared_pairs(lifecycle: Lifecycle) -> set[tuple[str, str]]:
    """The pairs that the declaration names, without staying where one is."""
    pairs = {(state.name, move.to) for state in lifecycle.states for move in state.moves}
    pairs |= {(state.name, state.limit.to) for state in lifecycle.states if state.limit and state.limit.to}
    return {(source, target) for source, target in pairs if source != target}


async def latest(owner: asyncpg.Connection, task: UUID) -> asyncpg.Record:
    """Where a task is by its row, live or finished, and by its last event."""
    return await owner.fetchrow(
        "select t.state, t.version, t.attempt, e.to_state, e.from_state, e.version as event, e.attempt as event_attempt"
        " from holdfast.tasks t cross join lateral"
        " (select * from holdfast.event e where e.task_id = t.id order by e.version desc limit 1) e where t.id = $1",
        task,
    )


def worker_attempts(store: Store, lifecycle: Lifecycle, lease: Lease) -> list[Attempt]:
    """Everything that the holder of a lease can try."""
    failures = [Failed("Fatal", "no"), Failed("Transient", "no"), Failed(None, "?")]
    moves = [Moved(state.name) for state in lifecycle.states]
    outcomes: list[Outcome] = [Done(), Partial(), Later(), Cancelled(), *failures, *moves]

    def settle(outcome: Outcome) -> Attempt:
        return lambda _: store.settle((lease, outcome))

    def keep(to: str) -> Attempt:
        return lambda _: store.checkpoint(Checkpoint(lease, "step", 1, to))

    return [*map(settle, outcomes), *(keep(state.name) for state in lifecycle.states)]


def outside_attempts(
    store: Store, database: Database, lifecycle: Lifecycle, owner: asyncpg.Connection
) -> list[Attempt]:
    """Everything that others can try: the owner's verbs, claims, cancelling, time, and tasks that it waits for."""
    verbs = {move.verb for state in lifecycle.states for move in state.moves}

    def act(verb: str) -> Attempt:
        return lambda task: store.act(task, verb)

    async def claim(task: UUID) -> None:
        await store.claim_these([task], lasting=MINUTE, worker="worker")

    async def pass_time(task: UUID) -> None:
        await owner.execute("update holdfast.test_clock set at = at + interval '100 years'")
        await owner.execute("set session_replication_role = replica")
        await owner.execute(
            "update holdfast.task t set deadline = holdfast.now() from holdfast.transition x"
            " where t.id = $1 and x.lifecycle = t.lifecycle and x.from_state = t.state and x.verb = 'limit'",
            task,
        )
        await owner.execute("reset session_replication_role")
        await store.sweep()

    async def pass_due(_: UUID) -> None:
        await store.sweep()

    def ends(policy: str, *outcomes: str) -> Attempt:
        async def end_upstream(task: UUID) -> None:
            upstream = [uuid4() for _ in outcomes]
            async with owner.transaction():
                await owner.executemany(
                    "insert into holdfast.dependency (upstream, downstream, policy, outcome)"
                    f" values ($1, '{task}', '{policy}', $2)",
                    list(zip(upstream, outcomes, strict=True)),
                )
                await owner.fetch("select holdfast.cascade(null, null, $1, null)", [task])

        return end_upstream

    graphs = [
        ends("gather", "done", "done"), ends("gather", "done", "failed"), ends("gather", "failed", "cancelled"),
        ends("cancel", "done"), ends("cancel", "failed"), ends("skip", "failed"), ends("ignore", "failed"),
    ]  # fmt: skip
    return [*map(act, verbs), claim, store.cancel, pass_time, pass_due, *graphs]


@every_lifecycle("ingest_item")
async def test_through_the_functions_exactly_the_declared_pairs_happen(
    lifecycle: Lifecycle, store: Store, database: Database
) -> None:
    await store.declare(lifecycle)
    reached: set[tuple[str, str]] = set()
    async with database.connect_owner() as owner:
        for state in lifecycle.states:
            for leased in (False, True):
                if state.actor == "nobody" or (leased and state.name not in lifecycle.leasable):
                    continue
                probe = await place(owner, lifecycle.name, state.name, leased=leased)
                attempts = outside_attempts(store, database, lifecycle, owner)
                number = len(attempts)
                if leased:
                    number += len(worker_attempts(store, lifecycle, await lease_of(owner, probe)))
                for choice in range(number):
                    task = await place(owner, lifecycle.name, state.name, leased=leased)
                    chosen = list(attempts)
                    if leased:
                        chosen += worker_attempts(store, lifecycle, await lease_of(owner, task))
                    with contextlib.suppress(HoldfastError):
                        await chosen[choice](task)
                    row = await latest(owner, task)
                    assert (row["state"], row["version"], row["attempt"]) == (
                        row["to_state"], row["event"], row["event_attempt"],
                    )  # fmt: skip
                    path = await owner.fetch(
                        "select from_state, to_state from holdfast.event where task_id = $1 and version > 0", task
                    )
                    reached |= {(a, b) for a, b in path if a != b}
    assert reached == declared_pairs(lifecycle)


@every_lifecycle("ingest_item", "analysis", "dispatch")
async def test_by_raw_sql_of_the_owner_only_declared_moves_happen_each_with_its_event(
    lifecycle: Lifecycle, store: Store, database: Database
) -> None:
    await store.declare(lifecycle)
    async with database.connect_owner() as owner:
        verbs = [row[0] for row in await owner.fetch("select distinct verb from holdfast.transition")]
        matrix = {
            (row["from_state"], row["verb"], row["to_state"])
            for row in await owner.fetch(
                "select x.* from holdfast.transition x join holdfast.lifecycle l on l.id = x.lifecycle"
                " where l.name = $1",
                lifecycle.name,
            )
        }
        moved = set()
        for source in lifecycle.states:
            if source.actor == "nobody":
                continue
            for target in lifecycle.states:
                for verb in verbs:
                    task = await place(owner, lifecycle.name, source.name)
                    before = await owner.fetchval("select count(*) from holdfast.event where task_id = $1", task)
                    try:
                        async with owner.transaction():
                            await write_by_hand(owner, task, verb, target.name, final=target.actor == "nobody")
                    except asyncpg.PostgresError as error:
                        assert error.sqlstate in {"TK002", "23514"}, error  # noqa: PT017
                        continue
                    moved.add((source.name, verb, target.name))
                    after = await owner.fetchval("select count(*) from holdfast.event where task_id = $1", task)
                    assert after == before + 1
    starts = {move for move in matrix if move[0] == ""}
    assert moved <= matrix
    # Whoever imitates a declared move by hand makes it, with its event; a claim needs a token as well.
    assert {move for move in matrix - starts - moved if move[1] != "claim"} == set()


async def write_by_hand(owner: asyncpg.Connection, task: UUID, verb: str, target: str, *, final: bool) -> None:
    common = "t.state as from_state, $2::text as verb, t.version + 1 as version"
    if final:
        await owner.execute(
            "with t as (delete from holdfast.task t where id = $1 returning t.*)"
            " insert into holdfast.task_done (id, lifecycle, name, state, actor, from_state, verb, version, queue,"
            " max_attempts, outcome)"
            f" select t.id, t.lifecycle, t.name, s.name, s.actor, {common}, t.queue, t.max_attempts, s.outcome"
            " from t join holdfast.state s on s.lifecycle = t.lifecycle and s.name = $3",
            task, verb, target,
        )  # fmt: skip
    else:
        await owner.execute(
            "update holdfast.task t set from_state = t.state, verb = $2, version = t.version + 1, state = s.name,"
            " actor = s.actor from holdfast.state s where s.lifecycle = t.lifecycle and s.name = $3 and t.id = $1",
            task, verb, target,
        )  # fmt: skip


@every_lifecycle()
async def test_a_task_starts_only_where_its_lifecycle_lets_it_start(
    lifecycle: Lifecycle, store: Store, database: Database
) -> None:
    await store.declare(lifecycle)
    starts = {lifecycle.start, lifecycle.blocked}
    async with database.connect_owner() as owner:
        for state in lifecycle.states:
            for verb in ("submit", "submit_blocked", "claim"):
                query = (
                    "insert into holdfast.task (id, lifecycle, name, state, actor, verb, queue, max_attempts)"
                    " select holdfast.uuid7(), l.id, 'x', s.name, s.actor, $3, l.queue, 1 from holdfast.lifecycle l"
                    " join holdfast.state s on s.lifecycle = l.id where l.name = $1 and s.name = $2"
                )
                legal = (verb, state.name) in {("submit", lifecycle.start), ("submit_blocked", lifecycle.blocked)}
                if legal:
                    await owner.execute(query, lifecycle.name, state.name, verb)
                else:
                    with pytest.raises(asyncpg.PostgresError, match=r"not declared|a_live_task"):
                        await owner.execute(query, lifecycle.name, state.name, verb)
        assert set(await owner.fetchval("select array_agg(state) from holdfast.task")) == starts - {None}
        assert await owner.fetchval("select count(*) from holdfast.event") == len(starts - {None})


FORGERIES = {
    "another lease": "lease_token = gen_random_uuid(), lease_expires_at = now(), verb = 'later', version = version + 1,"
    " from_state = state",
    "a lease taken over": "lease_token = gen_random_uuid(), verb = 'claim', version = version + 1, from_state = state",
    "a lease dropped in silence": "lease_token = null, lease_expires_at = null",
    "a lease kept past its end": "verb = 'later', version = version + 1, from_state = state",
    "a wish to cancel that drops the lease": "lease_token = null, lease_expires_at = null, verb = 'ask_cancel',"
    " version = version + 1, from_state = state",
    "a version skipped": "version = version + 2, verb = 'later', from_state = state, lease_token = null,"
    " lease_expires_at = null",
    "a lie about where it was": "version = version + 1, verb = 'later', from_state = 'PENDING', lease_token = null,"
    " lease_expires_at = null",
    "attempts turned back": "attempt = 0, version = version + 1, verb = 'later', from_state = state,"
    " lease_token = null, lease_expires_at = null",
    "attempts skipped": "attempt = attempt + 2, version = version + 1, verb = 'later', from_state = state,"
    " lease_token = null, lease_expires_at = null",
    "another lifecycle": "lifecycle = lifecycle + 1, version = version + 1, verb = 'later', from_state = state,"
    " lease_token = null, lease_expires_at = null",
    "another id": "id = gen_random_uuid(), version = version + 1, verb = 'later', from_state = state,"
    " lease_token = null, lease_expires_at = null",
    "another actor": "actor = 'owner', version = version + 1, verb = 'later', from_state = state, lease_token = null,"
    " lease_expires_at = null",
    "only the due time": "due_at = now()",
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES.keys())
async def test_the_owner_of_the_tables_cannot_forge(forgery: str, database: Database) -> None:
    async with database.connect_owner() as owner:
        task = await place(owner, "batch", "IN_PROGRESS", leased=True)
        before = await owner.fetchrow("select * from holdfast.task where id = $1", task)
        with pytest.raises(asyncpg.PostgresError) as refused:
            await owner.execute(f"update holdfast.task set {forgery} where id = $1", task)
        assert refused.value.sqlstate in {"TK002", "23514"}
        assert await owner.fetchrow("select * from holdfast.task where id = $1", task) == before


@pytest.mark.parametrize("table", ["task_done", "task_done_rest"])
async def test_an_end_cannot_be_forged_beside_the_live_task_nor_out_of_nothing(table: str, database: Database) -> None:
    async with database.connect_owner() as owner:
        live = await place(owner, "batch", "IN_PROGRESS")
        for task, version in ((live, 1), (live, 2), (uuid4(), 0), (uuid4(), 1)):
            with pytest.raises(asyncpg.PostgresError, match="not declared"):
                await owner.execute(
                    f"insert into holdfast.{table} (id, lifecycle, name, state, actor, from_state, verb, version,"
                    " queue, max_attempts, outcome) select $1, l.id, 'x', 'COMPLETED', 'nobody', 'IN_PROGRESS', 'done',"
                    " $2, l.queue, 1, 'done' from holdfast.lifecycle l where l.name = 'batch'",
                    task, version,
                )  # fmt: skip


async def test_history_and_finished_tasks_never_change(store: Store, database: Database) -> None:
    async with database.connect_owner() as owner:
        task = await place(owner, "batch", "PENDING")
        await store.cancel(task)
        for statement in (
            "update holdfast.task_done set state = 'COMPLETED', outcome = 'done'",
            "update holdfast.task_done_rest set result = '1'",
            "update holdfast.event set to_state = 'COMPLETED'",
            "update holdfast.event_rest set data = '1'",
        ):
            with pytest.raises(asyncpg.PostgresError, match="never changed"):
                await owner.execute(statement)


async def test_the_application_may_execute_and_nothing_else(database: Database) -> None:
    async with database.connect_owner() as owner:
        relations = [row[0] for row in await owner.fetch(
            "select format('holdfast.%I', c.relname) from pg_class c where c.relnamespace = 'holdfast'::regnamespace"
            " and c.relkind in ('r', 'p', 'v', 'S') and c.relname <> 'test_clock'"
        )]  # fmt: skip
        hidden = [row[0] for row in await owner.fetch(
            "select p.proname from pg_proc p where p.pronamespace = 'holdfast'::regnamespace"
            " and not has_function_privilege('holdfast_app', p.oid, 'execute')"
        )]  # fmt: skip
    assert len(relations) > 20
    assert {"apply_moves", "move", "admit"} <= set(hidden)
    async with database.connect() as application:
        for relation in relations:
            for statement in ("select * from", "delete from", "truncate", "drop table"):
                with pytest.raises(asyncpg.PostgresError, match=REFUSALS):
                    await application.execute(f"{statement} {relation}")
        for statement in (
            "update holdfast.task set state = 'Completed'",
            "insert into holdfast.task_done (id) values (gen_random_uuid())",
            "insert into holdfast.event (task_id, version) values (gen_random_uuid(), 0)",
            "alter table holdfast.task disable trigger all",
            "set session_replication_role = replica",
            "create table holdfast.mine (x int)",
            "select holdfast.move(null, null, null, null)",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await application.execute(statement)
