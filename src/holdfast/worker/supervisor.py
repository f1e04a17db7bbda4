"""The keeper: the process that `holdfast worker` is. It keeps what its runners hold, and runs no user code.

It beats for the leases of all its runners in one statement. A runner that dies is replaced, and what it was running is
handed back at once. A runner that does not stop when it must is killed; then only what it would not stop is to blame,
and its neighbours go back at no cost. Like every process that has the database, the keeper sweeps, and starts what
schedules owe.
"""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from holdfast.backoff import backoff, jitter
from holdfast.engine.task import Beat, Cancelled, Failed, Json, Outcome, Proof, Settlement
from holdfast.errors import AppInvalid, DatabaseError, HoldfastError, RequestInvalid
from holdfast.execution.suspend import RELEASED
from holdfast.settings import read_settings
from holdfast.worker.backend import Line, open_line
from holdfast.worker.child import Begun, Child
from holdfast.worker.config import Plan, fresh_id

log = logging.getLogger("holdfast.worker")

T = TypeVar("T")

look_every_seconds = 0.2
hello_every_seconds = 5.0
load_within_seconds = 60.0
restart_seconds = 0.1, 10.0
late_claims_seconds = 1.0
alone_at_most = 4


@dataclass(frozen=True)
class Serving:
    """Told once it serves: what, which tasks it knows, and whom it speaks to."""

    plan: Plan
    names: list[str]
    place: str


Ready = Callable[[Serving], None]


class Left(Exception):
    """We are to leave before there was anything to do."""


class Supervisor:
    """One worker: some runners, and their leases."""

    def __init__(self, plan: Plan, *, processes: int = 1, on_ready: Ready | None = None) -> None:
        self.plan = plan
        self.processes = processes
        self.children: dict[str, Child] = {}
        self._apart: set[Child] = set()
        self._burying: set[Child] = set()
        self._alone = asyncio.Semaphore(alone_at_most)
        self._leaving = asyncio.Event()
        self._chores: set[asyncio.Task[None]] = set()
        self._running_apart: set[asyncio.Task[None]] = set()
        self._late: set[asyncio.Task[None]] = set()
        self._spawned: list[Child] = []
        self._tasks: dict[str, Json] = {}
        self._schedules: list[str] = []
        self._on_ready = on_ready or (lambda serving: None)

    async def run(self) -> None:
        """Until told to leave. Raises AppInvalid, or what stands in the way of opening the database."""
        with contextlib.suppress(Left):
            await self._run()

    async def _run(self) -> None:
        try:
            first = await self._spawn()
            listening = asyncio.create_task(first.listen())
            loaded = await self._loaded(first)
            update = {**loaded["settings"], "home": Path(loaded["settings"]["home"])}
            async with open_line(replace(read_settings(), **update), connections=4) as line:
                self.store = line.words
                await self._prepare(line, loaded)
                await self._keep(first, listening, line)
        finally:
            for child in self._spawned:
                child.kill()

    async def _keep(self, first: Child, listening: asyncio.Task[int], line: Line) -> None:
        for chore in (self._beat, self._look, self._greet, *line.chores(self._schedules)):
            self._begin(self._always(chore), self._chores)
        keeping = [
            asyncio.create_task(self._mind(first, listening)),
            *(asyncio.create_task(self._mind()) for _ in range(self.processes - 1)),
        ]
        self._on_ready(Serving(self.plan, list(self._tasks), line.place))
        await asyncio.gather(*keeping)
        await asyncio.gather(*self._running_apart, *self._late, return_exceptions=True)
        for task in self._chores:
            task.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)

    def _begin(self, chore: Coroutine[Any, Any, None], among: set[asyncio.Task[None]]) -> None:
        task = asyncio.create_task(chore)
        among.add(task)
        task.add_done_callback(among.discard)

    async def _always(self, chore: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Whatever goes wrong in it once, the leases must be kept."""
        while True:
            try:
                await chore()
            except Exception:
                log.exception("a chore of the keeper failed; it goes on")
                await asyncio.sleep(look_every_seconds)

    def leave(self) -> None:
        """Let the runners end what they run, and leave. Told twice: give it back and leave now."""
        self._leaving.set()
        for child in self._everyone():
            child.leave()

    async def _prepare(self, line: Line, loaded: dict[str, Any]) -> None:
        self._tasks = loaded["tasks"]
        self._schedules = [one["name"] for one in loaded["published"].get("schedules", ())]
        queues = self.plan.queues or tuple(loaded["queues"])
        self.plan = Plan(**{**vars(self.plan), "queues": queues})
        await line.declare(loaded["lifecycles"], loaded["published"], queues)

    # Runners

    async def _spawn(self) -> Child:
        child = Child(self.plan, fresh_id())
        child.on_alone = lambda parent, lease: self._begin(self._run_apart(parent, lease), self._running_apart)
        await self._start(child)
        return child

    async def _start(self, child: Child) -> None:
        await child.start()
        self._spawned = [other for other in self._spawned if other.process and other.process.returncode is None]
        self._spawned.append(child)

    async def _loaded(self, child: Child) -> dict[str, Any]:
        """What it found in the application. Raises AppInvalid, or Left if we are to leave meanwhile."""
        leaving = asyncio.create_task(self._leaving.wait())
        either: list[asyncio.Future[Any]] = [child.loaded, leaving]
        await asyncio.wait(either, timeout=load_within_seconds, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not child.loaded.done() and self._leaving.is_set():
            raise Left
        if not child.loaded.done():
            raise AppInvalid(f"It took over {load_within_seconds:.0f} s to load.", fix="Do less when it is imported.")
        loaded = child.loaded.result()
        if "refused" in loaded:
            raise AppInvalid(loaded["refused"][0], fix=loaded["refused"][1])
        return loaded

    async def _mind(self, child: Child | None = None, listening: asyncio.Task[int] | None = None) -> None:
        """Keep one runner going: the one given first, then its successors."""
        pauses, longest = backoff(*restart_seconds), restart_seconds[1]
        while not self._leaving.is_set():
            if child is None or listening is None:
                try:
                    child = await self._spawn()
                except OSError as error:
                    log.error("no process could be started", extra={"error": str(error)})
                    await asyncio.sleep(longest)
                    continue
                listening = asyncio.create_task(child.listen())
            try:
                await self._loaded(child)
                await self._hello(child)
                self.children[child.worker] = child
                child.go()
                if self._leaving.is_set():
                    child.leave()
            except Left:
                child.kill()
            except AppInvalid as error:
                log.error("a runner did not start", extra={"error": str(error)})
                child.kill()
            except HoldfastError as error:
                log.warning("a runner waits for the database", extra={"error": str(error)})
                child.kill()
            code = await self._until_gone(child, listening)
            self.children.pop(child.worker, None)
            await self._bury(child, code)
            if child.has_begun:  # it is not the start that fails
                pauses = backoff(*restart_seconds)
            child = None
            if not self._leaving.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(next(pauses)):
                        await self._leaving.wait()

    async def _until_gone(self, child: Child, listening: asyncio.Task[int]) -> int:
        """Its exit code. Told to leave, it has its time; then it is ended."""
        leaving = asyncio.create_task(self._leaving.wait())
        await asyncio.wait([listening, leaving], return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not listening.done():
            allowed = self.plan.grace_seconds + self.plan.cancel_seconds + 2
            await asyncio.wait([listening], timeout=allowed)
            if not listening.done():
                child.kill()
        return await listening

    async def _bury(self, child: Child, code: int) -> None:
        """What it was running when it died is lost; what it held besides goes back at no cost."""
        if child.verdicts:
            await self._insist(lambda: self.store.settle(*child.verdicts))
        if child.has_begun and not child.leaving:  # whatever the code is: user code may end the process with 0
            blamed = [one.proof for one in child.begun.values() if one.reason != "killed" and not one.is_waiting]
            log.warning("a runner died", extra={"exit_code": code, "running": len(blamed), "worker": child.worker})
            if blamed:
                await self._insist(lambda: self.store.mark_lost(blamed))
                child.begun = {}
        if child.alone is None:
            await self._hand_back(child)
            await self._insist(lambda: self.store.goodbye(child.worker))
            if not child.leaving:
                self._begin(self._hand_back_late_claims(child), self._late)

    async def _hand_back(self, child: Child) -> None:
        """Give its leases back, but for those of processes that it had started for one task."""

        def kept() -> list[UUID]:
            apart = self._apart | self._burying
            return [UUID(task) for other in apart if other.worker == child.worker for task in other.begun]

        await self._insist(lambda: self.store.release_leases(child.worker, kept()))

    async def _hand_back_late_claims(self, child: Child) -> None:
        """A claim that was under way when the runner died may commit after its leases went back."""
        await asyncio.sleep(late_claims_seconds)
        await self._hand_back(child)

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        """The answer, however long the database is away; but whoever leaves does not wait for ever."""
        started, pauses = time.monotonic(), backoff(0.05, 1.0)
        while True:
            try:
                return await ask()
            except DatabaseError:
                if self._leaving.is_set() and time.monotonic() - started > self.plan.lease_seconds:
                    return None  # the leases run out by themselves
                await asyncio.sleep(next(pauses))
            except HoldfastError as error:  # refused for good; the leases run out by themselves
                log.error("what a runner held could not be given back", extra={"error": str(error)})
                return None

    # Tasks that one more lost worker would end

    async def _run_apart(self, parent: Child, lease: Json) -> None:
        """Run it in a process of its own: if it brings that down too, nobody else is harmed."""
        child = Child(self.plan, parent.worker, alone=lease)
        task_id = lease["task_id"]
        self._apart.add(child)
        code = 0
        try:
            async with self._alone:
                if child.begun[task_id].told is None and not self._leaving.is_set():
                    await self._start(child)
                    child.go()
                    code = await self._until_gone(child, asyncio.create_task(child.listen()))
        except OSError as error:  # no room for another process
            log.warning("a task could not be run apart", extra={"task_id": task_id, "error": str(error)})
        finally:
            self._apart.discard(child)
            self._burying.add(child)
            child.close()
        try:
            await self._bury(child, code)
            left: list[Settlement] = [
                (one.proof, Cancelled() if one.reason == "cancel" else RELEASED) for one in child.begun.values()
            ]
            if left:
                await self._insist(lambda: self.store.settle(*left))
        finally:
            self._burying.discard(child)
        parent.tell("over", [task_id])

    def _everyone(self) -> list[Child]:
        return [*self.children.values(), *self._apart]

    # Leases

    async def _beat(self) -> None:
        """Keep the leases, three times before they would end."""
        late = False
        while True:
            await asyncio.sleep(jitter(self.plan.lease_seconds / (12 if late else 3) * 0.925, 0.08))
            try:
                async with asyncio.timeout(self.plan.lease_seconds / 4):
                    await self._beat_once()
                late = False
            except (HoldfastError, TimeoutError) as error:
                late = True  # there is time for some more before the leases end
                log.warning("heartbeat failed", extra={"error": str(error) or type(error).__name__})

    async def _beat_once(self) -> None:
        """One statement for all, unless two runners hold one task, the older one without knowing that it is lost."""
        sent = time.monotonic()
        until = sent + self.plan.lease_seconds
        alive = [child for child in self._everyone() if not child.is_stopped()]
        rounds: list[dict[str, tuple[Child, Begun]]] = [{}]
        shown: dict[UUID, Json] = {}
        for child in alive:
            shown.update((UUID(task), progress) for task, progress in child.shown.items())
            child.shown = {}
            for task, one in child.begun.items():
                held = next((each for each in rounds if task not in each), None)
                if held is None:
                    rounds.append(held := {})
                held[task] = child, one
        for held in filter(None, rounds):
            beats = await self._heartbeat([one.proof for _, one in held.values()], shown)
            answers = {task.hex: beat for task, beat in beats.items()}
            for task, (child, one) in held.items():
                if child.begun.get(task) is not one:
                    continue
                if task not in answers:
                    child.ask_to_stop("lost", [task])
                    continue
                one.until = until
                if answers[task].cancel_requested:
                    child.ask_to_stop("cancel", [task])
        for child in alive:
            child.feel(sent, until)

    async def _heartbeat(self, proofs: list[Proof], shown: dict[UUID, Json]) -> dict[UUID, Beat]:
        try:
            return await self.store.heartbeat(proofs, lasting=self.plan.lease, progress=shown)
        except RequestInvalid as error:  # one shows what cannot be kept: no reason to lose all the leases
            log.warning("progress not kept", extra={"error": str(error)})
            return await self.store.heartbeat(proofs, lasting=self.plan.lease)

    async def _look(self) -> None:
        """End runners that do not stop what they must."""
        while True:
            await asyncio.sleep(look_every_seconds)
            for child in self._everyone():
                deaf = child.deaf()
                stopped = child.stopped_since
                if deaf or (stopped and time.monotonic() - stopped > self.plan.lease_seconds):
                    self._put_down(child, deaf)

    def _put_down(self, child: Child, deaf: list[Begun]) -> None:
        """Kill a runner on purpose. Its other tasks are not to blame."""
        reasons = sorted({one.reason for one in deaf}) or ["stopped"]
        log.warning("ending a runner that does not stop", extra={"worker": child.worker, "reasons": reasons})
        guilty = {one.task for one in deaf}
        for one in child.begun.values():
            if one.task not in guilty:
                one.reason = "killed"
        child.kill()
        for one in deaf:
            outcome: Outcome | None = None
            if one.reason == "cancel":
                outcome = Cancelled("It did not stop by itself.")
            elif one.reason == "timeout":
                outcome = Failed("Transient", "It ran for longer than its timeout and did not stop.", code="timeout")
            if outcome:
                child.verdicts.append((one.proof, outcome))
            child.begun.pop(one.task, None)

    # Presence

    async def _hello(self, child: Child) -> None:
        await self.store.hello(
            child.worker, label=self.plan.name, queues=self.plan.queues, names=list(self._tasks),
            slots=self.plan.slots, tasks=self._tasks,
        )  # fmt: skip

    async def _greet(self) -> None:
        while True:
            await asyncio.sleep(jitter(hello_every_seconds, 0.2))
            for child in list(self.children.values()):
                with contextlib.suppress(HoldfastError):
                    await self._hello(child)


def keep(plan: Plan, *, processes: int = 1, on_ready: Ready | None = None) -> None:
    """Run a worker until SIGTERM or Ctrl-C. Raises AppInvalid or a DatabaseError."""

    async def run() -> None:
        keeper = Supervisor(plan, processes=processes, on_ready=on_ready)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, keeper.leave)
        await keeper.run()

    asyncio.run(run())
