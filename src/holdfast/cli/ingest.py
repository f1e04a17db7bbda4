"""`holdfast ingest` and `runs`: documents go to the server, and through their steps until they can be searched.

It speaks HTTP, as any client does. Files are uploaded first, a few at once; then one run takes them all.
"""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID, uuid4

import typer

from holdfast.cli.access import read_pages, with_server
from holdfast.cli.files import WEB, Sources, document_most_bytes, find_sources, upload_sources
from holdfast.cli.ids import find_newest
from holdfast.cli.options import REFUSED, Json, Page, Reason, Timeout, group
from holdfast.cli.printing import (
    Cell,
    count,
    format_age,
    format_cents,
    format_cost,
    format_time,
    print_facts,
    print_json,
    print_line,
    print_more,
    print_newest,
    print_table,
)
from holdfast.cli.watcher import Watched, exit_code, format_status, print_end, watch, why_waiting
from holdfast.errors import RequestInvalid

if TYPE_CHECKING:
    from holdfast.remote.server import Server

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
    timeout: Timeout = None,
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

    async def start(server: "Server") -> int:
        names = await upload_sources(server, sources, noun="document", quiet=as_json)
        documents = [{"uri": uri, "name": name} for uri, name in names.items()]
        body = {"kind": kind, "files": documents, "force": force}
        body |= {} if budget is None else {"budget_cents": budget}
        run = await server.ask("POST", "/ingest/runs", body, key=uuid4().hex)
        more = {"left_out": [{"name": name, "reason": reason} for name, reason in sources.left_out]}
        if wait:
            return await follow(server, run["run_id"], timeout, as_json=as_json, more=more)
        if as_json:
            print_json({**run, **more})
        else:
            typer.echo(run["run_id"])
            print_line(("Follow it: ", "dim"), (f"holdfast runs watch {run['run_id']}", "bold"), err=True)
        return 0

    raise typer.Exit(with_server(start))


@group(app)
def list_runs(limit: Page = 20, as_json: Json = False) -> None:
    """List runs, the newest first."""
    found = with_server(lambda server: read_pages(server, "/ingest/runs", limit, page=100))
    print_newest(
        found, "run_id", ("kind", "state", "documents", "failed", "cost", "made"), row_of, elastic=("kind",),
        none="There are no runs.", example="holdfast ingest FILES... --wait", as_json=as_json,
    )  # fmt: skip


@app.command()
def show(run: Id, as_json: Json = False) -> None:
    """How far a run is, what it has cost, what failed and why."""

    async def read(server: "Server") -> tuple[Run, list[dict[str, Any]]]:
        now = await server.ask("GET", f"/ingest/runs/{await find(server, run)}")
        return now, await read_items(server, now, "FAILED", most=failures_listed)

    now, failed = with_server(read)
    if as_json:
        print_json({**now, "failed": failed})
        return
    total = now["item_count_total"]
    counts = {name: now[f"item_count_{name}"] for name in ("done", "failed", "waiting")}
    print_facts(
        [
            ("run", now["run_id"]),
            ("state", format_status(now, actor="tasks")),
            ("made", format_time(now["created_at"])),
            *((part["name"], f"{part['done']:,g} of {total:,}") for part in now["parts"]),
            *((name, f"{number:,} of {total:,}") for name, number in counts.items()),
            ("cost", describe_cost(now)),
        ]
    )
    print_failed(now, failed)
    if now["item_count_waiting"]:
        print_line((describe_waiting(now), "yellow"), err=True)


@app.command("watch")
def watch_run(run: Id, timeout: Timeout = None, as_json: Json = False) -> None:
    """Follow a run until all its documents have ended. The exit code says how: 0, 1, 6 partly done, 7, 124."""

    async def run_to_end(server: "Server") -> int:
        return await follow(server, await find(server, run), timeout, as_json=as_json)

    raise typer.Exit(with_server(run_to_end))


@app.command()
def budget(
    run: Id,
    cents: Annotated[str, typer.Argument(metavar="CENTS", help="What it may cost in all; `none` for no limit.")],
    as_json: Json = False,
) -> None:
    """Let a run spend more, or less. Documents that wait for it go on."""
    try:
        body = {"budget_cents": None if cents == "none" else float(cents)}
    except ValueError:
        raise typer.BadParameter(f"{cents!r} is neither a number of cents nor `none`.") from None

    async def put(server: "Server") -> Run:
        return await server.ask("PUT", f"/ingest/runs/{await find(server, run)}/budget", body)

    now = with_server(put)
    if as_json:
        print_json(now)
        return
    waiting = now["item_count_waiting"]
    print_line(f"It has spent {describe_cost(now)}. ", f"{waiting} still wait: that much is spent." if waiting else "")


@app.command()
def cancel(run: Id, reason: Reason = None, as_json: Json = False) -> None:
    """Cancel what is left of a run. What is in stays in. Exit 4: it has ended already."""

    async def send(server: "Server") -> dict[str, Any]:
        return await server.ask("POST", f"/ingest/runs/{await find(server, run)}/cancel", {"reason": reason})

    answer = with_server(send)
    if as_json:
        print_json(answer)
    else:
        messages = {
            "cancelled": "It is cancelled.", "requested": "Its workers are asked to stop.", "too_late": "It has ended.",
        }  # fmt: skip
        print_line(messages[answer["effect"]])
    raise typer.Exit(REFUSED if answer["effect"] == "too_late" else 0)


async def find(server: "Server", given: str) -> UUID:
    """The one run whose id begins so, of the newest. Raises TaskNotFound or RequestInvalid."""
    return await find_newest(server, "ingest", given, noun="run", listing="holdfast runs ls")


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


async def follow(
    server: "Server",
    run_id: "UUID | str",
    patience: timedelta | None,
    *,
    as_json: bool = False,
    more: Mapping[str, object] | None = None,
) -> int:
    """Show how it goes until it has ended or patience has; print how; the exit code. `more` goes into the JSON."""
    watched = Watched(
        f"/ingest/runs/{run_id}", run_id, lambda run: count(run["item_count_total"], "document"),
        f"holdfast runs watch {run_id}", why, remark=describe_waiting, detail=describe_counts,
    )  # fmt: skip
    run = await watch(server, watched, patience, quiet=as_json)
    failed = await read_items(server, run, "FAILED", most=None if as_json else failures_listed)
    unchanged = await count_unchanged(server, run)
    if as_json:
        print_json({**run, "unchanged": unchanged, "failed": failed, **(more or {})})
        return exit_code(run)
    done, total = run["item_count_done"], run["item_count_total"]
    same = f" ({unchanged:,} as before)" if unchanged else ""
    others = {"failed": "failed", "cancelled": "cancelled", "waiting": "waiting for the budget"}
    rest = "".join(f", {number:,} {label}" for name, label in others.items() if (number := run[f"item_count_{name}"]))
    summary = f"{done:,} of {total:,} {'is' if total == 1 else 'are'} in{same}{rest}"
    await print_end(server, watched, run, summary)
    print_failed(run, failed)
    return exit_code(run)


async def why(server: "Server", run: Run) -> str:
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


async def read_items(server: "Server", run: Run, status: str, *, most: int | None) -> list[dict[str, Any]]:
    """The documents of a run in this state, up to so many."""
    return await read_pages(server, f"/ingest/runs/{run['run_id']}/items", most, page=items_at_once, status=status)


async def count_unchanged(server: "Server", run: Run) -> int:
    """How many documents were as they were; asked only if it cannot be none."""
    if run["item_count_done"] <= run["steps"].get("INDEXED", 0):
        return 0
    done = await read_items(server, run, "DONE", most=None)
    return sum(1 for one in done if isinstance(one["result"], dict) and one["result"].get("unchanged") is True)


# What is printed


def row_of(run: Run) -> tuple[Cell, ...]:
    failed, waiting = run["item_count_failed"], run["item_count_waiting"]
    return (
        run["kind"],
        format_status(run, actor="tasks"),
        f"{run['item_count_done']:,} of {run['item_count_total']:,}" + (f", {waiting} wait" if waiting else ""),
        (str(failed), "red") if failed else "",
        format_cost(run),
        format_age(run["created_at"]),
    )


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
