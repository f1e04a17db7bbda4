"""Documents are ingested by workers that are killed all the while: every good one is found, and no step is done twice.

Two witnesses tell what happened: the database, and a ledger to which each step writes when it begins and when it ends.
"""

import asyncio
import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import psutil
import pytest

from holdfast.lifecycles.ingest.declaration import STEPS
from holdfast.objects.scratch import scratch
from holdfast.settings import Settings
from holdfast.testing import Database
from holdfast.testing.engine import Engine
from tests.eventually import eventually
from tests.lifecycles.ingest.harness import Harness, harness_at
from tests.lifecycles.ingest.ledger import Ledger
from tests.lifecycles.ingest.papers import Paper, papers
from tests.worker.crew import Crew, Worker

seed = 4
lease_seconds = 4.0
slots = 3
pause_seconds = 0.05
claimed_within_seconds = 0.2

ON_LAST_ATTEMPT = "select exists (select from holdfast.task t where t.lease_token is not null and t.crashes > 1)"
"""The third loss of a worker ends a task: whoever kills looks first, so that it is never the killer's doing."""

KEPT = "select s.task_id::text as item, s.name as step, s.token::text from holdfast.step s where s.done"
USED = "select sum(u.cost_micros) from holdfast.usage u"


@dataclass(frozen=True)
class Size:
    """How much is asked for, and how hard it is made. There must be `least` kills and there are `most` at most."""

    documents: int
    workers: int
    pauses: tuple[float, float]
    least: int
    most: int
    within: float


@dataclass
class Assault:
    """Workers in so many places, killed one after the other and replaced."""

    crew: Crew
    ledger: Ledger
    owner: asyncpg.Connection
    size: Size
    kills: Counter[str] = field(default_factory=Counter)
    manned: dict[int, Worker] = field(default_factory=dict)
    over: bool = False

    @contextlib.asynccontextmanager
    async def raging(self) -> AsyncIterator[None]:
        places = [asyncio.create_task(self._keep(place)) for place in range(self.size.workers)]
        killing = asyncio.create_task(self._kill())
        try:
            yield
        finally:
            self.over = True
            await asyncio.gather(*places, killing)

    async def _keep(self, place: int) -> None:
        while not self.over:
            worker = self.manned.get(place)
            if worker is None or worker.process.poll() is not None:
                self.manned[place] = await asyncio.to_thread(self._start)
            await asyncio.sleep(0.05)

    def _start(self) -> Worker:
        return self.crew.start(
            app="tests.lifecycles.ingest.watched_app:hf", lease_seconds=lease_seconds, slots=slots
        )  # fmt: skip

    async def _kill(self) -> None:
        """Whoever is at work, if anything has been done since the last one was killed."""
        rng, seen, bag = random.Random(seed), 0, list[str]()  # noqa: S311
        while not self.over and self.kills.total() < self.size.most:
            await asyncio.sleep(rng.uniform(*self.size.pauses))
            alive = [worker for worker in self.manned.values() if worker.process.poll() is None and worker.runners()]
            done = len(self.ledger.lines())
            if not alive or done < seen + slots:
                continue
            bag = bag or rng.sample(["runner", "supervisor", "worker"], 3)
            if await self._strike(rng.choice(alive), bag[-1]):
                self.kills[bag.pop()] += 1
                seen = done

    async def _strike(self, worker: Worker, kind: str) -> bool:
        """Stop it, so that it claims nothing more; kill it, unless that would end somebody; let the rest go on."""
        struck = [*worker.runners(), worker.supervisor]
        with contextlib.suppress(psutil.NoSuchProcess):
            worker.signal(signal.SIGSTOP)
        await asyncio.sleep(claimed_within_seconds)
        spared = bool(await self.owner.fetchval(ON_LAST_ATTEMPT))
        for process in struck:
            is_hit = not spared and (kind == "worker" or (kind == "supervisor") == (process == worker.supervisor))
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL if is_hit else signal.SIGCONT)
        return not spared


@pytest.fixture
def crew(crew: Crew) -> Crew:
    (crew.folder / "scratch").mkdir()
    crew.environment |= {"TMPDIR": f"{crew.folder}/scratch", "PAUSE_SECONDS": str(pause_seconds)}
    return crew


@pytest.fixture
async def user(live: Database, tmp_path: Path) -> AsyncIterator[Harness]:
    """A user of a server on the same database and the same objects, who is asked whether all is sound in the end."""
    async with harness_at(Engine(live), Settings(home=tmp_path), tmp_path / "papers") as harness:
        yield harness


SMALL = Size(20, 2, (0.4, 1.0), least=3, most=5, within=240)
LARGE = Size(200, 3, (1.0, 2.5), least=15, most=40, within=800)
SIZES = [
    pytest.param(SMALL, id="20 documents", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    pytest.param(LARGE, id="200 documents", marks=[pytest.mark.long, pytest.mark.timeout(900)]),
]


@pytest.mark.parametrize("size", SIZES)
async def test_documents_are_ingested_whoever_is_killed(crew: Crew, user: Harness, live: Database, size: Size) -> None:
    given = {paper.path.as_uri(): paper for paper in papers(size.documents, seed, user.folder)}
    ledger = Ledger(crew.ledger)
    async with live.connect_owner() as owner:
        assault = Assault(crew, ledger, owner, size)
        began = time.monotonic()
        async with assault.raging():
            run = await user.begin(*given)
            await eventually(lambda: has_ended(user, run), "its end", within=size.within)
        seconds = time.monotonic() - began
        items: list[dict[str, Any]] = (await user.get(f"/ingest/runs/{run}/items", limit=200))["items"]
        check_ends(items, given)
        resumed = check_steps(ledger, await owner.fetch(KEPT), items, given)
        await check_costs(user, run, items, ledger, await owner.fetchval(USED))
        assert not await owner.fetch("select from holdfast.chunk c where not holdfast.is_current(c.version)")
    print(  # noqa: T201
        f"\n{size.documents} documents in {seconds:.0f} s, kills {dict(assault.kills)}, {resumed} steps kept for others"
    )
    await check_run(user, run, items)
    await check_inbox(user, items, given)
    await check_found(user, given)
    with scratch(crew.folder / "scratch"):
        assert len(list((crew.folder / "scratch").glob("holdfast-scratch-*"))) == 1  # the dead have left nothing
    assert assault.kills.total() >= size.least, "vacuous: hardly anybody was killed"
    assert resumed > 0, "vacuous: nobody was killed at work"


async def has_ended(user: Harness, run: str) -> bool:
    return bool((await user.run(run))["status"] != "RUNNING")


def check_steps(
    ledger: Ledger, kept: list[asyncpg.Record], items: list[dict[str, Any]], given: dict[str, Paper]
) -> int:
    """After the call that was kept, nobody began this step of this item. How many were kept for a later attempt."""
    places: dict[tuple[str, str], list[str]] = {}
    last: dict[str, str] = {}
    for line in ledger.lines():
        if line.what == "begin":
            places.setdefault((line.item, line.step), []).append(line.token)
            last[line.item] = line.token
    rows = {(row["item"], row["step"]): row["token"] for row in kept}
    for where, token in rows.items():
        assert places[where][-1] == token, f"{where} was begun again after it was kept"
        assert places[where].count(token) == 1
    for item in items:
        done = {step for one, step in rows if one == item["item_id"]}
        assert done == (set(STEPS) if given[item["uri"]].broken is None else {"FETCHED"})
    return sum(token != last[item] for (item, _), token in rows.items())


def check_ends(items: list[dict[str, Any]], given: dict[str, Paper]) -> None:
    wrong = [
        (item["name"], item["status"], item["last_error"])
        for item in items
        if item["status"] != ("DONE" if given[item["uri"]].broken is None else "FAILED")
    ]
    assert not wrong
    assert len(items) == len(given)


async def check_costs(user: Harness, run: str, items: list[dict[str, Any]], ledger: Ledger, micros: Decimal) -> None:
    """Each step that was kept cost its cent once; beside it only what was spent in steps that came to no end.

    A runner whose supervisor is killed gives its work back, and tells what that has cost until then.
    """
    ended = Counter(line.item for line in ledger.lines() if line.what == "end")
    for item in items:
        events = await user.events(item["item_id"])
        kept = sum(one["cost_cents"] for one in events if one["kind"] == "step_completed")
        lost = sum(one["cost_cents"] for one in events if one["kind"] != "step_completed")
        assert kept == (len(STEPS) if item["status"] == "DONE" else 1)
        assert lost <= ended[item["item_id"]] - kept
        assert item["cost_cents"] == kept + lost
    whole = sum(item["cost_cents"] for item in items)
    assert (await user.run(run))["cost_cents"] == whole == micros / 10000


async def check_run(user: Harness, run: str, items: list[dict[str, Any]]) -> None:
    """The run was summed up once, and its numbers are those of its items."""
    read = await user.run(run)
    ends = Counter(item["status"] for item in items)
    counts = {name: read[f"item_count_{name}"] for name in ("total", "done", "failed", "cancelled", "pending")}
    assert read["status"] == "PARTIAL"
    assert counts == {
        "total": len(items), "done": ends["DONE"], "failed": ends["FAILED"], "cancelled": 0, "pending": 0,
    }  # fmt: skip
    (last,) = [one for one in await user.store.step_events(UUID(run)) if one.kind == "run_completed"]
    assert last.data["item_count_done"] == ends["DONE"]
    assert last.data["cost_micros"] == pytest.approx(read["cost_cents"] * 10000)
    assert [one.verb for one in await user.store.events(UUID(run))].count("partial") == 1


async def check_inbox(user: Harness, items: list[dict[str, Any]], given: dict[str, Paper]) -> None:
    """Who cannot be read is there, with the reason; nobody else is."""
    entries = {str(entry["task_id"]): entry for entry in await user.store.inbox.newest(limit=1000)}
    failures = {item["uri"]: entries.pop(item["item_id"]) for item in items if item["item_id"] in entries}
    assert not entries
    assert {uri: (entry["category"], entry["error"]["code"]) for uri, entry in failures.items()} == {
        uri: ("SchemaInvalid", paper.broken) for uri, paper in given.items() if paper.broken
    }


async def check_found(user: Harness, given: dict[str, Paper]) -> None:
    """By the words of what it alone says a document is the first; with the meaning of similar ones, near the top."""
    for mode, places in (("text", 1), ("hybrid", 3)):
        missed = [
            (name, paper.fact)
            for name, paper in given.items()
            if paper.broken is None and name not in (await user.found(paper.fact, mode=mode))[:places]
        ]
        assert not missed, f"{mode}: {missed}"
