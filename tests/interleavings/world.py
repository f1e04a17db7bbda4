"""The scene in a database: looked at as a whole, put back as it was, and acted in by two sessions at once."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import asyncpg

from holdfast.engine.store.commands import Store
from holdfast.errors import HoldfastError
from holdfast.testing import Database
from tests.interleavings.scene import Scene, build
from tests.interleavings.verbs import PARTITIONS, VERBS

UUID_TEXT = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
UNTOLD = "new, untold"
NEW = re.compile(rf"new\d\.\d+|{UNTOLD}")
NAMED = re.compile(r'"(?:id|task_id|upstream|downstream|retry_of|limit_key)": "([^"]+)"')
LONGEST_SECONDS = 20

TASK = (
    "to_jsonb(r) || jsonb_build_object('lifecycle',"
    " (select l.name || l.version from holdfast.lifecycle l where l.id = r.lifecycle))"
)
TABLES = {
    "task": TASK,
    "task_done": f"({TASK}) - 'body_hash'",  # a repeat is told by it, or by verb and result
    "event": "to_jsonb(r) - 'xid'",
    "input": "to_jsonb(r)",
    "step": "to_jsonb(r)",
    "step_event": "to_jsonb(r)",
    "usage": "to_jsonb(r)",
    "price": "to_jsonb(r)",
    "dependency": "to_jsonb(r)",
    "key": "to_jsonb(r)",
    "slot": "to_jsonb(r)",
    "beat": "to_jsonb(r)",
    "inbox": "to_jsonb(r) - 'id'",
    "setback": "to_jsonb(r)",
    "worker": "to_jsonb(r)",
    "queue": "to_jsonb(r)",
    "budget": "to_jsonb(r)",
    "api_key": "to_jsonb(r) - 'hash'",
    "told": "to_jsonb(r)",
    "lifecycle": "to_jsonb(r) - 'id'",
    "tally": "to_jsonb(r)",
}
"""What is compared of each row."""

SUMS = "(select t.name, sum(t.number) from holdfast.tally t group by t.name)"
CATALOGUE = {"lifecycle": "id", "state": "lifecycle", "transition": "lifecycle"}
"""What only a declaration adds to, and by which column that is known."""
MET = {
    "task": "id", "task_done": "id", "key": "key", "slot": "key", "queue": "name", "worker": "id", "budget": "name",
    "lifecycle": "id", "beat": "task_id", "inbox": "id", "api_key": "id", "price": "model",
}  # fmt: skip
"""Where verbs wait for each other, and what a row is known by there."""
TASKS = {"task", "task_done"}
"""Nobody waits for a task that is new in one of these."""

LOOK = " union all ".join(
    f"select '{name}', ({row})::text from {SUMS if name == 'tally' else 'holdfast.' + name} r"
    for name, row in TABLES.items()
)

LOCKED = " union all ".join(
    f"select '{name}', r.{by}::text from holdfast.{name} r where r.xmax <> '0'"
    for name, by in MET.items()
    if name not in CATALOGUE  # which is not put back, and shows old locks
)

PUT_BACK = "\n".join(
    [
        "create function kept.put_back(changed text[], at timestamptz) returns void language plpgsql",
        "set session_replication_role = replica as $$ begin",
        *(
            f"if '{name}' = any (changed) then delete from holdfast.{name};"
            f" insert into holdfast.{name} overriding system value table kept.{name}; end if;"
            for name in TABLES.keys() - CATALOGUE.keys()
        ),
        "if 'lifecycle' = any (changed) then",
        *(
            f"delete from holdfast.{name} r where r.{by} not in (select id from kept.lifecycle);"
            for name, by in CATALOGUE.items()
        ),
        "end if;",
        "update holdfast.test_clock c set at = put_back.at; end $$",
    ]
)

State = Mapping[str, Sequence[str]]
Row = tuple[str, str]
"""A table, and what the row is known by in it."""


class Session:
    """One connection of the application, on which nothing is tried a second time."""

    def __init__(self, name: str, connection: asyncpg.Connection) -> None:
        self.name = name
        self.connection = connection
        self.pid: int = connection.get_server_pid()
        self.store = Store(connection)

    async def call(self, verb: str, scene: Scene) -> str:
        """What the verb answers, or what it is refused with."""
        try:
            return repr(await (VERBS | PARTITIONS)[verb](self.store, scene))
        except asyncpg.DeadlockDetectedError as error:
            return f"DEADLOCK {error} {error.detail}"
        except (HoldfastError, asyncpg.PostgresError) as error:
            return f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class Outcome:
    """What the verbs answered, in the order in which they are named, and what they left behind."""

    answers: tuple[str, ...]
    state: State
    waited: bool = False

    def left(self) -> dict[str, list[str]]:
        """The state without telling new ids and tokens apart, for verbs that were called more than once."""
        return {name: sorted(map(nameless, rows)) for name, rows in self.state.items()}


def nameless(text: str) -> str:
    return NEW.sub("new", text)


class World:
    """The scene, two actors and an owner who looks and puts back."""

    def __init__(
        self, owner: asyncpg.Connection, watcher: asyncpg.Connection, sessions: list[Session], scene: Scene
    ) -> None:
        self.owner = owner
        self.watcher = watcher
        self.sessions = sessions
        self.scene = scene
        self.names = scene.named()
        self.first: State = {}
        self.met: dict[str, frozenset[Row]] = {}
        self.named: dict[str, frozenset[str]] = {}
        self._last: State = {}
        self._puts = 0
        self._alone: dict[tuple[str, bool], Outcome] = {}

    async def keep(self) -> None:
        """Remember the scene as it is now."""
        copies = "".join(f"create table kept.{name} as table holdfast.{name};" for name in TABLES)
        await self.owner.execute(f"create schema kept; {copies} {PUT_BACK}")
        self.first = self._last = await self.look({})
        for verb in VERBS:
            self.met[verb], self.named[verb] = await self.rows_met(verb)

    async def look(self, names: dict[str, str]) -> State:
        """All rows, as text, with names in place of ids."""
        state: dict[str, list[str]] = {name: [] for name in TABLES}
        named = self.names | names
        for table, row in await self.owner.fetch(LOOK):
            state[table].append(UUID_TEXT.sub(lambda found: named.get(found[0], UNTOLD), row))
        return {name: sorted(rows) for name, rows in state.items()}

    async def put_back(self, *, late: bool, whole: bool = False) -> None:
        """The scene as it was, before or after all its leases and limits have ended."""
        changed = [name for name in TABLES if whole or self._last[name] != self.first[name]]
        at = self.scene.now + timedelta(minutes=16 if late else 0)
        await self.owner.execute("select kept.put_back($1, $2)", changed, at)
        self._puts += 1
        if self._puts % 100 == 0:  # nothing else clears the dead rows away
            await self.owner.execute(f"vacuum {', '.join('holdfast.' + name for name in TABLES)}")
        self._last = self.first

    async def settle_down(self, answers: Sequence[str], waited: bool = False) -> Outcome:
        """The outcome, with new ids and tokens named after whoever was told of them first."""
        names: dict[str, str] = {}
        for place, answer in enumerate(answers):
            for found in UUID_TEXT.findall(answer):
                if found not in self.names:
                    names.setdefault(found, f"new{place}.{len(names)}")
        answers = tuple(
            UUID_TEXT.sub(lambda found: (self.names | names).get(found[0], UNTOLD), answer) for answer in answers
        )
        self._last = await self.look(names)
        return Outcome(answers, self._last, waited)

    async def serially(self, verbs: Sequence[str], order: Sequence[int], *, late: bool) -> Outcome:
        """The verbs one after the other in this order; the last answer of each, as the verbs are named."""
        await self.put_back(late=late)
        answers = [""] * len(verbs)
        for place in order:
            answers[place] = await self.sessions[place].call(verbs[place], self.scene)
        wrong = await self.owner.fetch("select * from holdfast.verify()")
        assert not wrong, f"{[verbs[place] for place in order]} one after the other: {wrong}"
        return await self.settle_down(answers)

    async def alone(self, verb: str, *, late: bool) -> Outcome:
        """What the verb does when nobody is beside it."""
        if (verb, late) not in self._alone:
            self._alone[verb, late] = await self.serially([verb], [0], late=late)
        return self._alone[verb, late]

    async def beside(self, first: str, second: str, *, late: bool, ending: str, again: bool = False) -> Outcome:
        """The second while the first one's transaction is open, which ends once the second waits or has its answer."""
        await self.put_back(late=late)
        a, b = self.sessions[:2]
        await a.connection.execute("begin")
        before = await a.call(first, self.scene)
        calling = asyncio.create_task(b.call(second, self.scene))
        waited = await self.waits(b, calling)
        await a.connection.execute(ending)
        after = await answer(calling)
        if again:
            after = await b.call(second, self.scene)
        return await self.settle_down([before, after], waited)

    async def queued(self, verbs: Sequence[str], row: Row, *, late: bool) -> Outcome | None:
        """All of them, lined up in this order before a row that somebody has locked; None if the first one passes."""
        await self.put_back(late=late)
        await self.owner.execute("begin")
        await self.owner.execute(f"select from holdfast.{row[0]} r where r.{MET[row[0]]}::text = $1 for update", row[1])
        callings: list[asyncio.Task[str]] = []
        for session, verb in zip(self.sessions, verbs, strict=False):
            callings.append(asyncio.create_task(session.call(verb, self.scene)))
            await self.waits(session, callings[-1])
        stopped = not callings[0].done()
        await self.owner.execute("rollback")
        outcome = await self.settle_down([await answer(calling) for calling in callings], stopped)
        return outcome if stopped else None

    async def waits(self, session: Session, calling: asyncio.Task[str]) -> bool:
        """Return once this session waits for another one's lock, or has its answer; whether it waits."""
        while not (await asyncio.wait([calling], timeout=0.002))[0]:
            if await self.watcher.fetchval("select cardinality(pg_blocking_pids($1)) > 0", session.pid):
                return not calling.done()
        return False

    async def rows_met(self, verb: str) -> tuple[frozenset[Row], frozenset[str]]:
        """The rows that a verb locks or changes, as others see it; and for what it adds, the table as a whole.

        Besides, the tasks and limits that what it writes speaks of: those it should have locked.
        """
        await self.put_back(late=False, whole=True)
        session = self.sessions[0]
        await session.connection.execute("begin")
        await session.call(verb, self.scene)
        locked = await self.owner.fetch(LOCKED)
        await session.connection.execute("commit")
        done = await self.settle_down([])
        added = {(name, "") for name in MET if name not in TASKS and len(done.state[name]) > len(self.first[name])}
        written = (row for name in done.state for row in set(done.state[name]) ^ set(self.first[name]))
        named = {name for row in written for name in NAMED.findall(row) if not NEW.fullmatch(name)}
        return frozenset((name, row) for name, row in locked) | added, frozenset(named)

    def meet(self, first: str, second: str) -> bool:
        """Whether these two lock, change or speak of the same."""
        return bool(self.met[first] & self.met[second] or self.named[first] & self.named[second])

    def common(self, first: str, second: str) -> list[Row]:
        return sorted(self.met[first] & self.met[second])


async def answer(calling: asyncio.Task[str]) -> str:
    """What a session is told once nobody stands in its way any more."""
    async with asyncio.timeout(LONGEST_SECONDS):
        return await calling


@contextlib.asynccontextmanager
async def opened(database: Database) -> AsyncIterator[World]:
    async with contextlib.AsyncExitStack() as stack:
        owner = await stack.enter_async_context(database.connect_owner())
        watcher = await stack.enter_async_context(database.connect_owner())
        scene = await build(database, owner)
        sessions = [Session(name, await stack.enter_async_context(database.connect())) for name in "ABC"]
        world = World(owner, watcher, sessions, scene)
        await world.keep()
        yield world
