"""`holdfast keys`: who may call the server, and as what."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, cast

import typer

from holdfast.cli.access import Store
from holdfast.cli.ids import find_named, shorten_id
from holdfast.cli.options import Answer, asks_store, makes_store
from holdfast.cli.printing import Cell, format_age, print_line, print_table
from holdfast.errors import KeyUnknown

if TYPE_CHECKING:
    from holdfast.engine.store.keys import Key, Role

app = typer.Typer(no_args_is_help=True)


@app.command()
@makes_store
async def create(
    store: Store,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The person or program it is for.")],
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="user|worker|operator", help="What it may do; again for more. By default user."),
    ] = None,
    owner: Annotated[
        str | None, typer.Option(help="The owner of the tasks that it makes and sees, if not NAME.")
    ] = None,
) -> Answer:
    """Make a key, and print it: this once, for it is not kept."""
    roles = cast("list[Role]", role or ["user"])
    made = await store.keys.make(name, roles, owner=owner)
    yield {"id": made.id, "name": name, "roles": roles, "key": made.secret}
    typer.echo(made.secret)
    print_line(("Keep it: it is not shown again. Send it as the header Authorization: Bearer KEY.", "dim"), err=True)


@app.command("ls")
@asks_store
async def list_all(store: Store) -> Answer:
    """List the keys, without what is secret."""
    found, now = await store.keys.all(), await store.now()
    yield found
    ids = [one.id for one in found]
    rows = [row_of(one, shorten_id(one.id, ids), now) for one in found]
    none = ("No keys yet. Make one: ", ("holdfast keys create NAME --role operator", "bold"))
    print_table(("id", "name", "roles", "owner", "made", "revoked"), rows, elastic=("name", "owner"), none=none)


@app.command()
@asks_store
async def revoke(
    store: Store, key: Annotated[str, typer.Argument(metavar="KEY", help="Its id, the beginning of it, or its name.")]
) -> Answer:
    """Refuse a key from now on."""
    missing = KeyUnknown(f"No key has the id or name {key!r}.", fix="See them: holdfast keys ls")
    found = find_named(key, await store.keys.all(), missing)
    await store.keys.revoke(found.id)
    yield next(one for one in await store.keys.all() if one.id == found.id)
    print_line((found.name, "bold"), f" ({found.id}) is revoked.")


def row_of(one: "Key", short: str, now: datetime) -> tuple[Cell, ...]:
    revoked = format_age(one.revoked_at, now) if one.revoked_at else ""
    return short, (one.name, "bold"), ", ".join(one.roles), one.owner, format_age(one.created_at, now), revoked
