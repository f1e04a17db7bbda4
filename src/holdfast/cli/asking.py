"""Asking the database: every command opens it here, uses it once and lets it go.

A database that is up to date costs three short connections and no write. An embedded server is shared with whoever has
it open, `holdfast up` for one; nobody having it open, it runs for as long as the question takes. Whoever only looks, or
acts on what is there, makes no database where there is none; nor does anybody where HOLDFAST_API names a server.
"""

import asyncio
import contextlib
import getpass
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from holdfast.engine.store.commands import Store
    from holdfast.settings import Settings

INTERRUPTED = 130

T = TypeVar("T")


def ask(question: "Callable[[Store], Awaitable[T]]", *, makes: bool = False) -> T:
    """The answer of the database, which is brought up to date first; made only if the command `makes` it.

    Raises a DatabaseError or a MigrationError.
    """
    from holdfast.engine.opening import open_store
    from holdfast.lifecycles import declare_all
    from holdfast.settings import read_settings

    settings = read_settings()
    if not makes or settings.is_remote:
        refuse_nowhere(settings)

    async def run() -> T:
        async with open_store(settings) as store:
            await declare_all(store)
            with cancelled_by_ctrl_c():
                return await question(store)

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        sys.exit(INTERRUPTED)


def refuse_nowhere(settings: "Settings") -> None:
    """Raise FolderUnusable where no database was ever made."""
    from holdfast.errors import FolderUnusable

    if not settings.url and not settings.home.exists():
        raise FolderUnusable(
            f"There is no Holdfast database here: {settings.home.absolute()} is missing.",
            fix="This command asks the database, not the server at HOLDFAST_API: set HOLDFAST_URL, or run it there."
            if settings.is_remote
            else "Run it where your project is, or set HOLDFAST_HOME or HOLDFAST_URL. `holdfast up` makes a new one.",
        )


def whereabouts() -> str:
    """Which database is asked, in words and without a password."""
    from holdfast.postgres.connections import Address
    from holdfast.postgres.embedded import Embedded
    from holdfast.settings import read_settings

    settings = read_settings()
    return (Address(given=settings.url) if settings.url else Address(embedded=Embedded(settings.home))).label


@contextlib.contextmanager
def cancelled_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C cancel this task, so that it ends where it waits and not in the midst of somebody's callback.

    Only for what waits: while the loop is blocked, by an embedded server that does not start, nobody would hear it.
    """
    loop, task, before = asyncio.get_running_loop(), asyncio.current_task(), signal.getsignal(signal.SIGINT)
    assert task is not None  # noqa: S101
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


def caller() -> str:
    """Who sits here, for the history of what is done."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "cli"
