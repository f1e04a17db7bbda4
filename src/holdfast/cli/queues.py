"""`holdfast queues`: what waits where, and what is held back."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.access import Store, current_user
from holdfast.cli.options import Answer, asks_store, group, makes_store
from holdfast.cli.printing import Cell, format_age, format_duration, print_line, print_table

if TYPE_CHECKING:
    from holdfast.engine.store.records import Queue

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")]

counted_at_most = 10_000


@group(app)
@asks_store
async def list_all(store: Store) -> Answer:
    """List the queues: what is ready and leased, how long the oldest waits."""
    found, now = await store.queues(), await store.now()
    yield found
    rows = [row_of(one, now) for one in found]
    print_table(("name", "ready", "leased", "oldest waits", "paused"), rows, elastic=("name", "paused"))


@app.command()
@makes_store
async def make(store: Store, name: Name) -> Answer:
    """Make a queue, unless it is there."""
    before = await store.queues()
    await store.make_queue(name)
    yield await read(store, name)
    print_line((name, "bold"), " is there already." if name in {one.name for one in before} else " is made.")


@app.command()
@asks_store
async def pause(store: Store, name: Name) -> Answer:
    """Let workers claim nothing more of a queue; what they hold goes on."""
    await store.pause_queue(name, by=current_user())
    yield await read(store, name)
    print_line((name, "bold"), " is paused.")


@app.command()
@asks_store
async def resume(store: Store, name: Name) -> Answer:
    """Let workers claim from a queue again."""
    await store.resume_queue(name)
    yield await read(store, name)
    print_line((name, "bold"), " is open.")


async def read(store: Store, name: str) -> "Queue":
    return next(one for one in await store.queues() if one.name == name)


def row_of(one: "Queue", now: datetime) -> tuple[Cell, ...]:
    ready = f"{one.ready}+" if one.ready >= counted_at_most else str(one.ready)
    waits = format_duration(now - one.oldest_due) if one.oldest_due else ""
    by = f" by {one.paused_by}" if one.paused_by else ""
    paused = f"{format_age(one.paused_at, now)}{by}" if one.paused_at else ""
    return (one.name, "bold"), ready, str(one.leased), waits, (paused, "yellow")
