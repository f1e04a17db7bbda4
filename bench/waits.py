"""`--waits`: where the time of a measured stretch went, as far as Postgres can tell.

Every 10 ms it looks at what each server process of the database is doing; besides, it counts the time in each function
(track_functions) and what was written to the log. This costs time itself: figures taken with it are for looking into,
not for comparing.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg

from holdfast.postgres.connections import open_connection

look_every_seconds = 0.01
flush_seconds = 1.5
functions_listed = 20

SETTINGS = {"track_functions": "all"}

DOING = """
select case when state = 'active' then coalesce(wait_event_type || ': ' || wait_event, 'on the processor')
            when state = 'idle' then 'idle' else state || ', ' || coalesce(wait_event, 'on the processor') end
from pg_stat_activity where datname = $1 and pid <> pg_backend_pid() and backend_type = 'client backend'
"""
FUNCTIONS = "select funcname as name, calls, total_time, self_time from pg_stat_user_functions"


@contextlib.asynccontextmanager
async def watching(
    owner_url: str, database: str, connections: Sequence[asyncpg.Connection]
) -> AsyncIterator[dict[str, Any]]:
    """Watch a database while the block runs; the answer is whole when it has ended.

    `connections`: those of this process, which are asked to hand in their counts at once.
    """
    seen: dict[str, Any] = {}
    async with open_connection(owner_url) as looker:
        await hand_in(connections)
        before = {row["name"]: row for row in await looker.fetch(FUNCTIONS)}
        written = await looker.fetchval("select pg_current_wal_insert_lsn()")
        over = asyncio.Event()
        looking = asyncio.create_task(look(looker, database, over))
        try:
            yield seen
        finally:
            over.set()
            looks, doing = await looking
        wal = await looker.fetchval("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)::bigint", written)
        await hand_in(connections)
        seen["looks"] = looks
        seen["wal_bytes"] = wal
        seen["doing"] = {what: number / max(looks, 1) for what, number in doing.most_common()}
        seen["functions"] = difference(before, await looker.fetch(FUNCTIONS))


async def look(looker: asyncpg.Connection, database: str, over: asyncio.Event) -> tuple[int, Counter[str]]:
    """How often it looked, and how many processes it met doing what."""
    looks = 0
    doing: Counter[str] = Counter()
    while not over.is_set():
        doing.update(row[0] for row in await looker.fetch(DOING, database))
        looks += 1
        await asyncio.sleep(look_every_seconds)
    return looks, doing


async def hand_in(connections: Sequence[asyncpg.Connection]) -> None:
    """Server processes keep their counts for a second; those of others hand them in with what they do next."""
    for connection in connections:
        await connection.fetch("select pg_stat_force_next_flush()")
    if not connections:
        await asyncio.sleep(flush_seconds)


def difference(before: dict[str, asyncpg.Record], after: list[asyncpg.Record]) -> list[dict[str, Any]]:
    """What each function took meanwhile, in milliseconds, the most by itself first."""
    spent = []
    for row in after:
        old = before.get(row["name"])
        calls, total, own = (row[key] - (old[key] if old else 0) for key in ("calls", "total_time", "self_time"))
        if calls > 0:
            spent.append({"name": row["name"], "calls": calls, "total_ms": total, "self_ms": own})
    return sorted(spent, key=lambda one: -one["self_ms"])


def text(label: str, seen: dict[str, Any]) -> str:
    """The same to be read."""
    lines = [f"  where it went: {label} ({seen['looks']} looks, {seen['wal_bytes'] / 1e6:.1f} MB of log written)"]
    lines += [f"    {number:6.2f} processes {what}" for what, number in seen["doing"].items() if number >= 0.005]
    lines += [f"    {'self ms':>10} {'total ms':>10} {'calls':>8}  function"]
    lines += [
        f"    {one['self_ms']:10.1f} {one['total_ms']:10.1f} {one['calls']:8}  {one['name']}"
        for one in seen["functions"][:functions_listed]
    ]
    return "\n".join(lines)
