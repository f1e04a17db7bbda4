"""`holdfast dataset`: files under a name, generation by generation. Asks the server, as any client does."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from holdfast.cli import printing
from holdfast.cli.options import Json
from holdfast.cli.runs import call
from holdfast.errors import DatasetNotFound

if TYPE_CHECKING:
    from holdfast.cli.calling import Server

app = typer.Typer(invoke_without_command=True)

files_shown = 50

Named = Annotated[str, typer.Argument(metavar="NAME", help="What the dataset is called, or its id.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="What the dataset is called.")]


@app.callback()
def datasets(context: typer.Context, as_json: Json = False) -> None:
    """Look at datasets, and at what was current when; or keep files under a name, to make batches of."""
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
    name: Named,
    version: Annotated[int | None, typer.Option(min=1, help="Another generation than the current one.")] = None,
    as_json: Json = False,
) -> None:
    """A dataset in its current version, what that has changed, and its files."""
    most = None if as_json else files_shown
    found = call(lambda server: read_dataset(server, name, version, most=most))
    if as_json:
        printing.answer(found)
        return
    made = f"{printing.shown(datetime.fromisoformat(found['made_at']))}" + (
        f" by {found['made_by']}" if found["made_by"] else ""
    )
    said = [("dataset", found["name"]), ("id", found["dataset_id"]), ("version", str(found["version"])), ("made", made)]
    if found["schema"]:
        said.append(("columns", ", ".join(f"{column} {kind}" for column, kind in found["schema"])))
    said += [("changed", say_changes(one)) for one in of_version(found) if one["changes"]]
    said += [("building", say_built(one)) for one in found["generations"] if one["state"] in ("building", "ready")]
    printing.facts(said)
    shown = found["items"][:files_shown]
    rows = [(one["name"], one["uri"] or f"{one['row_count']:,} rows") for one in shown]
    printing.table(("file", "where"), rows, elastic=("file", "where"))
    if found["files"] > len(shown):
        printing.say((f"... and {found['files'] - len(shown):,} more, with --json", "dim"))


@app.command()
def generations(name: Named, as_json: Json = False) -> None:
    """The newest generations of a dataset, whatever became of them: who made them, and what they have changed."""
    found = call(lambda server: read_dataset(server, name, most=1))["generations"]
    if as_json:
        printing.answer(found)
        return
    now = datetime.now(UTC)
    rows = [
        (
            str(one["version"]), one["state"].replace("_", " "), f"{one['files']:,}", made_of(one, now),
            one["by"] or one["made_by"], one["reason"] or say_changes(one),
        )
        for one in found
    ]  # fmt: skip
    printing.table(("version", "state", "files", "made", "by", "what"), rows, elastic=("what",))


@app.command()
def cutover(
    name: Named,
    version: Annotated[int, typer.Argument(metavar="VERSION", min=1, help="The generation that is to be current.")],
    as_json: Json = False,
) -> None:
    """Let a generation be current: one that waits for it, or an earlier one. It must be complete."""
    path = f"/datasets/{quote(name, safe='')}/cutover"
    done = call(lambda server: server.ask("POST", path, {"version": version}))
    if as_json:
        printing.answer(done)
        return
    printing.say(f"{name}: version {done['version']} is current; before it was {done['before'] or 'none'}.", err=True)


@app.command()
def rollback(
    name: Named,
    version: Annotated[
        int | None, typer.Argument(metavar="[VERSION]", min=1, help="By default the current one.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Take a generation back: the one before is current again. One that is being built is cancelled with its run."""
    body = {} if version is None else {"version": version}
    done = call(lambda server: server.ask("POST", f"/datasets/{quote(name, safe='')}/rollback", body))
    if as_json:
        printing.answer(done)
        return
    current = f"version {done['current_version']} is current" if done["current_version"] else "none is current"
    printing.say(f"{name}: version {done['version']} is rolled back; {current}.", err=True)


@app.command()
def get(
    name: Named,
    folder: Annotated[Path, typer.Option("--output", "-o", help="Where to put it.", file_okay=False)],
    version: Annotated[int | None, typer.Option(min=1, help="Another generation than the current one.")] = None,
    as_json: Json = False,
) -> None:
    """Download one generation whole: its files, and rows as JSON lines. `dataset.json` lists them all."""
    from holdfast.cli.fetching import fetch_generation

    folder.mkdir(parents=True, exist_ok=True)
    found, saved = call(lambda server: fetch_generation(server, name, version, folder))
    left = found["files"] - len(saved)
    if as_json:
        printing.answer({"dataset_id": found["dataset_id"], "version": found["version"], "saved": saved, "left": left})
        return
    for path in saved:
        typer.echo(path)
    printing.say(f"{found['name']}, version {found['version']}: {len(saved):,} of {found['files']:,} files.", err=True)
    if left:
        printing.say((f"{left:,} are addresses elsewhere: see {folder / 'dataset.json'}", "dim"), err=True)


async def read_dataset(
    server: "Server", name: str, version: int | None = None, *, most: int | None = files_shown
) -> dict[str, Any]:
    """A generation of a dataset by its name or its id, with so many of its files, or all. Raises DatasetNotFound."""
    path = f"/datasets/{quote(name, safe='')}"
    try:
        found = await server.ask("GET", path + (f"?version={version}" if version else ""))
    except DatasetNotFound:
        which = f" with a version {version} that can be read" if version else ""
        raise DatasetNotFound(f"There is no dataset {name!r}{which}.", fix="List them: holdfast dataset ls") from None
    page = found
    while page["next"] is not None and (most is None or len(found["items"]) < most):
        page = await server.ask(
            "GET", f"/datasets/{found['dataset_id']}?version={found['version']}&after={page['next']}"
        )
        found["items"] += page["items"]
    return found


def of_version(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in found["generations"] if one["version"] == found["version"]]


def say_changes(generation: dict[str, Any]) -> str:
    """What a generation has changed in the columns: `+ currency text, - note text, price float -> text`."""
    said = {
        "added": lambda one: f"+ {one['column']} {one['after']}",
        "removed": lambda one: f"- {one['column']} {one['before']}",
        "type": lambda one: f"{one['column']} {one['before']} -> {one['after']}",
    }
    return ", ".join(said[one["change"]](one) for one in generation["changes"])


def say_built(generation: dict[str, Any]) -> str:
    number = f"version {generation['version']}, {generation['files']:,} files"
    if generation["state"] == "ready":
        return f"{number}: complete, waits for a cutover"
    return f"{number} by now" + (f", run {generation['run']}" if generation["run"] else "")


def made_of(one: dict[str, Any], now: datetime) -> str:
    return printing.age(datetime.fromisoformat(one["made_at"]), now)
