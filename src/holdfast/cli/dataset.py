"""`holdfast dataset`: files under a name, version by version. Asks the server, as any client does."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from holdfast.cli import printing
from holdfast.cli.options import Json
from holdfast.cli.runs import call
from holdfast.errors import TaskNotFound

if TYPE_CHECKING:
    from holdfast.cli.calling import Server

app = typer.Typer(invoke_without_command=True)

files_shown = 50

Name = Annotated[str, typer.Argument(metavar="NAME", help="What the dataset is called.")]


@app.callback()
def datasets(context: typer.Context, as_json: Json = False) -> None:
    """Keep files under a name, to make batches of."""
    if not context.invoked_subcommand:
        list_all(as_json=as_json)


@app.command()
def make(
    name: Name,
    files: Annotated[list[str], typer.Argument(metavar="FILES...", help="Files, folders, or addresses (s3://...).")],
    as_json: Json = False,
) -> None:
    """Make a dataset of files. The same name again makes its next version.

    Files are uploaded, addresses are kept as they are. A batch goes by the version that it was made with.

    holdfast dataset make calls recordings/ s3://bucket/monday.wav

    holdfast batch submit --dataset calls --wait
    """
    from holdfast.cli.bars import Bars
    from holdfast.cli.inputs import find_inputs, upload

    sources = find_inputs(files, any_kind=True)
    if not sources.documents:
        raise typer.BadParameter(f"There is nothing to keep. {sources.say_left_out()}".rstrip())
    if left_out := sources.say_left_out():
        printing.say((left_out, "dim"), err=True)

    async def question(server: "Server") -> dict[str, Any]:
        with Bars(quiet=as_json) as bars:
            names = await upload(server, sources, bars)
        body = {"name": name, "files": [{"uri": uri, "name": called} for uri, called in names.items()]}
        return await server.ask("POST", "/datasets", body)

    made = call(question)
    if as_json:
        printing.answer(made)
        return
    typer.echo(made["dataset_id"])
    number = len(sources.documents)
    printing.say(f"{name}, version {made['version']}: {number:,} file{'' if number == 1 else 's'}.", err=True)
    printing.say(("Make a batch of it: ", "dim"), (f"holdfast batch submit --dataset {name} --wait", "bold"), err=True)


@app.command("ls")
def list_all(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 50, as_json: Json = False
) -> None:
    """List the datasets, by name."""

    async def question(server: "Server") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor = ""
        while len(found) < limit:
            page = await server.ask("GET", f"/datasets?limit={min(limit - len(found), 200)}{cursor}")
            found += page["items"]
            if not page["next"]:
                break
            cursor = f"&cursor={quote(page['next'], safe='')}"
        return found

    found = call(question)
    if as_json:
        printing.answer(found)
        return
    if not found:
        printing.say(
            "There are no datasets. ", ("holdfast dataset make NAME FILES...", "bold"), " makes one.", err=True
        )
        return
    now = datetime.now(UTC)
    rows = [
        (one["name"], str(one["version"]), f"{one['files']:,}", made_of(one, now), one["dataset_id"]) for one in found
    ]
    printing.table(("name", "version", "files", "made", "id"), rows, elastic=("name",))


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the dataset is called, or its id.")],
    as_json: Json = False,
) -> None:
    """A dataset in its current version, and its files."""
    most = None if as_json else files_shown

    async def question(server: "Server") -> dict[str, Any]:
        found = await read_dataset(server, name)
        while found["items"] and len(found["items"]) < min(found["files"], most or found["files"]):
            after = found["items"][-1]["number"]
            found["items"] += (await server.ask("GET", f"/datasets/{found['dataset_id']}?after={after}"))["items"]
        return found

    found = call(question)
    if as_json:
        printing.answer(found)
        return
    made = f"{printing.shown(datetime.fromisoformat(found['made_at']))}" + (
        f" by {found['made_by']}" if found["made_by"] else ""
    )
    printing.facts(
        [("dataset", found["name"]), ("id", found["dataset_id"]), ("version", str(found["version"])), ("made", made)]
    )
    shown = found["items"][:files_shown]
    printing.table(("file", "where"), [(one["name"], one["uri"]) for one in shown], elastic=("file", "where"))
    if found["files"] > len(shown):
        printing.say((f"... and {found['files'] - len(shown):,} more, with --json", "dim"))


async def read_dataset(server: "Server", name: str) -> dict[str, Any]:
    """A dataset by its name or its id, with the first of its files. Raises TaskNotFound."""
    try:
        return await server.ask("GET", f"/datasets/{quote(name, safe='')}")
    except TaskNotFound:
        raise TaskNotFound(f"There is no dataset {name!r}.", fix="List them: holdfast dataset ls") from None


def made_of(one: dict[str, Any], now: datetime) -> str:
    return printing.age(datetime.fromisoformat(one["made_at"]), now)
