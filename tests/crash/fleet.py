"""Everybody who works on the storm's database, replaced when gone: workers, raw workers, a server, clients, a proxy."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

import psutil
import pytest

from tests.worker.crew import ROOT, Crew, Worker

direct_workers = 3
slots = 30


class Fleet:
    def __init__(self, url: str, folder: Path, seed: int, lease_seconds: float) -> None:
        self.folder = folder
        self.histories = folder / "histories"
        self.histories.mkdir()
        self.seed = seed
        self.lease_seconds = lease_seconds
        self.url = url
        self.paused: set[Worker] = set()
        self.raw_workers: list[subprocess.Popen[str]] = []
        self.clients: list[subprocess.Popen[str]] = []
        self._everyone: list[subprocess.Popen[str]] = []
        self._logs: list[IO[str]] = []
        self._manned: dict[int, Worker] = {}
        self._server: subprocess.Popen[str] | None = None
        self._hired = 0
        self._keeping: list[asyncio.Task[None]] = []
        self._closed = False
        port = url.rpartition(":")[2].partition("/")[0]
        self._proxy = self._start("proxy", "tests.crash.proxy", port, piped=True)
        assert self._proxy.stdout
        self.proxied_url = url.replace(f":{port}/", f":{self._proxy.stdout.readline().strip()}/")
        self._crews = []
        for name, way in (("direct", url), ("proxied", self.proxied_url)):
            (folder / name).mkdir()
            self._crews.append(Crew(way, folder / name))
            self._crews[-1].environment["STORM_FOLDER"] = str(self.histories)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.web = f"http://127.0.0.1:{free.getsockname()[1]}"

    # Who works

    def man(self) -> None:
        """Begin to keep all places taken; each worker's place by itself, since a start takes its time."""
        self._keeping = [
            *(asyncio.create_task(self._keep_worker(place)) for place in range(direct_workers + 1)),
            asyncio.create_task(self._keep_others()),
        ]

    async def _keep_worker(self, place: int) -> None:
        crew = self._crews[1] if place == direct_workers else self._crews[0]
        while not self._closed:
            worker = self._manned.get(place)
            if worker is None or worker.process.poll() is not None:
                self._manned.pop(place, None)
                with contextlib.suppress(pytest.fail.Exception):  # the database is away: it says so and ends
                    self._manned[place] = await asyncio.to_thread(self._start_worker, crew)
            await asyncio.sleep(0.05)

    def _start_worker(self, crew: Crew) -> Worker:
        return crew.start(
            app="tests.crash.storm_app:hf", lease_seconds=self.lease_seconds, slots=slots, queues=("default", "raw")
        )

    async def _keep_others(self) -> None:
        while not self._closed:
            self.raw_workers = [one for one in self.raw_workers if one.poll() is None]
            if not (self.histories / "over").exists():
                while len(self.raw_workers) < 2:
                    self._hired += 1
                    url = self.proxied_url if self._hired % 2 else self.url
                    given = str(self.histories), url, str(self.seed + self._hired), str(self.lease_seconds)
                    self.raw_workers.append(self._start("raw", "tests.crash.raw_worker", *given))
                if self._server is None or self._server.poll() is not None:
                    self._server = self._start("server", "holdfast", "up", "--workers", "0")
            await asyncio.sleep(0.1)

    def ready(self) -> list[Worker]:
        """The workers that are at work now, in the order of their places."""
        return [
            worker
            for _, worker in sorted(self._manned.items())
            if worker.process.poll() is None and worker not in self.paused
        ]

    def kill_server(self) -> bool:
        if self._server is None or self._server.poll() is not None:
            return False
        self._server.kill()
        self._server.wait()
        return True

    # Who wants work done

    def start_clients(self) -> None:
        for number, (role, address) in enumerate(
            (("submit", self.url), ("submit", self.proxied_url), ("cancel", self.proxied_url), ("http", self.web))
        ):
            seed = str(self.seed * 10 + number)
            self.clients.append(
                self._start(f"client-{number}", "tests.crash.client", role, str(self.histories), address, seed)
            )

    def ask_for_less(self) -> None:
        """Whoever is lost shall not stand in line behind what has piled up."""
        (self.histories / "calm").touch()

    async def dismiss_clients(self, within: float) -> None:
        """Let clients learn what became of what they asked last. Raises if one failed."""
        (self.histories / "over").touch()
        for client in [*self.clients, *self.raw_workers]:
            code = await asyncio.to_thread(client.wait, within)
            if client in self.clients:
                assert code == 0, f"a client failed: see {self.folder}"

    # The way to the database

    async def tell_proxy(self, command: str) -> None:
        assert self._proxy.stdin
        assert self._proxy.stdout
        self._proxy.stdin.write(f"{command}\n")
        self._proxy.stdin.flush()
        assert await asyncio.to_thread(self._proxy.stdout.readline) == "healed\n"

    def _start(self, name: str, module: str, *arguments: str, piped: bool = False) -> subprocess.Popen[str]:
        log = (self.folder / f"{name}.log").open("a")
        self._logs.append(log)
        pipe = subprocess.PIPE if piped else None
        environment = {"HOLDFAST_URL": self.url}
        if module == "holdfast":
            environment["HOLDFAST_PORT"] = self.web.rpartition(":")[2]
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT, stdin=pipe, stdout=pipe or log, stderr=log, text=True, env={**os.environ, **environment},
        )  # fmt: skip
        self._everyone.append(process)
        return process

    async def close(self) -> None:
        """End every process that was started here."""
        self._closed = True
        await asyncio.gather(*self._keeping, return_exceptions=True)
        for crew in self._crews:
            crew.close()
        for process in self._everyone:
            if process.poll() is None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(process.pid).send_signal(signal.SIGKILL)
            process.communicate()
        for log in self._logs:
            log.close()
