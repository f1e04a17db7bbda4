"""`holdfast webhooks`: endpoints that learn how tasks end, and what was sent to them."""

from typing import TYPE_CHECKING, Annotated, Literal
from uuid import UUID

import typer

from holdfast.cli.access import Store, current_user
from holdfast.cli.ids import find_named
from holdfast.cli.options import Answer, Limit, asks_store, group
from holdfast.cli.printing import format_age, format_time, print_line, print_table
from holdfast.errors import WebhookUnknown

if TYPE_CHECKING:
    from holdfast.webhooks.store import Webhook, Webhooks

app = typer.Typer()

Which = Annotated[str, typer.Argument(metavar="WEBHOOK", help="Its name or its id, or the beginning of the id.")]


@group(app)
@asks_store
async def list_all(store: Store) -> Answer:
    """List the webhooks: what each is sent, what waits, what has failed."""
    found = await webhooks_of(store).all()
    yield found
    rows = [
        ((one.name, "bold"), str(one.id)[:13], one.url, events_of(one), str(one.waiting),
         (str(one.failed) if one.failed else "", "red"), (state_of(one), "yellow"))
        for one in found
    ]  # fmt: skip
    heads = ("name", "id", "url", "on", "waiting", "failed", "state")
    none = ("No webhooks. Add one: ", ("holdfast webhooks add URL", "bold"))
    print_table(heads, rows, elastic=("name", "url", "on", "state"), none=none)


@app.command()
@asks_store
async def add(
    store: Store,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where to send it: https://... or http://...")],
    on: Annotated[
        str | None, typer.Option(metavar="completed,failed", help="What: completed, partial, failed, cancelled, moved.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What people call it; else the URL.")] = None,
    lifecycle: Annotated[str | None, typer.Option(help="Only of tasks of this lifecycle.")] = None,
    task: Annotated[str | None, typer.Option(help="Only of tasks of this name.")] = None,
    owner: Annotated[str | None, typer.Option(help="Only of tasks of this owner.")] = None,
) -> Answer:
    """Send an endpoint how tasks end, from now on. Prints the secret that verifies it, this once."""
    from holdfast.remote.fetch.guard import Guard
    from holdfast.settings import read_settings
    from holdfast.webhooks.sending import check_url

    guard = Guard(read_settings().fetch_networks)
    kinds = [one.strip() for one in on.split(",") if one.strip()] if on is not None else None
    await check_url(url, guard)
    made, secret = await webhooks_of(store).add(
        url, name or url[:200], kinds=kinds, lifecycle=lifecycle, task_name=task, owner=owner, by=current_user()
    )
    yield {"id": made, "secret": secret}
    typer.echo(secret)
    print_line(f"Webhook {made} is added. Verify with this secret; it is not shown again.", err=True)
    print_line(("Try it: ", "dim"), (f"holdfast webhooks test {made}", "bold"), err=True)


@app.command()
@asks_store
async def rm(store: Store, webhook: Which) -> Answer:
    """Remove a webhook, and all that was to be sent."""
    found = await find(store, webhook)
    await webhooks_of(store).remove(found.id)
    yield found
    print_line((found.name, "bold"), " is removed.")


@app.command()
@asks_store
async def pause(store: Store, webhook: Which) -> Answer:
    """Send nothing for now; what happens meanwhile is kept."""
    found = await find(store, webhook)
    await webhooks_of(store).pause(found.id)
    yield await webhooks_of(store).read(found.id)
    print_line((found.name, "bold"), " is paused.")


@app.command()
@asks_store
async def resume(store: Store, webhook: Which) -> Answer:
    """Send again. One that was disabled gets what happens from now on."""
    found = await find(store, webhook)
    await webhooks_of(store).resume(found.id)
    yield await webhooks_of(store).read(found.id)
    print_line((found.name, "bold"), " goes on.")


@app.command("test")
@asks_store
async def send_test(store: Store, webhook: Which) -> Answer:
    """Send an empty event, to see whether it arrives; a server that is up sends it."""
    delivery = await webhooks_of(store).test((await find(store, webhook)).id)
    yield {"delivery_id": delivery}
    print_queued(delivery, webhook)


@app.command()
@asks_store
async def deliveries(
    store: Store,
    webhook: Which,
    state: Annotated[Literal["pending", "done", "failed"] | None, typer.Option(help="Only those.")] = None,
    limit: Limit = 20,
) -> Answer:
    """List what was sent to a webhook and what is to be, the newest first."""
    found = await webhooks_of(store).deliveries((await find(store, webhook)).id, state=state, limit=limit)
    yield found
    now, colours = await store.now(), {"pending": "yellow", "done": "green", "failed": "red"}
    rows = [
        (str(one.id), one.kind, str(one.task_id), (one.state, colours[one.state]), str(one.tries),
         format_age(one.made_at, now), one.error or "")
        for one in found
    ]  # fmt: skip
    print_table(("id", "what", "task", "state", "tries", "made", "error"), rows, elastic=("error",))


@app.command()
@asks_store
async def redeliver(
    store: Store,
    webhook: Which,
    delivery: Annotated[UUID, typer.Argument(metavar="DELIVERY", help="The delivery's id.")],
) -> Answer:
    """Send a delivery again, whatever became of it, under the same id."""
    await webhooks_of(store).redeliver((await find(store, webhook)).id, delivery)
    yield {"delivery_id": delivery}
    print_queued(delivery, webhook)


def webhooks_of(store: Store) -> "Webhooks":
    from holdfast.webhooks.store import Webhooks

    return Webhooks.over(store)


async def find(store: Store, given: str) -> "Webhook":
    """The webhook of this name, or whose id begins so. Raises WebhookUnknown."""
    missing = WebhookUnknown(f"There is no webhook {given!r}.", fix="List them: holdfast webhooks ls")
    return find_named(given, await webhooks_of(store).all(), missing)


def print_queued(delivery: UUID, webhook: str) -> None:
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
