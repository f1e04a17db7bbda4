"""The supervisor: the process that `holdfast worker` is. It keeps what its runners hold, and runs no user code.

It extends the leases of all its runners in one statement. A runner that dies is replaced, and what it was running is
given back at once. A runner that does not stop when it must is killed; then only what it would not stop is to blame,
and its neighbours go back at no cost. Like every process that has the database, the supervisor sweeps,
and starts what schedules owe.
"""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import UUID, uuid4

from holdfast.backoff import backoff, jitter
from holdfast.engine.task import Beat, Cancelled, Failed, Json, Outcome, Proof, Settlement
from holdfast.errors import AppInvalid, DatabaseError, HoldfastError, RequestInvalid
from holdfast.execution.suspend import RELEASED
from holdfast.settings import read_settings
from holdfast.worker.backend import OpenBackend, open_backend
from holdfast.worker.config import WorkerConfig
from holdfast.worker.runner_handle import RunnerHandle, StartedTask

log = logging.getLogger("holdfast.worker")

T = TypeVar("T")

check_every_seconds = 0.2
hello_every_seconds = 5.0
load_within_seconds = 60.0
restart_seconds = 0.1, 10.0
late_claims_seconds = 1.0
isolated_at_most = 4


@dataclass(frozen=True)
class Serving:
    """Reported once the worker serves: how it is configured, which tasks it knows, and where its backend is."""

    config: WorkerConfig
    names: list[str]
    place: str


Ready = Callable[[Serving], None]


class LeftEarly(Exception):
    """We are to leave before there was anything to do."""


class Supervisor:
    """One worker: some runners, and their leases."""

    def __init__(self, config: WorkerConfig, *, processes: int = 1, on_ready: Ready | None = None) -> None:
        self.config = config
        self.processes = processes
        self.runners: dict[str, RunnerHandle] = {}
        self._isolated: set[RunnerHandle] = set()
        self._cleaning_up: set[RunnerHandle] = set()
        self._isolated_slots = asyncio.Semaphore(isolated_at_most)
        self._leaving = asyncio.Event()
        self._chores: set[asyncio.Task[None]] = set()
        self._running_isolated: set[asyncio.Task[None]] = set()
        self._late_releases: set[asyncio.Task[None]] = set()
        self._spawned: list[RunnerHandle] = []
        self._tasks: dict[str, Json] = {}
        self._schedules: list[str] = []
        self._on_ready = on_ready or (lambda serving: None)

    async def run(self) -> None:
        """Until it is to leave. Raises AppInvalid, or what stands in the way of opening the database."""
        try:
            first = await self._spawn()
            loaded = await self._wait_until_loaded(first)
            async with open_backend(replace(read_settings(), **loaded["settings"]), connections=4) as opened:
                self.backend = opened.backend
                await self._prepare(opened, loaded)
                await self._supervise(first, opened)
        except LeftEarly:
            return
        finally:
            for runner in self._spawned:
                runner.kill()

    async def _supervise(self, first: RunnerHandle, opened: OpenBackend) -> None:
        for chore in (self._keep_leases, self._end_stuck, self._stay_present, *opened.chores(self._schedules)):
            self._begin(self._repeat(chore), self._chores)
        runners = [
            asyncio.create_task(self._keep_running(first)),
            *(asyncio.create_task(self._keep_running()) for _ in range(self.processes - 1)),
        ]
        self._on_ready(Serving(self.config, list(self._tasks), opened.place))
        await asyncio.gather(*runners)
        await asyncio.gather(*self._running_isolated, *self._late_releases, return_exceptions=True)
        for task in self._chores:
            task.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)

    def _begin(self, chore: Coroutine[Any, Any, None], among: set[asyncio.Task[None]]) -> None:
        task = asyncio.create_task(chore)
        among.add(task)
        task.add_done_callback(among.discard)

    async def _repeat(self, chore: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Whatever goes wrong in it once, the leases must be kept."""
        while True:
            try:
                await chore()
            except Exception:
                log.exception("a chore of the supervisor failed; it goes on")
                await asyncio.sleep(check_every_seconds)

    def leave(self) -> None:
        """Let the runners end what they run, and leave. Called twice: give it back and leave now."""
        self._leaving.set()
        for runner in self._all_runners():
            runner.leave()

    async def _prepare(self, opened: OpenBackend, loaded: dict[str, Any]) -> None:
        self._tasks = loaded["tasks"]
        self._schedules = [one["name"] for one in loaded["published"].get("schedules", ())]
        queues = self.config.queues or loaded["queues"]
        self.config = replace(self.config, queues=queues)
        await opened.declare(loaded["lifecycles"], loaded["published"], queues)

    # Runners

    async def _spawn(self) -> RunnerHandle:
        runner = RunnerHandle(self.config, uuid4().hex)  # new each time: not taken for an earlier one of the same name
        runner.on_isolate = lambda parent, lease: self._begin(self._run_isolated(parent, lease), self._running_isolated)
        await self._start(runner)
        return runner

    async def _start(self, runner: RunnerHandle) -> None:
        await runner.start()
        self._spawned = [other for other in self._spawned if other.process and other.process.returncode is None]
        self._spawned.append(runner)

    async def _wait_until_loaded(self, runner: RunnerHandle) -> dict[str, Any]:
        """What it found in the application. Raises AppInvalid, or LeftEarly if we are to leave meanwhile."""
        leaving = asyncio.create_task(self._leaving.wait())
        either: list[asyncio.Future[Any]] = [runner.loaded, leaving]
        await asyncio.wait(either, timeout=load_within_seconds, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not runner.loaded.done() and self._leaving.is_set():
            raise LeftEarly
        if not runner.loaded.done():
            raise AppInvalid(f"It took over {load_within_seconds:.0f} s to load.", fix="Do less when it is imported.")
        loaded = runner.loaded.result()
        if "refused" in loaded:
            raise AppInvalid(loaded["refused"][0], fix=loaded["refused"][1])
        return loaded

    async def _keep_running(self, runner: RunnerHandle | None = None) -> None:
        """Keep one runner going: the one given first, then its successors."""
        pauses, longest = backoff(*restart_seconds), restart_seconds[1]
        while not self._leaving.is_set():
            if runner is None:
                try:
                    runner = await self._spawn()
                except OSError as error:
                    log.error("no process could be started", extra={"error": str(error)})
                    await asyncio.sleep(longest)
                    continue
            try:
                await self._wait_until_loaded(runner)
                await self._hello(runner)
                self.runners[runner.worker] = runner
                runner.begin()
                if self._leaving.is_set():
                    runner.leave()
            except LeftEarly:
                runner.kill()
            except AppInvalid as error:
                log.error("a runner did not start", extra={"error": str(error)})
                runner.kill()
            except HoldfastError as error:
                log.warning("a runner waits for the database", extra={"error": str(error)})
                runner.kill()
            code = await self._wait_until_gone(runner)
            self.runners.pop(runner.worker, None)
            await self._clean_up(runner, code)
            if runner.has_started:  # it is not the start that fails
                pauses = backoff(*restart_seconds)
            runner = None
            if not self._leaving.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(next(pauses)):
                        await self._leaving.wait()

    async def _wait_until_gone(self, runner: RunnerHandle) -> int:
        """Its exit code. Asked to leave, it has its time; then it is ended."""
        leaving = asyncio.create_task(self._leaving.wait())
        await asyncio.wait([runner.exited, leaving], return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not runner.exited.done():
            allowed = self.config.grace_seconds + self.config.cancel_seconds + 2
            await asyncio.wait([runner.exited], timeout=allowed)
            if not runner.exited.done():
                runner.kill()
        return await runner.exited

    async def _clean_up(self, runner: RunnerHandle, code: int) -> None:
        """What it was running when it died is lost; what it held besides goes back at no cost."""
        if runner.settlements:
            await self._retry(lambda: self.backend.settle(*runner.settlements))
        if runner.has_started and not runner.leaving:  # whatever the code is: user code may end the process with 0
            blamed = [one.proof for one in runner.started.values() if one.reason != "killed" and not one.is_unsettled]
            log.warning("a runner died", extra={"exit_code": code, "running": len(blamed), "worker": runner.worker})
            if blamed:
                await self._retry(lambda: self.backend.mark_lost(blamed))
                runner.started = {}
        if runner.isolated is None:
            await self._release_leases(runner)
            await self._retry(lambda: self.backend.goodbye(runner.worker))
            if not runner.leaving:
                self._begin(self._release_late_claims(runner), self._late_releases)

    async def _release_leases(self, runner: RunnerHandle) -> None:
        """Give its leases back, but for those of processes that it had started for one task."""

        def find_kept() -> list[UUID]:
            isolated = self._isolated | self._cleaning_up
            return [UUID(task) for other in isolated if other.worker == runner.worker for task in other.started]

        await self._retry(lambda: self.backend.release_leases(runner.worker, find_kept()))

    async def _release_late_claims(self, runner: RunnerHandle) -> None:
        """A claim that was under way when the runner died may commit after its leases went back."""
        await asyncio.sleep(late_claims_seconds)
        await self._release_leases(runner)

    async def _retry(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        """The answer, however long the database is away; but a supervisor that leaves does not wait for ever."""
        started, pauses = time.monotonic(), backoff(0.05, 1.0)
        while True:
            try:
                return await ask()
            except DatabaseError:
                if self._leaving.is_set() and time.monotonic() - started > self.config.lease_seconds:
                    return None  # the leases run out by themselves
                await asyncio.sleep(next(pauses))
            except HoldfastError as error:  # refused for good; the leases run out by themselves
                log.error("what a runner held could not be given back", extra={"error": str(error)})
                return None

    # Tasks that one more lost worker would end

    async def _run_isolated(self, parent: RunnerHandle, lease: Json) -> None:
        """Run it in a process of its own: if it brings that down too, no other task is harmed."""
        runner = RunnerHandle(self.config, parent.worker, isolated=lease)
        task_id = lease["task_id"]
        self._isolated.add(runner)
        code = 0
        try:
            async with self._isolated_slots:
                if runner.started[task_id].stop_asked_at is None and not self._leaving.is_set():
                    await self._start(runner)
                    runner.begin()
                    code = await self._wait_until_gone(runner)
        except OSError as error:  # no memory for another process
            log.warning(
                "a task could not be run in a process of its own", extra={"task_id": task_id, "error": str(error)}
            )
        finally:
            self._isolated.discard(runner)
            self._cleaning_up.add(runner)
            runner.close()
        try:
            await self._clean_up(runner, code)
            left: list[Settlement] = [
                (one.proof, Cancelled() if one.reason == "cancel" else RELEASED) for one in runner.started.values()
            ]
            if left:
                await self._retry(lambda: self.backend.settle(*left))
        finally:
            self._cleaning_up.discard(runner)
        parent.send("isolated_ended", [task_id])

    def _all_runners(self) -> list[RunnerHandle]:
        return [*self.runners.values(), *self._isolated]

    # Leases

    async def _keep_leases(self) -> None:
        """Keep the leases, three times before they would end."""
        late = False
        while True:
            await asyncio.sleep(jitter(self.config.lease_seconds / (12 if late else 3) * 0.925, 0.08))
            try:
                async with asyncio.timeout(self.config.lease_seconds / 4):
                    await self._extend_leases()
                late = False
            except (HoldfastError, TimeoutError) as error:
                late = True  # there is time for some more before the leases end
                log.warning("heartbeat failed", extra={"error": str(error) or type(error).__name__})

    async def _extend_leases(self) -> None:
        """One statement for all, unless two runners hold one task, the older one without knowing that it is lost."""
        sent = time.monotonic()
        until = sent + self.config.lease_seconds
        alive = [runner for runner in self._all_runners() if not runner.is_stopped()]
        rounds: list[dict[str, tuple[RunnerHandle, StartedTask]]] = [{}]
        progress: dict[UUID, Json] = {}
        for runner in alive:
            progress.update((UUID(task), one) for task, one in runner.progress.items())
            runner.progress = {}
            for task, one in runner.started.items():
                held = next((each for each in rounds if task not in each), None)
                if held is None:
                    rounds.append(held := {})
                held[task] = runner, one
        for held in filter(None, rounds):
            beats = await self._heartbeat([one.proof for _, one in held.values()], progress)
            answers = {task.hex: beat for task, beat in beats.items()}
            for task, (runner, one) in held.items():
                if runner.started.get(task) is not one:
                    continue
                if task not in answers:
                    runner.ask_to_stop("lost", [task])
                    continue
                one.until = until
                if answers[task].cancel_requested:
                    runner.ask_to_stop("cancel", [task])
        for runner in alive:
            runner.pass_heartbeat(sent, until)

    async def _heartbeat(self, proofs: list[Proof], progress: dict[UUID, Json]) -> dict[UUID, Beat]:
        try:
            return await self.backend.heartbeat(proofs, lasting=self.config.lease, progress=progress)
        except RequestInvalid as error:  # the progress of one cannot be kept: no reason to lose all the leases
            log.warning("progress not kept", extra={"error": str(error)})
            return await self.backend.heartbeat(proofs, lasting=self.config.lease)

    async def _end_stuck(self) -> None:
        """End runners that do not stop what they must."""
        while True:
            await asyncio.sleep(check_every_seconds)
            for runner in self._all_runners():
                overdue = runner.overdue()
                stopped = runner.stopped_since
                if overdue or (stopped and time.monotonic() - stopped > self.config.lease_seconds):
                    self._end(runner, overdue)

    def _end(self, runner: RunnerHandle, overdue: list[StartedTask]) -> None:
        """Kill a runner on purpose. Its other tasks are not to blame."""
        reasons = sorted({one.reason for one in overdue}) or ["stopped"]
        log.warning("ending a runner that does not stop", extra={"worker": runner.worker, "reasons": reasons})
        guilty = {one.task for one in overdue}
        for one in runner.started.values():
            if one.task not in guilty:
                one.reason = "killed"
        runner.kill()
        for one in overdue:
            outcome: Outcome | None = None
            if one.reason == "cancel":
                outcome = Cancelled("It did not stop by itself.")
            elif one.reason == "timeout":
                outcome = Failed("Transient", "It ran for longer than its timeout and did not stop.", code="timeout")
            if outcome:
                runner.settlements.append((one.proof, outcome))
            runner.started.pop(one.task, None)

    # Presence

    async def _hello(self, runner: RunnerHandle) -> None:
        await self.backend.hello(
            runner.worker, label=self.config.name, queues=self.config.queues, names=list(self._tasks),
            slots=self.config.slots, tasks=self._tasks,
        )  # fmt: skip

    async def _stay_present(self) -> None:
        while True:
            await asyncio.sleep(jitter(hello_every_seconds, 0.2))
            for runner in list(self.runners.values()):
                with contextlib.suppress(HoldfastError):
                    await self._hello(runner)


def run_worker(config: WorkerConfig, *, processes: int = 1, on_ready: Ready | None = None) -> None:
    """Run a worker until SIGTERM or Ctrl-C. Raises AppInvalid or a DatabaseError."""

    async def run() -> None:
        supervisor = Supervisor(config, processes=processes, on_ready=on_ready)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, supervisor.leave)
        await supervisor.run()

    asyncio.run(run())
