"""`holdfast dataset`: files under a name, generation by generation. Asks the server, as any client does."""

import json
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from holdfast.cli.access import Server, with_server
from holdfast.cli.files import ADDRESSES, find_sources, print_paths, save_file, upload_sources
from holdfast.cli.kinds import read_pages
from holdfast.cli.options import Answer, Json, Limit, asks_server, group
from holdfast.cli.printing import (
    count,
    format_age,
    format_time,
    print_facts,
    print_json,
    print_line,
    print_more,
    print_table,
)
from holdfast.errors import DatasetNotFound

app = typer.Typer()

files_listed = 50

Named = Annotated[str, typer.Argument(metavar="NAME", help="What the dataset is called, or its id.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="What the dataset is called.")]


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
    sources = find_sources(files, addresses=ADDRESSES)
    if not sources.documents:
        raise typer.BadParameter(f"There is nothing to keep. {sources.describe_left_out()}".rstrip())
    sources.print_left_out()

    async def send(server: Server) -> dict[str, Any]:
        names = await upload_sources(server, sources, quiet=as_json)
        body = {"name": name, "files": [{"uri": uri, "name": called} for uri, called in names.items()]}
        return await server.ask("POST", "/datasets", body)

    made = with_server(send)
    if as_json:
        print_json(made)
        return
    typer.echo(made["dataset_id"])
    print_line(f"{name}, version {made['version']}: {count(len(sources.documents), 'file')}.", err=True)
    print_line(("Make a batch of it: ", "dim"), (f"holdfast batch submit --dataset {name} --wait", "bold"), err=True)


@group(app)
@asks_server
async def list_datasets(server: Server, limit: Limit = 50) -> Answer:
    """List the datasets, by name."""
    found = await read_pages(server, "/datasets", limit, page=200)
    yield found
    rows = [
        (one["name"], str(one["version"]), f"{one['files']:,}", format_age(one["made_at"]), one["dataset_id"])
        for one in found
    ]
    none = ("There are no datasets. ", ("holdfast dataset make NAME FILES...", "bold"), " makes one.")
    print_table(("name", "version", "files", "made", "id"), rows, elastic=("name",), none=none)


@app.command()
@asks_server
async def show(
    server: Server,
    name: Named,
    version: Annotated[int | None, typer.Option(min=1, help="Another generation than the current one.")] = None,
    as_json: Json = False,
) -> None:
    """A dataset in its current version, what that has changed, and its files."""
    found = await read_dataset(server, name, version, most=None if as_json else files_listed)
    if as_json:
        print_json(found)
        return
    by = f" by {found['made_by']}" if found["made_by"] else ""
    print_facts(
        [
            ("dataset", found["name"]),
            ("id", found["dataset_id"]),
            ("version", str(found["version"])),
            ("made", f"{format_time(found['made_at'])}{by}"),
            ("columns", ", ".join(f"{column} {kind}" for column, kind in found["schema"] or ())),
            *(("changed", describe_changes(one)) for one in found["generations"] if one["version"] == found["version"]),
            *(
                ("building", describe_built(one))
                for one in found["generations"]
                if one["state"] in ("building", "ready")
            ),
        ]
    )
    listed = found["items"][:files_listed]
    rows = [(one["name"], one["uri"] or f"{one['row_count']:,} rows") for one in listed]
    print_table(("file", "where"), rows, elastic=("file", "where"))
    print_more(found["files"] - len(listed))


@app.command()
@asks_server
async def generations(server: Server, name: Named) -> Answer:
    """The newest generations of a dataset, whatever became of them: who made them, and what they have changed."""
    found = (await read_dataset(server, name, most=1))["generations"]
    yield found
    rows = [
        (
            str(one["version"]), one["state"].replace("_", " "), f"{one['files']:,}", format_age(one["made_at"]),
            one["by"] or one["made_by"], one["reason"] or describe_changes(one),
        )
        for one in found
    ]  # fmt: skip
    print_table(("version", "state", "files", "made", "by", "what"), rows, elastic=("what",))


@app.command()
@asks_server
async def cutover(
    server: Server,
    name: Named,
    version: Annotated[int, typer.Argument(metavar="VERSION", min=1, help="The generation that is to be current.")],
) -> Answer:
    """Let a generation be current: one that waits for it, or an earlier one. It must be complete."""
    done = await server.ask("POST", f"/datasets/{quote(name, safe='')}/cutover", {"version": version})
    yield done
    print_line(f"{name}: version {done['version']} is current; before it was {done['before'] or 'none'}.", err=True)


@app.command()
@asks_server
async def rollback(
    server: Server,
    name: Named,
    version: Annotated[
        int | None, typer.Argument(metavar="[VERSION]", min=1, help="By default the current one.")
    ] = None,
) -> Answer:
    """Take a generation back: the one before is current again. One that is being built is cancelled with its run."""
    body = {} if version is None else {"version": version}
    done = await server.ask("POST", f"/datasets/{quote(name, safe='')}/rollback", body)
    yield done
    current = f"version {done['current_version']} is current" if done["current_version"] else "none is current"
    print_line(f"{name}: version {done['version']} is rolled back; {current}.", err=True)


@app.command()
@asks_server
async def get(
    server: Server,
    name: Named,
    folder: Annotated[Path, typer.Option("--output", "-o", help="Where to put it.", file_okay=False)],
    version: Annotated[int | None, typer.Option(min=1, help="Another generation than the current one.")] = None,
) -> Answer:
    """Download one generation whole: its files, and rows as JSON lines. `dataset.json` lists them all."""
    folder.mkdir(parents=True, exist_ok=True)
    found, saved = await fetch_generation(server, name, version, folder)
    left = found["files"] - len(saved)
    yield {"dataset_id": found["dataset_id"], "version": found["version"], "saved": saved, "left": left}
    print_paths(saved)
    print_line(f"{found['name']}, version {found['version']}: {len(saved):,} of {found['files']:,} files.", err=True)
    if left:
        print_line((f"{left:,} are addresses elsewhere: see {folder / 'dataset.json'}", "dim"), err=True)


async def read_dataset(
    server: Server, name: str, version: int | None = None, *, most: int | None = files_listed
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


def describe_changes(generation: dict[str, Any]) -> str:
    """What a generation has changed in the columns: `+ currency text, - note text, price float -> text`."""
    formats = {"added": "+ {column} {after}", "removed": "- {column} {before}", "type": "{column} {before} -> {after}"}
    return ", ".join(formats[one["change"]].format_map(one) for one in generation["changes"])


def describe_built(generation: dict[str, Any]) -> str:
    number = f"version {generation['version']}, {generation['files']:,} files"
    if generation["state"] == "ready":
        return f"{number}: complete, waits for a cutover"
    return f"{number} by now" + (f", run {generation['run']}" if generation["run"] else "")


async def fetch_generation(
    server: Server, name: str, version: int | None, folder: Path
) -> tuple[dict[str, Any], list[str]]:
    """The generation, and the files that were written. What is but an address elsewhere stays there."""
    found = await read_dataset(server, name, version, most=None)
    names = {one["number"]: file_name_of(one["key"] or one["name"], one["number"]) for one in found["items"]}
    saved: list[str] = []
    for one in found["items"]:
        if one["rows"] is not None:
            file = folder / f"{names[one['number']]}.jsonl"
            file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in one["rows"]))
            saved.append(str(file))
    after: int | None = 0
    while after is not None and any((one["uri"] or "").startswith("object:") for one in found["items"]):
        path = f"/datasets/{found['dataset_id']}/downloads?version={found['version']}&after={after}"
        page = await server.ask("GET", path)
        for link in page["downloads"]:
            suffix = "".join(Path(link["name"]).suffixes[-1:])
            file_name = f"{names[link['number']].removesuffix(suffix)}{suffix}"
            saved.append(await save_file(server, link["url"], file_name, folder))
        after = page["next"]
    listed = {**{name: found[name] for name in ("name", "version", "schema", "published_at")}, "items": found["items"]}
    for one in listed["items"]:
        one.pop("rows")
    (folder / "dataset.json").write_text(json.dumps(listed, indent=2, ensure_ascii=False) + "\n")
    return found, saved


def file_name_of(key: str, number: int) -> str:
    """A name for a file, of whatever people call it: its place in the list, and what of the key can be a name."""
    named = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in key)[-100:].lstrip(".-")
    return f"{number:04d}-{named or 'file'}"
