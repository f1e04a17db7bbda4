"""`holdfast ingest` and `runs`: documents go to the server, and through their steps until they can be searched.

It speaks HTTP, as any client does. Files are uploaded first, a few at once; then one run takes them all.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer

from holdfast.cli.access import Server, with_server
from holdfast.cli.files import WEB, Sources, document_most_bytes, find_sources, upload_sources
from holdfast.cli.kinds import Kind, read_pages
from holdfast.cli.options import REFUSED, Answer, Json, Page, Patience, Reason, asks_server, group
from holdfast.cli.printing import Cell, count, format_cents, print_json, print_line, print_more, print_table
from holdfast.cli.watcher import format_status, why_waiting
from holdfast.errors import RequestInvalid

app = typer.Typer()

Run = dict[str, Any]
Id = Annotated[str, typer.Argument(metavar="ID", help="A run's id, or the beginning of it.")]

request_most_bytes = 2 * 1024**2
around_a_name_bytes = 140
failures_listed = 20
items_at_once = 200


def ingest(
    files: Annotated[list[str], typer.Argument(metavar="FILES...", help="Files, folders, or addresses (https://...).")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all are in or have failed.")] = False,
    kind: Annotated[str, typer.Option(help="Which of your tasks takes them.")] = "documents",
    budget: Annotated[float | None, typer.Option(metavar="CENTS", min=0, help="Ask when this is spent.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Also those that are as they were.")] = False,
    name_prefix: Annotated[str, typer.Option(help="Goes before each name.")] = "",
    patience: Patience = None,
    as_json: Json = False,
) -> None:
    """Ingest documents, so that `holdfast search` finds them.

    A document is known by its path as you write it: ingest it again, and it is replaced, or left alone if it is as it
    was. Speaks to the server at HOLDFAST_API, by default the one on this machine. With --wait the exit code says how it
    ended: 0 all are in, 1 none, 6 some, 7 cancelled, 124 not in time.
    """
    sources = find_documents(files, prefix=name_prefix, any_kind=kind != "documents")
    if not as_json:
        sources.print_left_out()

    async def start(server: Server) -> int:
        names = await upload_sources(server, sources, noun="document", quiet=as_json)
        documents = [{"uri": uri, "name": name} for uri, name in names.items()]
        body = {"kind": kind, "files": documents, "force": force}
        body |= {} if budget is None else {"budget_cents": budget}
        run = await server.ask("POST", "/ingest/runs", body, key=uuid4().hex)
        more = {"left_out": [{"name": name, "reason": reason} for name, reason in sources.left_out]}
        end = partial(print_end, more=more, as_json=as_json)
        return await RUN.follow(server, run | more, patience, end, wait=wait, as_json=as_json)

    raise typer.Exit(with_server(start))


@group(app)
@asks_server
def list_runs(server: Server, limit: Page = 20) -> Answer:
    """List runs, the newest first."""
    return RUN.list_newest(server, limit)


@app.command()
@asks_server
async def show(server: Server, run: Id) -> Answer:
    """How far a run is, what it has cost, what failed and why."""
    now = await RUN.ask(server, "GET", run)
    failed = await read_items(server, now, "FAILED", most=failures_listed)
    yield {**now, "failed": failed}
    total = now["item_count_total"]
    parts = {part["name"]: f"{part['done']:,g} of {total:,}" for part in now["parts"]}
    counts = {name: f"{now[f'item_count_{name}']:,} of {total:,}" for name in ("done", "failed", "waiting")}
    own = {"state": format_status(now, actor="tasks"), **parts, **counts, "cost": describe_cost(now)}
    RUN.print_facts(now, ("state", "made", *parts, *counts, "cost"), own)
    print_failed(now, failed)
    if now["item_count_waiting"]:
        print_line((describe_waiting(now), "yellow"), err=True)


@app.command("watch")
@asks_server
async def watch_run(server: Server, run: Id, patience: Patience = None, as_json: Json = False) -> int:
    """Follow a run until all its documents have ended. The exit code says how: 0, 1, 6 partly done, 7, 124."""
    begun = {"run_id": await RUN.find(server, run)}
    return await RUN.follow(server, begun, patience, partial(print_end, as_json=as_json), wait=True, as_json=as_json)


@app.command()
@asks_server
async def budget(
    server: Server,
    run: Id,
    cents: Annotated[str, typer.Argument(metavar="CENTS", help="What it may cost in all; `none` for no limit.")],
) -> Answer:
    """Let a run spend more, or less. Documents that wait for it go on."""
    try:
        body = {"budget_cents": None if cents == "none" else float(cents)}
    except ValueError:
        raise typer.BadParameter(f"{cents!r} is neither a number of cents nor `none`.") from None
    now = await RUN.ask(server, "PUT", run, "/budget", body)
    yield now
    waiting = now["item_count_waiting"]
    print_line(f"It has spent {describe_cost(now)}. ", f"{waiting} still wait: that much is spent." if waiting else "")


@app.command()
@asks_server
async def cancel(server: Server, run: Id, reason: Reason = None, as_json: Json = False) -> int:
    """Cancel what is left of a run. What is in stays in. Exit 4: it has ended already."""
    answer = await RUN.ask(server, "POST", run, "/cancel", {"reason": reason})
    if as_json:
        print_json(answer)
    else:
        messages = {
            "cancelled": "It is cancelled.", "requested": "Its workers are asked to stop.", "too_late": "It has ended.",
        }  # fmt: skip
        print_line(messages[answer["effect"]])
    return REFUSED if answer["effect"] == "too_late" else 0


# What is sent


def find_documents(files: list[str], *, prefix: str = "", any_kind: bool = False) -> Sources:
    """All that was named. Raises BadParameter, or RequestInvalid if that is nothing, or too much for one run."""
    sources = find_sources(files, addresses=WEB, why_not=(lambda path: None) if any_kind else why_not, prefix=prefix)
    if not sources.documents:
        raise RequestInvalid(
            f"There is nothing to ingest. {sources.describe_left_out()}".rstrip(),
            fix="What can be read: PDF, Word (.docx), HTML, Markdown and plain text, up to 100 MiB each.",
        )
    if sum(len(one.name.encode()) + around_a_name_bytes for one in sources.documents) > request_most_bytes:
        raise RequestInvalid(
            f"The names of these {len(sources.documents):,} documents are too long for one run.",
            fix="Nothing was sent. Ingest fewer at once, or from a folder nearer to them.",
        )
    return sources


def why_not(path: Path) -> str | None:
    """Why a file cannot be a document; None if it can. One that is damaged can: its failure is worth knowing of."""
    from holdfast.apps.documents.extract.document import Unreadable
    from holdfast.apps.documents.extract.kinds import kind_of

    try:
        if not path.is_file():
            return "not a regular file"
        if path.stat().st_size > document_most_bytes:
            return "larger than 100 MiB"
        kind_of(path, path.name, None)
    except Unreadable as error:
        return {"unsupported": "of a kind that cannot be read", "empty": "empty"}.get(error.code)
    except OSError:
        return "that cannot be opened"
    return None


# Following a run


async def print_end(server: Server, run: Run, *, as_json: bool, more: Mapping[str, object] | None = None) -> Answer:
    """How it has ended, and what failed. `more` goes into the JSON, which has all that failed."""
    failed = await read_items(server, run, "FAILED", most=None if as_json else failures_listed)
    unchanged = await count_unchanged(server, run)
    yield {**run, "unchanged": unchanged, "failed": failed, **(more or {})}
    done, total = run["item_count_done"], run["item_count_total"]
    same = f" ({unchanged:,} as before)" if unchanged else ""
    others = {"failed": "failed", "cancelled": "cancelled", "waiting": "waiting for the budget"}
    rest = "".join(f", {number:,} {label}" for name, label in others.items() if (number := run[f"item_count_{name}"]))
    await RUN.print_end(server, run, f"{done:,} of {total:,} {'is' if total == 1 else 'are'} in{same}{rest}")
    print_failed(run, failed)


async def why(server: Server, run: Run) -> str:
    """Why it does not go on: its budget, or what its first open document waits for. Empty if that is worked on."""
    from holdfast.lifecycles.ingest.declaration import MOVES

    if run["item_count_waiting"]:
        return describe_waiting(run)
    for status in MOVES:
        for item in await read_items(server, run, status, most=1):
            return await why_waiting(server, item["item_id"], name=f"{item['name']}: ")
    return ""


def describe_waiting(run: Run) -> str:
    """A line about the documents that wait for the budget; empty if none does."""
    number = run["item_count_waiting"]
    if not number:
        return ""
    wait = "1 document waits" if number == 1 else f"{number} documents wait"
    return f"{wait}: the run has spent {describe_cost(run)}. Allow more: holdfast runs budget {run['run_id']} CENTS"


def describe_counts(run: Run) -> str:
    failed = f", {run['item_count_failed']:,} failed" if run["item_count_failed"] else ""
    return f"{run['item_count_done']:,} done{failed}, {describe_cost(run)}"


async def read_items(server: Server, run: Run, status: str, *, most: int | None) -> list[dict[str, Any]]:
    """The documents of a run in this state, up to so many."""
    return await read_pages(server, f"/ingest/runs/{run['run_id']}/items", most, page=items_at_once, status=status)


async def count_unchanged(server: Server, run: Run) -> int:
    """How many documents were as they were; asked only if it cannot be none."""
    if run["item_count_done"] <= run["steps"].get("INDEXED", 0):
        return 0
    done = await read_items(server, run, "DONE", most=None)
    return sum(1 for one in done if isinstance(one["result"], dict) and one["result"].get("unchanged") is True)


# What is printed


def own_cells(run: Run) -> dict[str, Cell]:
    failed, waiting = run["item_count_failed"], run["item_count_waiting"]
    documents = f"{run['item_count_done']:,} of {run['item_count_total']:,}"
    return {
        "state": format_status(run, actor="tasks"),
        "documents": documents + (f", {waiting} wait" if waiting else ""),
        "failed": (str(failed), "red") if failed else "",
    }


RUN = Kind(
    path="/ingest/runs", lifecycle="ingest", id_field="run_id", noun="run", plural="runs",
    listing="holdfast runs ls", example="holdfast ingest FILES... --wait",
    columns=("kind", "state", "documents", "failed", "cost", "made"), own_cells=own_cells, elastic=("kind",),
    name=lambda run: count(run["item_count_total"], "document"), why=why, following="holdfast runs watch",
    remark=describe_waiting, detail=describe_counts,
)  # fmt: skip


def describe_cost(run: Run) -> str:
    """What it has cost, and what it may."""
    budget = run["budget_cents"]
    return format_cents(run["cost_cents"]) + ("" if budget is None else f" of a budget of {format_cents(budget)}")


def print_failed(run: Run, failed: list[dict[str, Any]]) -> None:
    """What failed, and how to go on."""
    if not failed:
        return
    rows = [(one["name"], one["last_error_kind"], one["failed_step"] or "", one["last_error"] or "") for one in failed]
    print_table(("failed", "category", "at", "because"), rows, elastic=("failed", "because"))
    print_more(run["item_count_failed"] - len(failed))
    print_line("Retry or resolve them: ", ("holdfast inbox ls", "bold"), err=True)
