"""The ground all peers stand on: one Postgres, a fresh database for each workload, processes that are commanded.

The server is the embedded one with its durable defaults (fsync and synchronous_commit on) and the settings below, made
for each run. All peers connect over the loopback port as the owner of the database.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

import psutil
import psycopg

from bench.peers.brokers import BROKERS, BrokerMissing
from bench.peers.registry import Peer
from bench.peers.tally import Tallies
from holdfast.postgres.embedded import Embedded, is_watched

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".bench"  # not .cache, which building the documentation empties
SETTINGS = {"shared_buffers": "1GB", "max_connections": "400"}

command_seconds = 180.0
import_seconds = 120.0
look_seconds = 0.005


class Failure(Exception):
    """Why a peer has no figure; stands in the table."""


class Ground:
    """The server of one run, and the brokers that were asked for."""

    def __init__(self, server: Embedded, stack: contextlib.ExitStack) -> None:
        self.server = server
        self._stack = stack
        self._making = threading.Lock()
        self._templates: set[str] = set()
        self._brokers: dict[str, str] = {}

    @contextlib.contextmanager
    def place(self, peer: Peer) -> Iterator[str]:
        """The address of a database with its schema and nothing in it, or of the broker. Raises Failure."""
        if peer.broker:
            yield self.broker(peer.broker)
            return
        template = self.template(peer)
        name = f"bench_{uuid4().hex[:12]}"
        self.run(f"create database {name} template {template}")
        self.run("checkpoint")
        try:
            yield self.server.owner_url(name)
        finally:
            self.run(f"drop database {name} with (force)")

    def template(self, peer: Peer) -> str:
        """A database with its schema, made by the peer itself when it is first asked for. Raises Failure."""
        name = f"template_{peer.name.replace(' ', '_')}"
        with self._making:
            if name not in self._templates:
                self.run(f"drop database if exists {name} with (force)")
                self.run(f"create database {name}")
                with stand(peer, self.server.owner_url(name)) as one:
                    one.tell("setup")
                self.run(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")
                self._templates.add(name)
        return name

    def broker(self, name: str) -> str:
        """Its address; it is started when it is first asked for, and ends with the run. Raises Failure."""
        with self._making:
            if name not in self._brokers:
                folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(dir=CACHE, prefix=f"{name}-")))
                try:
                    self._brokers[name] = self._stack.enter_context(BROKERS[name](folder))
                except BrokerMissing as error:
                    raise Failure(str(error)) from None
            return self._brokers[name]

    def run(self, statement: str) -> None:
        with psycopg.connect(self.server.owner_url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())

    def asked(self, question: str) -> str:
        with psycopg.connect(self.server.owner_url("postgres"), autocommit=True) as connection:
            row = connection.execute(question.encode()).fetchone()
            return str(row[0]) if row else ""


@contextlib.contextmanager
def ground() -> Iterator[Ground]:
    """A new server on the project's own disk, gone at the end."""
    CACHE.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(dir=CACHE, prefix="server-"))
    try:
        with Embedded(home, settings=SETTINGS) as server, contextlib.ExitStack() as stack:
            yield Ground(server, stack)
        wait_for(lambda: not is_watched(home), 60, "the server has stopped")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def python_of(peer: Peer) -> Path:
    """The interpreter of its environment, which is made if it is not there. Raises Failure."""
    if not peer.environment:
        return Path(sys.executable)
    folder = CACHE / peer.environment
    requirements = Path(__file__).parent / "requirements" / f"{peer.environment}.txt"
    made, interpreter = folder / "made-of.txt", folder / "bin" / "python"
    if not (made.exists() and made.read_text() == requirements.read_text()):
        uv = str(Path(sys.executable).with_name("uv"))
        tool(uv, "venv", "--quiet", "--clear", "--python", base_python(peer), str(folder))
        tool(uv, "pip", "install", "--quiet", "--python", str(interpreter), "--requirement", str(requirements))
        made.write_text(requirements.read_text())
    return interpreter


def base_python(peer: Peer) -> str:
    """Ours, or for a peer that needs a newer one, any that is at hand."""
    if not peer.needs_python or sys.version_info >= tuple(map(int, peer.needs_python.split("."))):
        return sys.executable
    minor = int(peer.needs_python.split(".")[1])
    for number in range(minor, minor + 6):
        places = [shutil.which(f"python3.{number}"), *Path.home().glob(f".pyenv/versions/3.{number}.*/bin/python")]
        for place in places:
            if place and subprocess.run([place, "-c", ""], capture_output=True, check=False).returncode == 0:
                return str(place)
    raise Failure(f"needs Python {peer.needs_python}, and none is at hand")


def tool(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(last_line(done.stderr or done.stdout))
    return done.stdout.strip()


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no output"


def version_of(peer: Peer) -> str:
    if not peer.environment:
        return version(peer.package) if peer.package else ""
    script = f"from importlib.metadata import version; print(version({peer.package!r}))"
    return tool(str(python_of(peer)), "-c", script)


class Stand:
    """One peer at one workload: its database, its folder of tallies, its processes."""

    def __init__(self, peer: Peer, url: str, folder: Path, mode: str) -> None:
        self.peer = peer
        self.mode = mode
        self.url = url
        self.folder = folder
        self.tallies = Tallies(folder)
        self.workers: list[Worker] = []
        self._connection: psycopg.Connection[tuple[int]] | None = None

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PG"))}
        own = {"PEER_URL": self.url, "PEER_FOLDER": str(self.folder), "PEER_BATCH": str(self.peer.batch),
               "PEER_MODE": self.mode}  # fmt: skip
        return {**kept, **own, **more}

    def tell(self, *arguments: object) -> dict[str, object]:
        """Run one command of the adaptor to its end. Raises Failure with the last line of its output."""
        command = [str(python_of(self.peer)), "-m", self.peer.module, *map(str, arguments)]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=self.environment(), capture_output=True, text=True, check=False,
                timeout=command_seconds,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failure(f"`{arguments[0]}` took more than {command_seconds:.0f} s") from None
        if done.returncode:
            raise Failure(f"`{arguments[0]}`: {last_line(done.stderr)}")
        answer: dict[str, object] = json.loads(last_line_whole(done.stdout))
        return answer

    def start_worker(self) -> "Worker":
        """A worker that has imported everything and waits at its gate."""
        before = len(self.tallies.processes())
        worker = Worker(self, len(self.workers))
        self.workers.append(worker)
        wait_for(lambda: worker.has_ended() or len(self.tallies.processes()) > before, import_seconds, "worker starts")
        if worker.has_ended():
            raise Failure(f"worker: {worker.last_output()}")
        return worker

    def unfinished(self, tasks: int) -> int:
        """How many tasks are not finished, as its tables say."""
        if not self.peer.unfinished:
            return max(tasks - self.tallies.ended(), 0)
        if self._connection is None:
            self._connection = psycopg.connect(self.url, autocommit=True)
        row = self._connection.execute(self.peer.unfinished.encode()).fetchone()
        return row[0] if row else 0

    def wait_until_finished(self, tasks: int, seconds: float) -> float:
        """The moment at which nothing was left. The tables are asked only once handlers have run often enough."""

        def is_finished() -> bool:
            for worker in self.workers:
                if worker.has_ended() and not worker.killed:
                    raise Failure(f"worker: {worker.last_output()}")
            return self.tallies.count() >= tasks and self.unfinished(tasks) == 0

        wait_for(is_finished, seconds, "every task is finished")
        return time.time()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        for worker in self.workers:
            worker.stop()


@contextlib.contextmanager
def stand(peer: Peer, url: str, mode: str = "drain") -> Iterator[Stand]:
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        one = Stand(peer, url, Path(folder), mode)
        try:
            yield one
        finally:
            one.close()


class Worker:
    """A worker process of a peer, with its children."""

    def __init__(self, stand: Stand, number: int) -> None:
        self.gate = stand.folder / f"gate-{number}"
        self.killed = False
        self._log = stand.folder / f"worker-{number}.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [str(python_of(stand.peer)), "-m", stand.peer.module, "work", stand.mode],
                cwd=ROOT, env=stand.environment(PEER_GATE=str(self.gate), PEER_WORKER=str(number)),
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def let_go(self) -> None:
        self.gate.touch()

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def last_output(self) -> str:
        return last_line(self._log.read_text(errors="replace"))

    def kill(self) -> None:
        """kill -9 for it and all its children, as if the machine were gone: none sees another die."""
        self.killed = True
        everybody = self._everybody()
        for strike in (psutil.Process.suspend, psutil.Process.kill):
            for process in everybody:
                with contextlib.suppress(psutil.NoSuchProcess):
                    strike(process)
        self._process.wait()

    def stop(self) -> None:
        if self.has_ended():
            return
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
            return
        self.kill()

    def _everybody(self) -> list[psutil.Process]:
        try:
            process = psutil.Process(self._process.pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def last_line_whole(text: str) -> str:
    return text.strip().splitlines()[-1]


def wait_for(is_so: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise Failure(f"not within {seconds:.0f} s: {what}")
        time.sleep(look_seconds)
