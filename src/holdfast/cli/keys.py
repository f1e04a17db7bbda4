"""`holdfast keys`: who may call the server, and as what."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, cast

import typer

from holdfast.cli.access import with_store
from holdfast.cli.ids import find_named, shorten_id
from holdfast.cli.options import Json
from holdfast.cli.printing import Cell, format_age, print_json, print_line, print_table
from holdfast.errors import KeyUnknown

if TYPE_CHECKING:
    from holdfast.engine.store.commands import Store
    from holdfast.engine.store.keys import Key, Role

app = typer.Typer(no_args_is_help=True)


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The person or program it is for.")],
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="user|worker|operator", help="What it may do; again for more. By default user."),
    ] = None,
    owner: Annotated[
        str | None, typer.Option(help="The owner of the tasks that it makes and sees, if not NAME.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a key, and print it: this once, for it is not kept."""
    roles = cast("list[Role]", role or ["user"])
    made = with_store(lambda store: store.keys.make(name, roles, owner=owner), makes=True)
    if as_json:
        print_json({"id": made.id, "name": name, "roles": roles, "key": made.secret})
        return
    typer.echo(made.secret)
    print_line(("Keep it: it is not shown again. Send it as the header Authorization: Bearer KEY.", "dim"), err=True)


@app.command("ls")
def list_all(as_json: Json = False) -> None:
    """List the keys, without what is secret."""

    async def act(store: "Store") -> "tuple[list[Key], datetime]":
        return await store.keys.all(), await store.now()

    found, now = with_store(act)
    if as_json:
        print_json([vars(one) for one in found])
    elif found:
        ids = [one.id for one in found]
        rows = [row_of(one, shorten_id(one.id, ids), now) for one in found]
        print_table(("id", "name", "roles", "owner", "made", "revoked"), rows, elastic=("name", "owner"))
    else:
        print_line("No keys yet. Make one: ", ("holdfast keys create NAME --role operator", "bold"), err=True)


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its id, the beginning of it, or its name.")],
    as_json: Json = False,
) -> None:
    """Refuse a key from now on."""

    async def act(store: "Store") -> "Key":
        missing = KeyUnknown(f"No key has the id or name {key!r}.", fix="See them: holdfast keys ls")
        found = find_named(key, await store.keys.all(), missing)
        await store.keys.revoke(found.id)
        return next(one for one in await store.keys.all() if one.id == found.id)

    revoked = with_store(act)
    if as_json:
        print_json(vars(revoked))
    else:
        print_line((revoked.name, "bold"), f" ({revoked.id}) is revoked.")


def row_of(one: "Key", short: str, now: datetime) -> tuple[Cell, ...]:
    revoked = format_age(one.revoked_at, now) if one.revoked_at else ""
    return short, (one.name, "bold"), ", ".join(one.roles), one.owner, format_age(one.created_at, now), revoked
