"""Workers as processes, and what can be done to them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Ended, Submission
from holdfast.worker.config import WorkerConfig
from tests.eventually import eventually

ROOT = Path(__file__).parents[2]


class Worker:
    """One worker: the supervisor that was started here, and the runners that it started."""

    def __init__(self, crew: "Crew", config: WorkerConfig, processes: int) -> None:
        self.crew = crew
        self.config = config
        self.log = crew.folder / f"worker-{len(crew.workers)}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.worker.start", json.dumps(asdict(config)), str(processes)],
                cwd=ROOT, env={**os.environ, **crew.environment}, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        assert self.process.stdout
        try:
            is_ready = self.process.stdout.readline()
        except BaseException:  # this test is given up
            self.process.kill()
            raise
        if not is_ready:
            self.process.wait(30)
            pytest.fail(self.log.read_text())
        self.supervisor = psutil.Process(self.process.pid)
        self._seen: set[psutil.Process] = set()
        self.runners()

    def runners(self) -> list[psutil.Process]:
        """Its runner processes, oldest first; those that run one task alone come after the others."""
        try:
            found = sorted(self.supervisor.children(), key=lambda child: child.create_time())
        except psutil.NoSuchProcess:
            return []
        self._seen.update(found)
        return found

    def seen(self) -> set[psutil.Process]:
        """Every runner that was ever looked at: those that outlived their supervisor are still to be ended."""
        self.runners()
        return self._seen

    def signal(self, number: int, *, supervisor: bool = True, runners: bool = True) -> None:
        for process in [*(self.runners() if runners else []), *([self.supervisor] if supervisor else [])]:
            process.send_signal(number)

    def kill(self, *, supervisor: bool = True, runners: bool = True) -> None:
        self.signal(signal.SIGKILL, supervisor=supervisor, runners=runners)

    def leave(self) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


class Crew:
    """The workers of one test, on one database with the real clock."""

    store: Store

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        self.ledger.touch()
        objects = f"file://{folder}/objects"
        self.environment = {"HOLDFAST_URL": url, "HOLDFAST_OBJECTS": objects, "LEDGER": str(self.ledger)}
        self.workers: list[Worker] = []

    def speak_http(self, api: str, key: str) -> None:
        """Let workers from now on have no database: they speak to these servers."""
        del self.environment["HOLDFAST_URL"]
        self.environment |= {"HOLDFAST_API": api, "HOLDFAST_KEY": key}

    def start(self, *, app: str = "tests.worker.app", processes: int = 1, **config: Any) -> Worker:
        """A worker that is ready. It loses nothing if the machine stands still for a few seconds."""
        times = {"lease_seconds": 12.0, "grace_seconds": 1.0, "poll_seconds": 1.0}
        worker = Worker(self, WorkerConfig(app, **{**times, **config}), processes)
        self.workers.append(worker)
        return worker

    def close(self) -> None:
        """End every process that was started here."""
        everyone = [process for worker in self.workers for process in (worker.supervisor, *worker.seen())]
        for process in everyone:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        for worker in self.workers:
            with worker.process:  # waits for its end, not for that of an orphan that holds its pipe open
                worker.process.kill()
        psutil.wait_procs(everyone, timeout=10)

    def open(self, gate: str) -> None:
        """Let those go on who wait at this gate."""
        self.ledger.with_name(f"gate-{gate}").touch()

    def notes(self, mark: str) -> list[int]:
        """The processes that wrote this word into the ledger, in order."""
        lines = [line.split() for line in self.ledger.read_text().splitlines()]
        return [int(process) for noted, process in lines if noted == mark]

    async def noted(self, mark: str, times: int = 1) -> list[int]:
        """Wait until it was written so often."""

        async def look() -> list[int]:
            found = self.notes(mark)
            return found if len(found) >= times else []

        return await eventually(look, f"{times} x {mark!r}")

    async def submit(self, *tasks: Submission) -> list[UUID]:
        return [one.id for one in await self.store.submit(*tasks) if one.id]

    async def ended(self, ids: Iterable[UUID], within: float = 90) -> list[Ended]:
        """How these tasks ended, in their order."""
        wanted = list(ids)

        async def look() -> list[Ended]:
            found = await self.store.outcomes(wanted)
            return [end for one in wanted if (end := found.get(one))] if len(found) == len(wanted) else []

        try:
            return await eventually(look, "their end", within)
        except pytest.fail.Exception:
            for one in wanted:
                sys.stderr.write(f"{await self.store.read(one)}\n{await self.store.events(one)}\n")
            raise

    async def run(self, *tasks: Submission) -> list[Ended]:
        return await self.ended(await self.submit(*tasks))

    async def read(self, task: UUID) -> dict[str, Any]:
        return await self.store.read(task)

    async def verbs(self, task: UUID) -> list[str]:
        return [event.verb for event in await self.store.events(task)]
