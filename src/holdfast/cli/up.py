"""`holdfast up`: database, schema, server, in this order; the banner once all of it answers.

The first Ctrl-C (or SIGTERM) finishes the requests at hand and ends; a second one ends at once. The database goes with
the last process that uses it, and keeps everything.
"""

import asyncio
import contextlib
import errno
import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import structlog
import typer
import uvicorn

from holdfast.api import make_app
from holdfast.errors import PortsTaken, SettingInvalid
from holdfast.kernel.logs import configure_logs
from holdfast.kernel.migrate import migrate
from holdfast.kernel.postgres import Address, locate, pooled
from holdfast.kernel.settings import Settings, web_address
from holdfast.kernel.store import Store
from holdfast.lifecycles import declare_all

ports_tried = 100

T = TypeVar("T")

log = structlog.get_logger()


def run(settings: Settings) -> None:
    """Serve until told to stop. Raises what stands in the way of starting."""
    configure_logs()
    refuse_public(settings.host)
    loop_factory = uvicorn.Config("", loop="auto", log_config=None).get_loop_factory()
    with asyncio.Runner(loop_factory=loop_factory) as runner, contextlib.suppress(asyncio.CancelledError):
        runner.run(serve(settings))
    typer.echo("Stopped.", err=True)


async def serve(settings: Settings) -> None:
    listening = bind(settings.host, settings.port)
    with listening, stoppable() as on_stop, contextlib.ExitStack() as stack:
        address = await abandonable(lambda: stack.enter_context(locate(settings)))
        for name in await migrate(address.nearest(owner=True)):
            log.info("schema changed", applied=name)
        async with pooled(address) as pool:
            store = Store(pool)
            await declare_all(store)
            await store.make_partitions()
            app = make_app(pool, database=address.label)
            config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=10)
            server = Server(config, banner(listening, settings, address))
            on_stop(server.leave)
            await server.serve(sockets=[listening])


async def abandonable(function: Callable[[], T]) -> T:
    """What `function` returns, from a thread that does not keep the process from ending after a Ctrl-C."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(set_answer: Callable[[Any], None], value: object) -> None:
        if not answer.done():
            set_answer(value)

    def run() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            try:
                value = function()
            except Exception as error:
                loop.call_soon_threadsafe(settle, answer.set_exception, error)
            else:
                loop.call_soon_threadsafe(settle, answer.set_result, value)

    threading.Thread(target=run, daemon=True).start()
    return await answer


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


@contextlib.contextmanager
def stoppable() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Turn SIGINT and SIGTERM into the cancellation of this task, or into what the caller names once it can."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101
    react: Callable[[], object] = task.cancel

    def name(reaction: Callable[[], None]) -> None:
        nonlocal react
        react = reaction

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: react())
    try:
        yield name
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def refuse_public(host: str) -> None:
    """Nothing asks for a key yet, so nobody but this machine may call."""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return
    if host != "localhost":
        raise SettingInvalid(
            f"HOLDFAST_HOST={host} would serve to other machines without asking who calls.",
            fix="Serve on 127.0.0.1 and put a proxy that asks for credentials before it.",
        )


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


def banner(listening: socket.socket, settings: Settings, address: Address) -> str:
    host, port = listening.getsockname()[:2]
    lines = ["", f"  Holdfast is up:  {web_address(host, port)}"]
    if settings.port not in (0, port):
        lines.append(f"                   (port {settings.port} is taken)")
    lines += [f"  Database:        {address.label}", "  Stop:            Ctrl-C", ""]
    return "\n".join(lines)
