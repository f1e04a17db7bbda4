"""`holdfast up` and `dev`: database, schema, server, workers, in this order; the banner once the server answers.

The first Ctrl-C (or SIGTERM) finishes the requests and tasks at hand and ends; a second one ends at once. The database
goes with the last process that uses it, and keeps everything. Workers are processes of `holdfast worker`, started again
if they end, or if code changes. One that cannot start would not start the next time either: then all stop, or wait.
"""

import asyncio
import concurrent.futures
import contextlib
import ctypes
import errno
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import typer
import uvicorn
from watchfiles import PythonFilter, awatch

from holdfast.api import close_app, make_app
from holdfast.api.chores import chores
from holdfast.apps import offer_bundled
from holdfast.apps.documents.embedders import embedder_at_hand
from holdfast.backoff import backoff
from holdfast.engine.logs import configure_logs
from holdfast.engine.opening import bring_up_to_date
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Submission
from holdfast.errors import AppInvalid, PortsTaken, SettingInvalid
from holdfast.http.access import is_loopback, refuse_open_server
from holdfast.lifecycles import declare_all
from holdfast.objects import Objects, open_objects
from holdfast.postgres.connections import Address, locate, open_pool
from holdfast.settings import Settings, read_settings, web_address

CANNOT_START = 2
PR_SET_PDEATHSIG = 1

restart_seconds = 0.2, 10.0
leave_within_seconds = 20.0
ports_tried = 100

T = TypeVar("T")

log = logging.getLogger("holdfast.up")


class Fleet:
    """So many workers of one application."""

    def __init__(self, app: list[str], workers: int, *, reload: Path | None = None) -> None:
        self._command = [sys.executable, "-m", "holdfast", "worker", "--app", *app]
        self._workers = workers
        self._reload = reload
        self._leaving = False
        self._running: dict[asyncio.subprocess.Process, bool] = {}  # whether it was asked to end
        self._changed = asyncio.Event()
        self.cannot_start = False
        """Whether the workers cannot start as the code is."""

    async def run(self, stop: Callable[[], None]) -> None:
        """Keep them going until cancelled; then let them leave. Calls `stop` if they cannot start."""
        tasks = [asyncio.create_task(self._keep_one(stop)) for _ in range(self._workers)]
        try:
            if self._reload:
                await self._watch(self._reload)
            await asyncio.gather(*tasks)
        finally:
            if not self._leaving:
                self.leave()
            _, late = await asyncio.wait(tasks, timeout=leave_within_seconds)
            self._signal(signal.SIGKILL)
            for task in late:
                task.cancel()

    def leave(self) -> None:
        """Let them end what they run. Asked twice, they give it back and leave at once."""
        self._leaving = True
        self._changed.set()
        self._signal(signal.SIGTERM)

    async def _keep_one(self, stop: Callable[[], None]) -> None:
        pauses, longest = backoff(*restart_seconds), restart_seconds[1]
        loop = asyncio.get_running_loop()
        first = True
        while not self._leaving:
            begun = loop.time()
            self._changed.clear()
            code, was_stopped = await self._run_one()
            if self._leaving:
                return
            if code == CANNOT_START and not was_stopped:
                if self._reload:
                    log.info("the worker cannot start; it waits for the next save")
                    await self._changed.wait()
                    continue
                if first:
                    self.cannot_start = True
                    stop()
                    return
            first = False
            if code == 0 or was_stopped or loop.time() - begun > longest:
                pauses = backoff(*restart_seconds)
            if code and not was_stopped:
                log.warning("a worker ended; it is started again", extra={"exit_code": code})
            await asyncio.sleep(next(pauses))

    async def _run_one(self) -> tuple[int, bool]:
        """Run one process to its end: its exit code, and whether it was asked to end."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "HOLDFAST_API": ""},  # beside the server is the database
            start_new_session=True,
            preexec_fn=leave_with_parent,
        )
        self._running[process] = False
        try:
            code = await process.wait()
            return code, self._running[process]
        finally:
            del self._running[process]

    async def _watch(self, folder: Path) -> None:
        """Start the workers again whenever code in this folder changes."""
        home = read_settings().home.absolute()  # what tasks write there is not your code
        async for changes in awatch(folder, watch_filter=PythonFilter(ignore_paths=[home])):
            names = sorted({Path(path).name for _, path in changes})
            log.info("code changed; workers start again", extra={"files": names})
            self._changed.set()
            self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._running:
            self._running[process] = True
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)


def leave_with_parent() -> None:
    """In a worker about to begin: when the server is killed, leave as if asked to. Elsewhere than on Linux it stays."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def run(
    settings: Settings, fleet: Fleet | None = None, workers_label: str = "", first: Sequence[Submission] = ()
) -> None:
    """Serve until asked to stop, with these workers and first tasks. Raises what stands in the way of starting."""
    configure_logs()
    loop_factory = uvicorn.Config("", loop="auto", log_config=None).get_loop_factory()
    with asyncio.Runner(loop_factory=loop_factory) as runner, contextlib.suppress(asyncio.CancelledError):
        runner.run(serve(settings, fleet, workers_label, first))
    if fleet and fleet.cannot_start:
        typer.echo("Stopped: the workers cannot start.", err=True)
        raise typer.Exit(CANNOT_START)
    typer.echo("Stopped.", err=True)


def run_demo(settings: Settings, workers: int | None) -> None:
    """Serve, with sample work that moves."""
    from holdfast.apps.demo import first_work

    number = 2 if workers is None else workers
    run(settings, Fleet(["holdfast.apps.demo:hf"], number), f"{number}, with sample work", first_work())


def run_with(settings: Settings, app: str, workers: int | None) -> None:
    """Serve, with workers of this application beside: two unless another number is asked for."""
    number = (2 if app else 0) if workers is None else workers
    if number and not app:
        raise AppInvalid("Workers must know where your tasks are.", fix="Name them: --app module:hf, or HOLDFAST_APP.")
    run(settings, Fleet([app], number) if number else None, f"{number} of {app}" if number else "")


def run_dev(settings: Settings, file: Path, slots: int) -> None:
    """Serve, with a worker of this file that starts again when code beside it is saved."""
    options = [str(file), "--slots", str(slots), "--grace", "1s"]
    run(settings, Fleet(options, 1, reload=file.resolve().parent), f"1 of {file}, again when you save")


async def serve(settings: Settings, fleet: Fleet | None, workers_label: str, first: Sequence[Submission]) -> None:
    listening = bind(settings.host, settings.port)
    serving = asyncio.current_task()
    assert serving is not None  # noqa: S101
    with listening, contextlib.ExitStack() as stack:
        stack.callback(set_stop, None)
        set_stop(serving.cancel)
        address = await abandonable(lambda: stack.enter_context(locate(settings)))
        for name in await bring_up_to_date(address):
            log.info("schema changed", extra={"applied": name})
        objects = open_objects(settings)
        async with open_pool(address) as pool:
            store = Store(pool)
            await refuse_open_server(store, settings.host)
            await declare_all(store)
            await offer_bundled(store)
            app = make_app(
                pool,
                database=address.label,
                objects=objects,
                embedder=embedder_at_hand(settings),
                loopback=is_loopback(settings.host),
                hosts=settings.host_names,
                address=address,
            )
            config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=10)
            server = Server(config, banner(listening, settings, address, objects, workers_label))

            def stop() -> None:
                close_app(app)
                server.leave()
                if fleet:
                    fleet.leave()

            set_stop(stop)
            async with chores(store, objects, settings):
                for task in first:
                    await store.make_queue(task.queue or "default")
                    await store.submit(task)
                workers: asyncio.Task[None] | None = None
                if fleet:
                    workers = asyncio.create_task(fleet.run(stop))
                try:
                    await server.serve(sockets=[listening])
                finally:
                    if workers:
                        workers.cancel()
                        await asyncio.gather(workers, return_exceptions=True)


async def abandonable(function: Callable[[], T]) -> T:
    """What `function` returns, from a thread that does not keep the process from ending after a Ctrl-C."""
    answer: concurrent.futures.Future[T] = concurrent.futures.Future()
    answer.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answer.set_result(function())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(answer)


class Server(uvicorn.Server):
    """uvicorn, with the banner printed once it listens, and with the signals left to us."""

    def __init__(self, config: uvicorn.Config, banner: str) -> None:
        super().__init__(config)
        self.banner = banner

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            typer.echo(self.banner)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def leave(self) -> None:
        self.force_exit, self.should_exit = self.should_exit, True


def set_stop(reaction: Callable[[], object] | None) -> None:
    """What SIGINT and SIGTERM do from now on; None for what they do by themselves."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        if reaction:
            loop.add_signal_handler(number, reaction)
        else:
            loop.remove_signal_handler(number)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket on `port`, or on the next free one. Raises PortsTaken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    last = min(port + ports_tried - 1, 65535)
    for candidate in range(port, last + 1) if port else (0,):
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            listening.listen(2048)
        except OSError as error:
            listening.close()
            if error.errno == errno.EACCES:
                raise SettingInvalid(
                    f"HOLDFAST_PORT={port}: {error.strerror}.", fix="Ports below 1024 are root's: take a higher one."
                ) from None
            if error.errno != errno.EADDRINUSE:
                raise SettingInvalid(f"HOLDFAST_HOST={host}: {error.strerror}.") from None
        else:
            return listening
    raise PortsTaken(f"Tried {port} to {last} on {host}.", fix="Name another with HOLDFAST_PORT; 0 takes any.")


def banner(listening: socket.socket, settings: Settings, address: Address, objects: Objects, workers_label: str) -> str:
    host, port = listening.getsockname()[:2]
    lines = ["", f"  Holdfast is up:  {web_address(host, port)}"]
    if settings.port not in (0, port):
        lines.append(f"                   (port {settings.port} is taken)")
    lines += [f"  Database:        {address.label}", f"  Objects:         {objects.label}"]
    if workers_label:
        lines.append(f"  Workers:         {workers_label}")
    lines += ["  Stop:            Ctrl-C", ""]
    return "\n".join(lines)
