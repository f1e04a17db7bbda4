"""`holdfast queues`: what waits where, and what is held back."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import printing
from holdfast.cli.asking import ask, caller
from holdfast.cli.options import Json

if TYPE_CHECKING:
    from holdfast.engine.store.commands import Store
    from holdfast.engine.store.records import Queue

app = typer.Typer(invoke_without_command=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")]

counted_at_most = 10_000


@app.callback()
def queues(context: typer.Context, as_json: Json = False) -> None:
    """List the queues, or make, pause and resume one."""
    if not context.invoked_subcommand:
        list_all(as_json)


@app.command("ls")
def list_all(as_json: Json = False) -> None:
    """List the queues: what is ready and leased, how long the oldest waits."""

    async def question(store: "Store") -> "tuple[list[Queue], datetime]":
        return await store.queues(), await store.now()

    found, now = ask(question)
    if as_json:
        printing.answer([vars(one) for one in found])
        return
    rows = [row(one, now) for one in found]
    printing.table(("name", "ready", "leased", "oldest waits", "paused"), rows, elastic=("name", "paused"))


@app.command()
def make(name: Name, as_json: Json = False) -> None:
    """Make a queue, unless it is there."""

    async def question(store: "Store") -> "tuple[bool, Queue]":
        before = await store.queues()
        await store.make_queue(name)
        return name in {one.name for one in before}, next(one for one in await store.queues() if one.name == name)

    was_there, now = ask(question, makes=True)
    tell(now, "is there already" if was_there else "is made", as_json)


@app.command()
def pause(name: Name, as_json: Json = False) -> None:
    """Let workers claim nothing more of a queue; what they hold goes on."""
    change(name, lambda store: store.pause_queue(name, by=caller()), "is paused", as_json)


@app.command()
def resume(name: Name, as_json: Json = False) -> None:
    """Let workers claim from a queue again."""
    change(name, lambda store: store.resume_queue(name), "is open", as_json)


def change(name: str, verb: "Callable[[Store], Awaitable[None]]", words: str, as_json: bool) -> None:
    """Do it, and tell how the queue is now."""

    async def question(store: "Store") -> "Queue":
        await verb(store)
        return next(one for one in await store.queues() if one.name == name)

    tell(ask(question), words, as_json)


def tell(now: "Queue", words: str, as_json: bool) -> None:
    if as_json:
        printing.answer(vars(now))
    else:
        printing.say((now.name, "bold"), f" {words}.")


def row(one: "Queue", now: datetime) -> tuple[printing.Part, ...]:
    ready = f"{one.ready}+" if one.ready >= counted_at_most else str(one.ready)
    waits = printing.lasting(now - one.oldest_due) if one.oldest_due else ""
    by = f" by {one.paused_by}" if one.paused_by else ""
    paused = f"{printing.age(one.paused_at, now)}{by}" if one.paused_at else ""
    return (one.name, "bold"), ready, str(one.leased), waits, (paused, "yellow")
