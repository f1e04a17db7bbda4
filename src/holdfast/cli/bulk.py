"""`holdfast bulk`: many tasks cancelled or retried, after a look at how many that are and a question."""

import sys
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.access import Store, current_user, with_store
from holdfast.cli.files import progress_bar
from holdfast.cli.options import PARTLY, REFUSED, DryRun, Json, Reason, TaskFilters, Yes, confirm, with_options_of
from holdfast.cli.printing import print_json, print_line, print_more

if TYPE_CHECKING:
    from holdfast.engine.store.bulk import Action, BulkPreview, Filters, Undone

app = typer.Typer(no_args_is_help=True)

refusals_listed = 10
PAST = {"cancel": "cancelled", "retry": "retried"}


@dataclass(frozen=True)
class Chosen(TaskFilters):
    """Which tasks, and whether without a question."""

    owner: Annotated[str | None, typer.Option(help="Only of this owner.")] = None
    everything: Annotated[bool, typer.Option("--all", help="Without any filter: every task.")] = False
    dry_run: DryRun = False
    yes: Yes = False
    reason: Reason = None
    as_json: Json = False


@app.command()
@with_options_of(Chosen)
def cancel(chosen: Chosen) -> None:
    """Cancel all live tasks that fit. Those that workers hold are ended by them."""
    handle("cancel", chosen)


@app.command()
@with_options_of(Chosen)
def retry(
    chosen: Chosen,
    outcome: Annotated[
        str | None, typer.Option(metavar="failed|cancelled", help="Only of this outcome; else both.")
    ] = None,
) -> None:
    """Run all tasks again that fit, failed or were cancelled, and were not retried yet; as new tasks."""
    handle("retry", chosen, outcome=outcome)


def handle(action: "Action", chosen: Chosen, *, outcome: str | None = None) -> None:
    """Look how many fit, ask, and do it page by page."""
    from holdfast.engine.store.bulk import Filters

    given = {one.name: getattr(chosen, one.name) for one in fields(TaskFilters)}
    filters = Filters(**given, owner=chosen.owner, outcome=outcome)
    if filters.are_none and not chosen.everything:
        raise typer.BadParameter("Say which tasks: --queue, --name, --tag, --state ... or --all for every task.")
    preview = with_store(lambda store: store.bulk.preview(action, filters))
    if not chosen.as_json:
        print_preview(preview, PAST[action])
    done, requested = 0, 0
    refused: list[Undone] = []
    if preview.number and not chosen.dry_run:
        if not chosen.yes:
            if not sys.stdin.isatty():
                raise typer.BadParameter("There is no keyboard to ask at. --yes does it without a question.")
            confirm(f"{action.capitalize()} {format_number(preview)} tasks?")
        done, requested, refused = with_store(lambda store: run(store, action, filters, chosen, preview))
    if chosen.as_json:
        counts = {"done": done, "requested": requested, "refused": refused}
        print_json({"dry_run": chosen.dry_run, **vars(preview), **counts})
    elif preview.number and not chosen.dry_run:
        by_workers = f"; workers end {requested:,} of them" if requested else ""
        print_line(f"{done:,} {PAST[action]}{by_workers}.")
        for one in refused[:refusals_listed]:
            print_line(f"refused  {one.task_id}  {one.detail}", err=True)
        print_more(len(refused) - refusals_listed, err=True)
    if refused:
        raise typer.Exit(PARTLY if done else REFUSED)


async def run(
    store: Store, action: "Action", filters: "Filters", chosen: Chosen, preview: "BulkPreview"
) -> "tuple[int, int, list[Undone]]":
    """Page after page until nothing is left; how many are done and asked for, and what was refused."""
    done, requested, cursor = 0, 0, None
    refused: list[Undone] = []
    with progress_bar("", None if preview.capped else preview.number, quiet=chosen.as_json) as advance:
        while True:
            page: Any = await store.bulk.run(action, filters, current_user(), reason=chosen.reason, cursor=cursor)
            done += page.done
            requested += page.requested
            refused += page.refused
            advance(page.done + len(page.refused))
            cursor = page.next
            if cursor is None:
                return done, requested, refused


def print_preview(preview: "BulkPreview", past: str) -> None:
    """What fits, on stderr: stdout has what was done."""
    if not preview.number:
        print_line(f"No task fits that could be {past}.", err=True)
        return
    for one in preview.groups:
        print_line(f"{one.number:>7,}  {one.lifecycle}  {one.state}", err=True)
    print_line(f"{format_number(preview)} would be {past}.", err=True)


def format_number(preview: "BulkPreview") -> str:
    return f"{preview.number:,}{'+' if preview.capped else ''}"
