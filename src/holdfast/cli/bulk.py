"""`holdfast bulk`: many tasks cancelled or retried, after a look at how many that are and a question."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import printing
from holdfast.cli.asking import ask, caller
from holdfast.cli.inbox import PARTLY, confirm
from holdfast.cli.options import Json
from holdfast.cli.tasks import REFUSED

if TYPE_CHECKING:
    from holdfast.engine.store.bulk import Action, BulkPreview, Filters, Undone
    from holdfast.engine.store.commands import Store

app = typer.Typer(no_args_is_help=True)

refusals_shown = 10
WORDS = {"cancel": "cancelled", "retry": "retried"}

Lifecycle = Annotated[str | None, typer.Option(help="Only of this lifecycle.")]
State = Annotated[str | None, typer.Option(help="Only in this state.")]
Queue = Annotated[str | None, typer.Option(help="Only of this queue.")]
Name = Annotated[str | None, typer.Option(help="Only tasks of this name.")]
Tag = Annotated[str | None, typer.Option(help="Only with this tag.")]
Owner = Annotated[str | None, typer.Option(help="Only of this owner.")]
Everything = Annotated[bool, typer.Option("--all", help="Without any filter: every task.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would happen.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.callback()
def bulk() -> None:
    """Cancel or retry many tasks at once."""


@app.command()
def cancel(
    lifecycle: Lifecycle = None,
    state: State = None,
    queue: Queue = None,
    name: Name = None,
    tag: Tag = None,
    owner: Owner = None,
    reason: Annotated[str | None, typer.Option(help="Why; it stays in the tasks' history.")] = None,
    everything: Everything = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Cancel all live tasks that fit. Those that workers hold are ended by them."""
    given = {"lifecycle": lifecycle, "state": state, "queue": queue, "name": name, "tag": tag, "owner": owner}
    handle("cancel", given, reason, everything=everything, dry_run=dry_run, yes=yes, as_json=as_json)


@app.command()
def retry(
    lifecycle: Lifecycle = None,
    state: State = None,
    queue: Queue = None,
    name: Name = None,
    tag: Tag = None,
    owner: Owner = None,
    outcome: Annotated[
        str | None, typer.Option(metavar="failed|cancelled", help="Only of this outcome; else both.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Why; it stays with the inbox entries.")] = None,
    everything: Everything = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Run all tasks again that fit, failed or were cancelled, and were not retried yet; as new tasks."""
    given = {
        "lifecycle": lifecycle, "state": state, "queue": queue, "name": name, "tag": tag, "owner": owner,
        "outcome": outcome,
    }  # fmt: skip
    handle("retry", given, reason, everything=everything, dry_run=dry_run, yes=yes, as_json=as_json)


def handle(
    action: "Action",
    given: dict[str, str | None],
    reason: str | None,
    *,
    everything: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Look, ask, do it page by page, and tell."""
    from holdfast.engine.store.bulk import Filters

    filters = Filters(**given)  # type: ignore[arg-type]
    if filters.are_none and not everything:
        raise typer.BadParameter("Say which tasks: --queue, --name, --tag, --state ... or --all for every task.")
    would = ask(lambda store: store.bulk.preview(action, filters))
    if not as_json:
        say_look(would, WORDS[action])
    if dry_run or not would.number:
        if as_json:
            printing.answer(told(would, dry_run, 0, 0, []))
        return
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter("Nobody is there to be asked. --yes does it without a question.")
        confirm(f"{action.capitalize()} {counted(would)} tasks?")
    done, requested, refused = run(action, filters, reason, would, quiet=as_json)
    if as_json:
        printing.answer(told(would, False, done, requested, refused))
    else:
        by_workers = f"; workers end {requested:,} of them" if requested else ""
        printing.say(f"{done:,} {WORDS[action]}{by_workers}.")
        say_refused(refused)
    if refused:
        raise typer.Exit(PARTLY if done else REFUSED)


def run(
    action: "Action", filters: "Filters", reason: str | None, would: "BulkPreview", *, quiet: bool
) -> "tuple[int, int, list[Undone]]":
    """Page after page until nothing is left; how many are done and asked for, and what was refused."""

    async def question(store: "Store") -> "tuple[int, int, list[Undone]]":
        done, requested, cursor = 0, 0, None
        refused: list[Undone] = []
        with bar(None if would.capped else would.number, quiet=quiet) as advance:
            while True:
                page = await store.bulk.run(action, filters, caller(), reason=reason, cursor=cursor)
                done += page.done
                requested += page.requested
                refused += page.refused
                advance(page.done + len(page.refused))
                cursor = page.next
                if cursor is None:
                    return done, requested, refused

    return ask(question)


@contextlib.contextmanager
def bar(total: int | None, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where that is a terminal; call what it gives with how many were done."""
    if quiet or not sys.stderr.isatty():
        yield lambda number: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    with Progress(BarColumn(30), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        task: Any = progress.add_task("", total=total)
        yield lambda number: progress.advance(task, number)


def say_look(would: "BulkPreview", done: str) -> None:
    """What fits, on stderr: stdout has what was done."""
    if not would.number:
        printing.say(f"No task fits that could be {done}.", err=True)
        return
    for one in would.groups:
        printing.say(f"{one.number:>7,}  {one.lifecycle}  {one.state}", err=True)
    printing.say(f"{counted(would)} would be {done}.", err=True)


def told(would: "BulkPreview", dry_run: bool, done: int, requested: int, refused: "list[Undone]") -> dict[str, Any]:
    return {
        "dry_run": dry_run, "number": would.number, "capped": would.capped,
        "groups": [vars(one) for one in would.groups], "done": done, "requested": requested,
        "refused": [vars(one) for one in refused],
    }  # fmt: skip


def counted(would: "BulkPreview") -> str:
    return f"{would.number:,}{'+' if would.capped else ''}"


def say_refused(refused: "list[Undone]") -> None:
    for one in refused[:refusals_shown]:
        printing.say(f"refused  {one.task_id}  {one.detail}", err=True)
    if len(refused) > refusals_shown:
        printing.say((f"... and {len(refused) - refusals_shown:,} more, with --json", "dim"), err=True)
