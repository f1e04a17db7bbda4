"""`holdfast queues`: what waits where, and what is held back."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.access import current_user, with_store
from holdfast.cli.options import Json, group
from holdfast.cli.printing import Cell, format_age, format_duration, print_json, print_line, print_table

if TYPE_CHECKING:
    from holdfast.engine.store.commands import Store
    from holdfast.engine.store.records import Queue

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")]

counted_at_most = 10_000


@group(app)
def list_all(as_json: Json = False) -> None:
    """List the queues: what is ready and leased, how long the oldest waits."""

    async def act(store: "Store") -> "tuple[list[Queue], datetime]":
        return await store.queues(), await store.now()

    found, now = with_store(act)
    if as_json:
        print_json([vars(one) for one in found])
        return
    rows = [row_of(one, now) for one in found]
    print_table(("name", "ready", "leased", "oldest waits", "paused"), rows, elastic=("name", "paused"))


@app.command()
def make(name: Name, as_json: Json = False) -> None:
    """Make a queue, unless it is there."""

    async def act(store: "Store") -> "tuple[bool, Queue]":
        before = await store.queues()
        await store.make_queue(name)
        return name in {one.name for one in before}, next(one for one in await store.queues() if one.name == name)

    was_there, now = with_store(act, makes=True)
    print_queue(now, "is there already" if was_there else "is made", as_json)


@app.command()
def pause(name: Name, as_json: Json = False) -> None:
    """Let workers claim nothing more of a queue; what they hold goes on."""
    change(name, lambda store: store.pause_queue(name, by=current_user()), "is paused", as_json)


@app.command()
def resume(name: Name, as_json: Json = False) -> None:
    """Let workers claim from a queue again."""
    change(name, lambda store: store.resume_queue(name), "is open", as_json)


def change(name: str, verb: "Callable[[Store], Awaitable[None]]", label: str, as_json: bool) -> None:
    """Do it, and print how the queue is now."""

    async def act(store: "Store") -> "Queue":
        await verb(store)
        return next(one for one in await store.queues() if one.name == name)

    print_queue(with_store(act), label, as_json)


def print_queue(now: "Queue", label: str, as_json: bool) -> None:
    if as_json:
        print_json(vars(now))
    else:
        print_line((now.name, "bold"), f" {label}.")


def row_of(one: "Queue", now: datetime) -> tuple[Cell, ...]:
    ready = f"{one.ready}+" if one.ready >= counted_at_most else str(one.ready)
    waits = format_duration(now - one.oldest_due) if one.oldest_due else ""
    by = f" by {one.paused_by}" if one.paused_by else ""
    paused = f"{format_age(one.paused_at, now)}{by}" if one.paused_at else ""
    return (one.name, "bold"), ready, str(one.leased), waits, (paused, "yellow")
