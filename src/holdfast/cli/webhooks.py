"""`holdfast webhooks`: endpoints that learn how tasks end, and what was sent to them."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar
from uuid import UUID

import typer

from holdfast.cli.access import current_user, with_store
from holdfast.cli.ids import find_named
from holdfast.cli.options import Json, Limit, group
from holdfast.cli.printing import format_age, format_time, print_json, print_line, print_table
from holdfast.errors import WebhookUnknown

if TYPE_CHECKING:
    from holdfast.engine.store.commands import Store
    from holdfast.webhooks.store import Delivery, Webhook, Webhooks

app = typer.Typer()

T = TypeVar("T")
Which = Annotated[str, typer.Argument(metavar="WEBHOOK", help="Its name or its id, or the beginning of the id.")]


@group(app)
def list_all(as_json: Json = False) -> None:
    """List the webhooks: what each is sent, what waits, what has failed."""
    found = with_webhooks(lambda hooks: hooks.all())
    if as_json:
        print_json([vars(one) for one in found])
    elif found:
        rows = [
            ((one.name, "bold"), str(one.id)[:13], one.url, events_of(one), str(one.waiting),
             (str(one.failed) if one.failed else "", "red"), (state_of(one), "yellow"))
            for one in found
        ]  # fmt: skip
        heads = ("name", "id", "url", "on", "waiting", "failed", "state")
        print_table(heads, rows, elastic=("name", "url", "on", "state"))
    else:
        print_line("No webhooks. Add one: ", ("holdfast webhooks add URL", "bold"), err=True)


@app.command()
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where to send it: https://... or http://...")],
    on: Annotated[
        str | None, typer.Option(metavar="completed,failed", help="What: completed, partial, failed, cancelled, moved.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What people call it; else the URL.")] = None,
    lifecycle: Annotated[str | None, typer.Option(help="Only of tasks of this lifecycle.")] = None,
    task: Annotated[str | None, typer.Option(help="Only of tasks of this name.")] = None,
    owner: Annotated[str | None, typer.Option(help="Only of tasks of this owner.")] = None,
    as_json: Json = False,
) -> None:
    """Send an endpoint how tasks end, from now on. Prints the secret that verifies it, this once."""
    from holdfast.remote.fetch.guard import Guard
    from holdfast.settings import read_settings
    from holdfast.webhooks.sending import check_url

    guard = Guard(read_settings().fetch_networks)
    kinds = [one.strip() for one in on.split(",") if one.strip()] if on is not None else None

    async def make(hooks: "Webhooks") -> tuple[UUID, str]:
        await check_url(url, guard)
        return await hooks.add(
            url, name or url[:200], kinds=kinds, lifecycle=lifecycle, task_name=task, owner=owner, by=current_user()
        )

    made, secret = with_webhooks(make)
    if as_json:
        print_json({"id": made, "secret": secret})
        return
    typer.echo(secret)
    print_line(f"Webhook {made} is added. Verify with this secret; it is not shown again.", err=True)
    print_line(("Try it: ", "dim"), (f"holdfast webhooks test {made}", "bold"), err=True)


@app.command()
def rm(webhook: Which, as_json: Json = False) -> None:
    """Remove a webhook, and all that was to be sent."""

    async def remove(hooks: "Webhooks") -> "Webhook":
        found = await find(hooks, webhook)
        await hooks.remove(found.id)
        return found

    print_webhook(with_webhooks(remove), "is removed", as_json)


@app.command()
def pause(webhook: Which, as_json: Json = False) -> None:
    """Send nothing for now; what happens meanwhile is kept."""
    change(webhook, lambda hooks, one: hooks.pause(one), "is paused", as_json)


@app.command()
def resume(webhook: Which, as_json: Json = False) -> None:
    """Send again. One that was disabled gets what happens from now on."""
    change(webhook, lambda hooks, one: hooks.resume(one), "goes on", as_json)


@app.command("test")
def send_test(webhook: Which, as_json: Json = False) -> None:
    """Send an empty event, to see whether it arrives; a server that is up sends it."""

    async def send(hooks: "Webhooks") -> UUID:
        return await hooks.test((await find(hooks, webhook)).id)

    print_queued(with_webhooks(send), webhook, as_json)


@app.command()
def deliveries(
    webhook: Which,
    state: Annotated[Literal["pending", "done", "failed"] | None, typer.Option(help="Only those.")] = None,
    limit: Limit = 20,
    as_json: Json = False,
) -> None:
    """List what was sent to a webhook and what is to be, the newest first."""

    async def act(store: "Store") -> "tuple[list[Delivery], datetime]":
        from holdfast.webhooks.store import Webhooks

        hooks = Webhooks.over(store)
        found = await hooks.deliveries((await find(hooks, webhook)).id, state=state, limit=limit)
        return found, await store.now()

    found, now = with_store(act)
    if as_json:
        print_json([vars(one) for one in found])
        return
    colours = {"pending": "yellow", "done": "green", "failed": "red"}
    rows = [
        (str(one.id), one.kind, str(one.task_id), (one.state, colours[one.state]), str(one.tries),
         format_age(one.made_at, now), one.error or "")
        for one in found
    ]  # fmt: skip
    print_table(("id", "what", "task", "state", "tries", "made", "error"), rows, elastic=("error",))


@app.command()
def redeliver(
    webhook: Which,
    delivery: Annotated[UUID, typer.Argument(metavar="DELIVERY", help="The delivery's id.")],
    as_json: Json = False,
) -> None:
    """Send a delivery again, whatever became of it, under the same id."""

    async def again(hooks: "Webhooks") -> UUID:
        await hooks.redeliver((await find(hooks, webhook)).id, delivery)
        return delivery

    print_queued(with_webhooks(again), webhook, as_json)


def with_webhooks(act: "Callable[[Webhooks], Awaitable[T]]") -> T:
    async def run(store: "Store") -> T:
        from holdfast.webhooks.store import Webhooks

        return await act(Webhooks.over(store))

    return with_store(run)


async def find(hooks: "Webhooks", given: str) -> "Webhook":
    """The webhook of this name, or whose id begins so. Raises WebhookUnknown."""
    missing = WebhookUnknown(f"There is no webhook {given!r}.", fix="List them: holdfast webhooks ls")
    return find_named(given, await hooks.all(), missing)


def change(webhook: str, verb: "Callable[[Webhooks, UUID], Awaitable[None]]", label: str, as_json: bool) -> None:
    async def act(hooks: "Webhooks") -> "Webhook":
        found = await find(hooks, webhook)
        await verb(hooks, found.id)
        return await hooks.read(found.id) or found

    print_webhook(with_webhooks(act), label, as_json)


def print_webhook(now: "Webhook", label: str, as_json: bool) -> None:
    if as_json:
        print_json(vars(now))
    else:
        print_line((now.name, "bold"), f" {label}.")


def print_queued(delivery: UUID, webhook: str, as_json: bool) -> None:
    if as_json:
        print_json({"delivery_id": delivery})
    else:
        print_line("On its way as ", (str(delivery), "bold"), ".")
        print_line((f"See how it goes: holdfast webhooks deliveries {webhook}", "dim"), err=True)


def events_of(one: "Webhook") -> str:
    only = [name for name in (one.lifecycle, one.task_name, one.owner) if name]
    return ",".join(one.kinds) + (f" of {'/'.join(only)}" if only else "")


def state_of(one: "Webhook") -> str:
    if one.disabled_at:
        return f"disabled: {one.disabled_why}"
    missed = f"missed moves before {format_time(one.missed_at)}" if one.missed_at else ""
    return "paused" if one.paused_at else missed
