"""Asking the database: every command opens it here, uses it once and lets it go.

A database that is up to date costs three short connections and no write. An embedded server is shared with whoever has
it open, `holdfast up` for one; nobody having it open, it runs for as long as the question takes.
"""

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from holdfast.kernel.store import Store

T = TypeVar("T")


def ask(question: "Callable[[Store], Awaitable[T]]") -> T:
    """The answer of the database, which is brought up to date first. Raises a DatabaseError or a MigrationError."""
    from holdfast.kernel.opening import open_store
    from holdfast.lifecycles import declare_all

    async def run() -> T:
        async with open_store() as store:
            await declare_all(store)
            return await question(store)

    return asyncio.run(run())


def caller() -> str:
    """Who sits here, for the history of what is done."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "cli"
