"""What the owner of the schema sees: every row that a verb may change, as of one moment between two calls."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

import asyncpg

from holdfast.engine.lifecycle.model import Lifecycle
from holdfast.engine.task import Lease
from holdfast.lifecycles import LIFECYCLES
from tests.promises.stage import POLLED

Row = Mapping[str, Any]

# One statement reads one moment: of the tables that grow, only the rows that were written since the look before ($1 is
# the first transaction that it could not see); of those that also shrink, who is still there.
LOOK = """
  select holdfast.now() as now, pg_snapshot_xmax(pg_current_snapshot())::text as upto,
    array(select t.id from holdfast.task t order by t.id) as alive,
    array(select t from holdfast.task t where age(t.xmin) <= age($1::text::xid8::xid)) as live,
    array(select t from holdfast.task_done t where age(t.xmin) <= age($1::text::xid8::xid) order by t.id) as done,
    array(select s from holdfast.step s where age(s.xmin) <= age($1::text::xid8::xid)) as steps,
    array(select d from holdfast.dependency d where age(d.xmin) <= age($1::text::xid8::xid)) as edges,
    array(select b from holdfast.beat b) as beats,
    array(select i.task_id from holdfast.inbox i) as inbox,
    array(select s from holdfast.slot s) as slots,
    array(select q.name from holdfast.queue q where q.paused_at is not null) as paused,
    array(select k from holdfast.key k) as keys,
    array(select s from holdfast.setback s) as setbacks,
    array(select e from holdfast.event e where e.xid >= $1::text::xid8 order by e.xid, e.task_id, e.version) as events,
    array(select e from holdfast.effect e where age(e.xmin) <= age($1::text::xid8::xid)) as effects"""
EVERYTHING = "3"  # the first transaction of all
EXPLAINED = """
  select t.id, e.reason from (select id from holdfast.task union all select id from holdfast.task_done) t
  cross join lateral holdfast.explain(t.id) e"""
TABLES = """
  select relname::text from pg_class
  where relnamespace = 'holdfast'::regnamespace and relkind in ('r', 'p') and not relispartition
    and relname not in ('lifecycle', 'state', 'transition', 'queue', 'migration', 'release', 'test_clock')"""
BEGIN = """
  update holdfast.queue set paused_at = null, paused_by = null;
  update holdfast.test_clock set at = '2030-01-01 00:00:00+00';
  alter sequence holdfast.luck restart"""

# The same choices must make the same history, or nobody can tell it again: luck is taken out of the backoff (the first
# wait is a second, so what lies above a power of two is luck) and out of the ids, whose order within a millisecond
# stays as mixed as it was.
WITHOUT_LUCK = """
  alter function holdfast.backoff(smallint, int) rename to backoff_with_luck;
  create function holdfast.backoff(p_lifecycle smallint, p_tries int) returns interval language sql as $$
    select make_interval(secs => 2 ^ floor(log(2, extract(epoch from holdfast.backoff_with_luck($1, $2)))))
  $$;
  create sequence holdfast.luck;
  create or replace function holdfast.uuid7() returns uuid language sql as $$
    select (lpad(to_hex(floor(extract(epoch from holdfast.now()) * 1000)::bigint), 12, '0')
            || '7' || substr(d, 1, 3) || 'a' || substr(d, 4, 15))::uuid
    from md5(nextval('holdfast.luck')::text) d
  $$;
  create or replace function holdfast.new_ids(p_n int) returns uuid[] language sql as $$
    select array(select holdfast.uuid7() as u from generate_series(1, p_n) order by u)
  $$"""

# Two of the lifecycles have effects here, so that what is told can be compared with what has happened.
WITH_EFFECTS = ("pipeline", "ingest_item")
EFFECTS = f"""
  create table holdfast.effect (task_id uuid, verb text, step text, from_state text, to_state text, attempt int);
  create function holdfast.tell(moved holdfast.moved[]) returns void language sql as $$
    insert into holdfast.effect
    select m.task_id, m.verb, m.step, m.from_state, m.to_state, m.attempt from unnest(moved) m
  $$;
  update holdfast.lifecycle set effects = 'tell' where name in {WITH_EFFECTS};
  update holdfast.transition x set effects = l.effects from holdfast.lifecycle l where l.id = x.lifecycle"""


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
    effects: list[Row] = field(compare=False)
    """What the lifecycles that have effects were told since then."""
    touched: frozenset[UUID] = field(compare=False)
    """The tasks of which a row was written since then."""
    machines: Mapping[int, Lifecycle] = field(compare=False, repr=False)

    def machine(self, task: UUID) -> Lifecycle:
        return self.machines[self.row(task)["lifecycle"]]

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

    @cached_property
    def admitted(self) -> Counter[str]:
        """How many tasks of each limit key are with a worker, or next in line for one."""
        return Counter(
            row["limit_key"]
            for row in self.live.values()
            if row["limit_key"] and row["actor"] == "worker" and row["parked"] is None
        )

    @cached_property
    def starving(self) -> set[str]:
        """The limit keys that have room while somebody waits for it whose time has come."""
        return {
            row["limit_key"]
            for row in self.live.values()
            if row["parked"] == "limit"
            and row["due_at"] <= self.now
            and (row["deadline"] is None or row["deadline"] > self.now)
            and self.admitted[row["limit_key"]] < self.allowed[row["limit_key"]]
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
                if upstream == task and (edge["policy"] != "gather" or self.machine(downstream).name == "ingest")
            ]
        return found


class Window:
    """The owner's connection, through which a run is watched and its clock is moved."""

    def __init__(self, connection: asyncpg.Connection, call: Callable[..., Any]) -> None:
        self._call = call
        self._connection = connection
        for change in (WITHOUT_LUCK, EFFECTS):
            self._call(connection.execute, change)
        for declare, given in (("declare", json.dumps(POLLED.definition())), ("make_queue", POLLED.queue)):
            self._call(connection.execute, f"select holdfast.{declare}($1)", given)
        tables = [row["relname"] for row in self._call(connection.fetch, TABLES)]
        self._clear = f"truncate {', '.join(f'holdfast.{table}' for table in tables)}; {BEGIN}"
        found = self._call(connection.fetch, "select id, name from holdfast.lifecycle")
        declared = {machine.name: machine for machine in (*LIFECYCLES, POLLED)}
        self._machines = {row["id"]: declared[row["name"]] for row in found}
        self._upto = EVERYTHING
        self._seen: Seen | None = None

    def break_function(self, name: str, was: str, is_now: str) -> None:
        """Put a bug into a function of the kernel."""
        find = (
            "select pg_get_functiondef(oid) from pg_proc where pronamespace = 'holdfast'::regnamespace and proname = $1"
        )
        body = self._call(self._connection.fetchval, find, name)
        assert was in body, f"{name} does not say {was!r} any more"
        self._call(self._connection.execute, body.replace(was, is_now))

    def clear(self) -> None:
        """Begin anew: no task, no pause, the first moment of 2030."""
        self._call(self._connection.execute, self._clear)
        self._upto, self._seen = EVERYTHING, None

    def advance(self, by: timedelta) -> datetime:
        """The new time."""
        now: datetime = self._call(
            self._connection.fetchval, "update holdfast.test_clock set at = at + $1 returning at", by
        )
        return now

    def look(self) -> Seen:
        """This moment: what was seen before, and what was written since."""
        new = self._call(self._connection.fetchrow, LOOK, self._upto)
        self._upto, self._seen = new["upto"], self._with(new, self._seen)
        return self._seen

    def look_anew(self) -> Seen:
        """This moment, from nothing but the tables."""
        return self._with(self._call(self._connection.fetchrow, LOOK, EVERYTHING), None)

    def explain_all(self) -> dict[UUID, str]:
        """The reason of every task."""
        return {row["id"]: row["reason"] for row in self._call(self._connection.fetch, EXPLAINED)}

    def retry_of(self, task: UUID) -> UUID | None:
        found: UUID | None = self._call(
            self._connection.fetchval, "select retry_of from holdfast.input where id = $1", task
        )
        return found

    def _with(self, new: Row, was: Seen | None) -> Seen:
        live = {row["id"]: row for row in new["live"]}
        done = {row["id"]: row for row in new["done"]}
        steps = {(row["task_id"], row["name"]): row for row in new["steps"]}
        edges = {(row["upstream"], row["downstream"]): row for row in new["edges"]}
        touched = {*live, *done, *(task for task, _ in steps), *(task for edge in edges for task in edge)}
        if was:
            touched |= was.live.keys() - set(new["alive"])
        before = was.live if was else {}
        return Seen(
            now=new["now"],
            live={task: live[task] if task in live else before[task] for task in new["alive"]},
            done={**was.done, **done} if was else done,
            steps={**was.steps, **steps} if was else steps,
            edges={**was.edges, **edges} if was else edges,
            beats={row["task_id"]: row for row in new["beats"]},
            inbox=Counter(new["inbox"]),
            allowed={row["key"]: row["allowed"] for row in new["slots"]},
            paused=frozenset(new["paused"]),
            keys={row["key"]: row["task_id"] for row in new["keys"]},
            setbacks=new["setbacks"],
            events=new["events"],
            effects=new["effects"],
            touched=frozenset(touched),
            machines=self._machines,
        )


def note_value(row: Row, key: str) -> Any:
    """What a task's note, or an event's data, says about this."""
    note = row["data"] if "data" in row else row["note"]
    return json.loads(note).get(key) if note else None


def proof(lease: Lease) -> tuple[UUID, int]:
    return lease.token, lease.attempt
