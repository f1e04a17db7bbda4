"""What the owner of the schema sees: every row that a verb may change, as of one moment between two calls."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from holdfast.kernel.task import Lease

Row = Mapping[str, Any]

TASKS = "select t.*, l.name as machine from holdfast.{} t join holdfast.lifecycle l on l.id = t.lifecycle order by t.id"
EVENTS = "select * from holdfast.event order by xid, task_id, version offset $1"
EXPLAINED = """
  select t.id, e.reason from (select id from holdfast.task union all select id from holdfast.task_done) t
  cross join lateral holdfast.explain(t.id) e"""
TABLES = """
  select relname::text from pg_class
  where relnamespace = 'holdfast'::regnamespace and relkind in ('r', 'p') and not relispartition
    and relname not in ('lifecycle', 'state', 'transition', 'queue', 'migration', 'release', 'test_clock')"""
BEGIN = """
  update holdfast.queue set paused_at = null, paused_by = null;
  update holdfast.test_clock set at = '2030-01-01 00:00:00+00'"""

# The same choices must make the same history, or Hypothesis cannot reduce it: luck is taken out of the backoff. (The
# first wait is a second, so what lies above a power of two is luck.)
WITHOUT_LUCK = """
  alter function holdfast.backoff(smallint, int) rename to backoff_with_luck;
  create function holdfast.backoff(p_lifecycle smallint, p_tries int) returns interval language sql as $$
    select make_interval(secs => 2 ^ floor(log(2, extract(epoch from holdfast.backoff_with_luck($1, $2)))))
  $$"""


@dataclass(frozen=True)
class Seen:
    """One moment. Two moments are equal if no row differs."""

    now: datetime = field(compare=False)
    live: dict[UUID, Row]
    done: dict[UUID, Row]
    steps: dict[tuple[UUID, str], Row]
    edges: dict[tuple[UUID, UUID], Row]
    beats: dict[UUID, Row]
    inbox: Counter[UUID]
    allowed: dict[str, int]
    paused: frozenset[str]
    keys: dict[str, UUID]
    setbacks: list[Row]
    events: list[Row] = field(compare=False)
    """Those that are new since the look before."""

    def row(self, task: UUID) -> Row:
        return self.live[task] if task in self.live else self.done[task]

    def held(self) -> list[UUID]:
        return [task for task, row in self.live.items() if row["lease_token"]]

    def expired(self, row: Row) -> bool:
        """A lease that neither itself nor its heartbeat keeps any longer."""
        beat = self.beats.get(row["id"])
        until = row["lease_expires_at"]
        if beat and beat["token"] == row["lease_token"]:
            until = max(until, beat["expires_at"])
        return bool(until < self.now)

    def claimable(self, row: Row) -> bool:
        return bool(
            row["actor"] == "worker"
            and row["lease_token"] is None
            and row["parked"] is None
            and row["due_at"] <= self.now
            and (row["deadline"] is None or row["deadline"] > self.now)
            and row["queue"] not in self.paused
        )

    def admitted(self) -> Counter[str]:
        """How many tasks of each limit key are with a worker, or next in line for one."""
        return Counter(
            row["limit_key"]
            for row in self.live.values()
            if row["limit_key"] and row["actor"] == "worker" and row["parked"] is None
        )

    def starving(self) -> set[str]:
        """The limit keys that have room while somebody waits for it whose time has come."""
        admitted = self.admitted()
        return {
            row["limit_key"]
            for row in self.live.values()
            if row["parked"] == "limit"
            and row["due_at"] <= self.now
            and (row["deadline"] is None or row["deadline"] > self.now)
            and admitted[row["limit_key"]] < self.allowed[row["limit_key"]]
        }

    def leads_to(self, start: UUID) -> set[UUID]:
        """Who cannot end before this task does, because they wait for it, for whoever waits for it, and so on. A parent
        waits for its children only if it gathers them.
        """
        found: set[UUID] = set()
        ahead = [start]
        while ahead:
            task = ahead.pop()
            if task in found or task not in self.live:
                continue
            found.add(task)
            ahead += [
                downstream
                for (upstream, downstream), edge in self.edges.items()
                if upstream == task and (edge["policy"] != "gather" or self.row(downstream)["machine"] == "ingest")
            ]
        return found


class Window:
    """The owner's connection, through which a run is watched and its clock is moved."""

    def __init__(self, connection: asyncpg.Connection, call: Callable[..., Any]) -> None:
        self._call = call
        self._connection = connection
        self._events = 0
        self._call(connection.execute, WITHOUT_LUCK)
        tables = [row["relname"] for row in self._call(connection.fetch, TABLES)]
        self._clear = "".join(f"delete from holdfast.{table};" for table in tables) + BEGIN

    def clear(self) -> None:
        """Begin anew: no task, no pause, the first moment of 2030."""
        self._call(self._connection.execute, self._clear)
        self._events = 0

    def advance(self, by: timedelta) -> None:
        self._call(self._connection.execute, "update holdfast.test_clock set at = at + $1", by)

    def look(self) -> Seen:
        seen: Seen = self._call(self._look)
        self._events += len(seen.events)
        return seen

    def explain_all(self) -> dict[UUID, str]:
        """The reason of every task."""
        return {row["id"]: row["reason"] for row in self._call(self._connection.fetch, EXPLAINED)}

    def retry_of(self, task: UUID) -> UUID | None:
        found: UUID | None = self._call(
            self._connection.fetchval, "select retry_of from holdfast.input where id = $1", task
        )
        return found

    async def _look(self) -> Seen:
        ask = self._connection.fetch
        return Seen(
            now=await self._connection.fetchval("select holdfast.now()"),
            live={row["id"]: row for row in await ask(TASKS.format("task"))},
            done={row["id"]: row for row in await ask(TASKS.format("task_done"))},
            steps={(row["task_id"], row["name"]): row for row in await ask("select * from holdfast.step")},
            edges={(row["upstream"], row["downstream"]): row for row in await ask("select * from holdfast.dependency")},
            beats={row["task_id"]: row for row in await ask("select * from holdfast.beat")},
            inbox=Counter(row["task_id"] for row in await ask("select task_id from holdfast.inbox")),
            allowed={row["key"]: row["allowed"] for row in await ask("select * from holdfast.slot")},
            paused=frozenset(
                row["name"] for row in await ask("select name from holdfast.queue where paused_at is not null")
            ),
            keys={row["key"]: row["task_id"] for row in await ask("select key, task_id from holdfast.key")},
            setbacks=await ask("select * from holdfast.setback"),
            events=await ask(EVENTS, self._events),
        )


def said(row: Row, word: str) -> Any:
    """What a task's note, or an event's data, says about this."""
    note = row["data"] if "data" in row else row["note"]
    return json.loads(note).get(word) if note else None


def proof(lease: Lease) -> tuple[UUID, int]:
    return lease.token, lease.attempt
