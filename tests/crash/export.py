"""From the database and the histories to a World."""

import json
from collections import defaultdict
from pathlib import Path

import asyncpg

from tests.crash import storm_app as app
from tests.crash.history import read_histories
from tests.crash.world import Row, World

SETTINGS = {"track_commit_timestamp": "on"}
"""What the server needs, so that it can tell when an event was committed."""

TASKS = """
select t.id::text, t.lifecycle::int, t.name, t.state, t.version, t.attempt, t.max_attempts, t.limit_key,
       t.outcome::text, t.token::text, t.result, (i.payload ->> 'number')::bigint as number,
       l.effects is not null as charges
from (select id, lifecycle, name, state, version, attempt, max_attempts, limit_key, null::holdfast.outcome as outcome,
             null::uuid as token, null::jsonb as result from holdfast.task
      union all
      select id, lifecycle, name, state, version, attempt, max_attempts, limit_key, outcome, token, result
      from holdfast.task_done) t
join holdfast.input i on i.id = t.id join holdfast.lifecycle l on l.id = t.lifecycle
"""
EVENTS = """
select task_id::text as task, version, verb, from_state as "from", to_state as "to", attempt, worker_id as worker,
       data ->> 'kind' as cause, extract(epoch from at)::float8 as at,
       extract(epoch from pg_xact_commit_timestamp(xid::xid))::float8 as committed
from holdfast.event order by task_id, version
"""
STEPS = """
select task_id::text as task, name as step, token::text, extract(epoch from at)::float8 as at
from holdfast.step where done
"""
WALLET = "select task_id::text as task, what, version from holdfast.storm_wallet"
KEYS = "select key, task_id::text as task from holdfast.key"
MOVES = "select lifecycle::int, from_state, verb, to_state, bump::int from holdfast.transition"
FINALS = "select lifecycle::int, name from holdfast.state where actor = 'nobody'"
LIMITS = "select key, allowed from holdfast.slot"


async def export(owner: asyncpg.Connection, histories: Path, lease_seconds: float) -> World:
    events: dict[str, list[Row]] = defaultdict(list)
    for row in await owner.fetch(EVENTS):
        events[row["task"]].append(dict(row))
    tasks = {}
    for row in await owner.fetch(TASKS):
        tasks[row["id"]] = {**row, "result": None if row["result"] is None else json.loads(row["result"])}
    return World(
        lines=list(read_histories(histories)),
        tasks=tasks,
        events=dict(events),
        steps=[dict(row) for row in await owner.fetch(STEPS)],
        wallet=[dict(row) for row in await owner.fetch(WALLET)],
        keys=[dict(row) for row in await owner.fetch(KEYS)],
        moves={
            (row["lifecycle"], row["from_state"], row["verb"]): (row["to_state"], row["bump"])
            for row in await owner.fetch(MOVES)
        },
        finals={(row["lifecycle"], row["name"]) for row in await owner.fetch(FINALS)},
        lease_seconds=lease_seconds,
        limits={row["key"]: row["allowed"] for row in await owner.fetch(LIMITS)},
        retry_seconds=app.retry_seconds,
    )
