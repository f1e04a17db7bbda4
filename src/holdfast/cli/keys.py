"""`holdfast keys`: who may call the server, and as what."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, cast

import typer

from holdfast.cli import printing
from holdfast.cli.asking import ask
from holdfast.cli.ids import beginning
from holdfast.cli.options import Json
from holdfast.errors import KeyUnknown, RequestInvalid

if TYPE_CHECKING:
    from holdfast.engine.store.commands import Store
    from holdfast.engine.store.keys import Key, Role

app = typer.Typer(help="Keys to the server: create, list, revoke.", no_args_is_help=True)


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whom it is for.")],
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="user|worker|operator", help="What it may do; again for more. By default user."),
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Whose tasks it makes and sees, if not NAME's.")] = None,
    as_json: Json = False,
) -> None:
    """Make a key, and print it: this once, for nobody keeps it."""
    roles = cast("list[Role]", role or ["user"])
    made = ask(lambda store: store.keys.make(name, roles, owner=owner), makes=True)
    if as_json:
        printing.answer({"id": made.id, "name": name, "roles": roles, "key": made.secret})
        return
    typer.echo(made.secret)
    printing.say(("Keep it: it is not shown again. Send it as the header Authorization: Bearer KEY.", "dim"), err=True)


@app.command("ls")
def list_all(as_json: Json = False) -> None:
    """List the keys, without what is secret."""

    async def question(store: "Store") -> "tuple[list[Key], datetime]":
        return await store.keys.all(), await store.now()

    found, now = ask(question)
    if as_json:
        printing.answer([vars(one) for one in found])
    elif found:
        ids = [one.id for one in found]
        rows = [row(one, beginning(one.id, ids), now) for one in found]
        printing.table(("id", "name", "roles", "owner", "made", "revoked"), rows, elastic=("name", "owner"))
    else:
        printing.say("No keys yet. Make one: ", ("holdfast keys create NAME --role operator", "bold"), err=True)


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its id, the beginning of it, or its name.")],
    as_json: Json = False,
) -> None:
    """Let nobody in with a key any more, from now on."""

    async def question(store: "Store") -> "Key":
        found = choose(await store.keys.all(), key)
        await store.keys.revoke(found.id)
        return next(one for one in await store.keys.all() if one.id == found.id)

    revoked = ask(question)
    if as_json:
        printing.answer(vars(revoked))
    else:
        printing.say((revoked.name, "bold"), f" ({revoked.id}) is revoked.")


def choose(keys: "list[Key]", given: str) -> "Key":
    """The key of that id or name. Raises KeyUnknown, or RequestInvalid with the candidates."""
    named = [one for one in keys if one.name == given and not one.revoked_at]
    found = named or [one for one in keys if given and str(one.id).startswith(given.lower())]
    if not found:
        raise KeyUnknown(f"No key has the id or name {given!r}.", fix="See them: holdfast keys ls")
    if len(found) > 1:
        raise RequestInvalid(
            "\n".join([f"{given!r} stands for more than one key:", *(f"  {one.id}  {one.name}" for one in found)]),
            fix="Write more of the id.",
        )
    return found[0]


def row(one: "Key", short: str, now: datetime) -> tuple[printing.Part, ...]:
    revoked = printing.age(one.revoked_at, now) if one.revoked_at else ""
    return short, (one.name, "bold"), ", ".join(one.roles), one.owner, printing.age(one.created_at, now), revoked
