"""The hot statements touch a bounded number of pages, however many tasks wait and however many have ended.

Every plan is made while the tables are empty, which is when a planner errs most, and kept while they fill; then made
anew with statistics, by which a planner errs otherwise.
"""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from holdfast.testing import Database, Ground

waiting, finished = 20_000, 40_000

FILL = f"""
set session_replication_role = replica;
insert into holdfast.task (id, lifecycle, name, state, actor, queue, priority, max_attempts, due_at)
select holdfast.uuid7(), l.id, 'work', 'Queued', 'worker', 'default', n % 10, 3,
       holdfast.now() + case when n % 4 = 0 then interval '1 hour' else - interval '1 second' * (n % 1000) end
from holdfast.lifecycle l, generate_series(1, {waiting}) n where l.name = 'dispatch';
insert into holdfast.input (id, payload) select id, '{{}}' from holdfast.task on conflict do nothing;
insert into holdfast.event (task_id, version, verb, from_state, to_state, attempt)
select id, 0, 'submit', '', 'Queued', 1 from holdfast.task on conflict do nothing;
insert into holdfast.task_done (id, lifecycle, name, state, actor, queue, max_attempts, outcome)
select holdfast.uuid7(), l.id, 'work', 'Completed', 'nobody', 'default', 3, 'done'
from holdfast.lifecycle l, generate_series(1, {finished}) n where l.name = 'dispatch';
insert into holdfast.event (task_id, version, verb, from_state, to_state, attempt)
select d.id, v, 'done', 'Running', 'Completed', 1 from holdfast.task_done d, generate_series(0, 2) v;
insert into holdfast.input (id, payload) select id, '{{}}' from holdfast.task_done;
insert into holdfast.usage (task_id, number, place, at, step, model, tokens_in, tokens_out, cost_micros, given, priced,
                            lifecycle, name, owner)
select d.id, 1, 1, holdfast.now() - interval '60 days', '', 'tiny', 1, 1, 1, true, false, d.lifecycle, d.name, d.owner
from holdfast.task_done d;
reset session_replication_role;
"""


async def buffers(connection: asyncpg.Connection, query: str, *arguments: object) -> int:
    """Pages touched by a query and everything that its functions do; undone at the end."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        plan = await connection.fetchval(f"explain (analyze, buffers, format json) {query}", *arguments)
    finally:
        await transaction.rollback()
    node = json.loads(plan)[0]["Plan"]
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


CLAIM = "select * from holdfast.claim('{default}', $1, '1 minute', 'w', '{work}')"
SETTLE = "select * from holdfast.settle($1, $2, $3, $4)"
HOT: dict[str, tuple[int, Callable[[list[asyncpg.Record]], tuple[str, tuple[Any, ...]]]]] = {
    "submit 1": (100, lambda _: ("select holdfast.submit('work')", ())),
    "submit 100": (5000, lambda _: ("select * from holdfast.submit_many($1, null, null)", (["dispatch"] * 100,))),
    "claim 1": (120, lambda _: (CLAIM, (1,))),
    "claim 100": (6000, lambda _: (CLAIM, (100,))),
    "settle 1 done": (150, lambda held: (SETTLE, settle(held[:1], "done"))),
    "settle 50 done": (4500, lambda held: (SETTLE, settle(held[:50], "done"))),
    "settle 50 later": (4000, lambda held: (SETTLE, settle(held[:50], "later"))),
    "settle 50 failed": (5500, lambda held: (SETTLE, settle(held[:50], "failed"))),
    "heartbeat 50": (1000, lambda held: (
        "select * from holdfast.heartbeat($1, $2, $3, '1 minute')", settle(held[:50], "")[:3])),
    "checkpoint 1": (100, lambda held: (
        "select * from holdfast.checkpoint($1, $2, $3, '{a}', '{1}')", settle(held[:1], "")[:3])),
    "cancel": (100, lambda held: ("select * from holdfast.cancel($1)", (held[0]["task_id"],))),
    "explain": (100, lambda held: ("select * from holdfast.explain($1)", (held[0]["task_id"],))),
    "read": (100, lambda held: ("select holdfast.read($1)", (held[0]["task_id"],))),
    "list the newest": (25000, lambda _: ("select * from holdfast.list_tasks()", ())),
    "list by a state": (200, lambda _: ("select * from holdfast.list_tasks(p_state => 'Dead')", ())),
    "list by an owner": (200, lambda _: ("select * from holdfast.list_tasks(p_owner => 'nobody')", ())),
    "list by a tag": (300, lambda _: ("select * from holdfast.list_tasks(p_tag => 'rare')", ())),
    "list by a name": (40000, lambda _: ("select * from holdfast.list_tasks(p_name => 'rare')", ())),
    "find an id": (100, lambda held: ("select * from holdfast.find_ids($1)", (str(held[0]["task_id"])[:12],))),
    "attempts": (100, lambda held: ("select * from holdfast.attempts($1)", (held[0]["task_id"],))),
    "tree": (100, lambda held: ("select * from holdfast.tree($1)", (held[0]["task_id"],))),
    "check a key": (150, lambda _: ("select * from holdfast.check_key('\\x00')", ())),
    "stats": (25000, lambda _: ("select * from holdfast.stats()", ())),
    "stats of an owner": (300, lambda _: ("select * from holdfast.stats('nobody')", ())),
    "metrics": (30000, lambda _: ("select * from holdfast.metrics()", ())),
    "costs": (200, lambda _: ("select * from holdfast.costs()", ())),
    "costs of an owner": (200, lambda _: ("select * from holdfast.costs('day', '-infinity', p_owner => 'ada')", ())),
    "cost of a task": (100, lambda held: ("select * from holdfast.cost_of($1)", (held[0]["task_id"],))),
    "take wake-ups": (6000, lambda _: ("select * from holdfast.take_wakeups(100)", ())),
    "which of them wait": (200, lambda held: ("select * from holdfast.which_wait($1)", (settle(held[:10], "")[0],))),
    "sweep with nothing to do": (300, lambda _: ("select * from holdfast.sweep()", ())),
}  # fmt: skip


def settle(held: list[asyncpg.Record], outcome: str) -> tuple[list[UUID], list[int], list[UUID], list[str]]:
    rows = [(row["task_id"], row["attempt"], row["token"], outcome) for row in held]
    ids, attempts, tokens, outcomes = map(list, zip(*rows, strict=True))
    return ids, attempts, tokens, outcomes


@pytest.mark.timeout(240)
async def test_hot_statements_touch_a_bounded_number_of_pages(every_ground: Ground) -> None:
    with every_ground.fresh_database() as database:
        await measure(database)


async def touched(connection: asyncpg.Connection, most: int, query: str, *arguments: object) -> int:
    """The pages of the cheaper of two calls, or of more while all are dear.

    The first call after an ANALYZE plans again, and one after many changes of catalogs (other tests make databases on
    this server) reads those again.
    """
    pages = min([await buffers(connection, query, *arguments) for _ in range(2)])
    for _ in range(3):
        if pages <= most:
            break
        pages = min(pages, await buffers(connection, query, *arguments))
    return pages


async def measure(database: Database) -> None:
    async with database.connect() as application, database.connect_owner() as owner:
        for _ in range(100):
            await application.fetchval("select holdfast.submit('work', priority => 9)")
        held = await application.fetch(CLAIM, 60)
        before = {}
        for name, (_, call) in HOT.items():
            query, arguments = call(held)
            before[name] = await buffers(application, query, *arguments)
        after = dict.fromkeys(HOT, 0)
        for then in (FILL, "analyze"):
            await owner.execute(then)
            for name, (_, call) in HOT.items():
                query, arguments = call(held)
                after[name] = max(after[name], await touched(application, HOT[name][0], query, *arguments))
        report = {name: (before[name], after[name], most) for name, (most, _) in HOT.items()}
    assert {name: seen for name, seen in report.items() if seen[1] > seen[2]} == {}, report


async def test_what_was_taken_is_not_read_past_again(database: Database) -> None:
    async with database.connect() as application, database.connect_owner() as owner:
        tasks = ["dispatch"] * 3000, ["work"] * 3000
        await application.execute("select * from holdfast.submit_many($1, $2, null)", *tasks)
        async with owner.transaction(isolation="repeatable_read"):  # no dead row and no entry of one goes away
            await owner.fetchval("select count(*) from holdfast.queue")
            for _ in range(4):
                taken = await application.fetch(CLAIM, 500)
                await application.execute(SETTLE, *settle(taken, "done"))
            first = min((row["due_at"], row["task_id"]) for row in taken)
            whole = await entries(application, CLAIM, 1)
            rest = await entries(application, CLAIM.replace(")", ", $2, $3)"), 1, *first)
    assert (whole, rest) == (2001, 501)


async def entries(connection: asyncpg.Connection, query: str, *arguments: object) -> int:
    """Entries of the index of what is ready that a query reads; undone at the end."""
    read = "select pg_stat_get_xact_tuples_returned('holdfast.task_ready'::regclass)"
    transaction = connection.transaction()
    await transaction.start()
    try:
        before = await connection.fetchval(read)
        await connection.execute(query, *arguments)
        return int(await connection.fetchval(read) - before)
    finally:
        await transaction.rollback()
