"""What commands speak to: the database, or the server at HOLDFAST_API. It is opened here, used once and closed.

A database that is up to date costs three short connections and no write. An embedded server is shared with the process
that has it open, such as `holdfast up`; else it runs for as long as the command takes. A command that only reads, or
acts on what exists, makes no database where there is none; nor does any command where HOLDFAST_API names a server.
"""

import contextlib
import getpass
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from holdfast.engine.store.commands import Store as Store
    from holdfast.remote.server import Server as Server
    from holdfast.settings import Settings
else:
    Store = Server = Any  # what they are is imported when a command opens one: the others start fast

INTERRUPTED = 130

T = TypeVar("T")


def with_store(act: Callable[[Store], Awaitable[T]], *, makes: bool = False) -> T:
    """What `act` returns. The schema is brought up to date first; a database is made only if the command `makes` it.

    Raises a DatabaseError or a MigrationError.
    """
    from holdfast.engine.opening import open_store
    from holdfast.lifecycles import declare_all
    from holdfast.settings import read_settings

    settings = read_settings()
    if not makes or settings.is_remote:
        check_database_exists(settings)

    async def run() -> T:
        async with open_store(settings) as store:
            await declare_all(store)
            with cancelled_by_ctrl_c():
                return await act(store)

    return run_interruptible(run())


def with_server(act: Callable[[Server], Awaitable[T]]) -> T:
    """What `act` returns of the server of the settings. Raises what the server answers."""
    from holdfast.remote.server import open_server
    from holdfast.settings import read_settings

    settings = read_settings()

    async def run() -> T:
        async with open_server(settings) as server:
            with cancelled_by_ctrl_c():
                return await act(server)

    return run_interruptible(run())


def run_interruptible(run: Coroutine[Any, Any, T]) -> T:
    import asyncio

    try:
        return asyncio.run(run)
    except asyncio.CancelledError:
        sys.exit(INTERRUPTED)


def check_database_exists(settings: "Settings") -> None:
    """Raise FolderUnusable where no database was ever made."""
    from holdfast.errors import FolderUnusable

    if not settings.url and not settings.home.exists():
        raise FolderUnusable(
            f"There is no Holdfast database here: {settings.home.absolute()} is missing.",
            fix="This command asks the database, not the server at HOLDFAST_API: set HOLDFAST_URL, or run it there."
            if settings.is_remote
            else "Run it where your project is, or set HOLDFAST_HOME or HOLDFAST_URL. `holdfast up` makes a new one.",
        )


def database_label() -> str:
    """Which database is asked, for people and without a password."""
    from holdfast.postgres.connections import Address
    from holdfast.postgres.embedded import Embedded
    from holdfast.settings import read_settings

    settings = read_settings()
    return (Address(given=settings.url) if settings.url else Address(embedded=Embedded(settings.home))).label


@contextlib.contextmanager
def cancelled_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C cancel this task, so that it ends where it waits and not in the midst of a callback.

    Only for what waits: while the loop is blocked, as by an embedded server that does not start, Ctrl-C has no effect.
    """
    import asyncio

    loop, task, before = asyncio.get_running_loop(), asyncio.current_task(), signal.getsignal(signal.SIGINT)
    assert task is not None  # noqa: S101
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


def current_user() -> str:
    """The name of the person at the keyboard, for the history of what is done."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "cli"
