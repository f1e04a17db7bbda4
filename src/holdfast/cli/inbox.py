"""`holdfast inbox`: what failed for good and waits for a person, and what that person does about it."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from holdfast.cli.access import INTERRUPTED, Store, current_user, with_store
from holdfast.cli.ids import find_entry, shorten
from holdfast.cli.look import print_error, print_heading, print_value
from holdfast.cli.options import (
    PARTLY,
    REFUSED,
    Answer,
    DryRun,
    FromStep,
    Json,
    Limit,
    NewPayload,
    Yes,
    asks_store,
    confirm,
    duration,
    group,
    with_options_of,
)
from holdfast.cli.params import edit, parse_json, read_new_payload
from holdfast.cli.printing import (
    Cell,
    format_age,
    format_json,
    format_when,
    is_terminal,
    print_facts,
    print_json,
    print_line,
    print_started,
    print_table,
    to_json,
)
from holdfast.errors import PayloadInvalid, RequestInvalid, TaskNotFound

if TYPE_CHECKING:
    from holdfast.attention.store import AttentionItem
    from holdfast.engine.store.inbox import Action, BulkResult, Entry, EntryFilter, Group, Handling, Refusal, WholeEntry

app = typer.Typer()

PAST = {"retry": "retried", "resolve": "resolved", "discard": "discarded"}

Id = Annotated[str, typer.Argument(metavar="ID", help="The id of an entry or of its task, or the beginning of it.")]
Ids = Annotated[
    list[str] | None, typer.Argument(metavar="ID...", help="Ids of entries or of their tasks, or beginnings of them.")
]
Note = Annotated[str | None, typer.Option(help="Why; it stays with the entry.")]


@dataclasses.dataclass(frozen=True)
class Filters:
    """Which entries, by what they have in common."""

    signature: Annotated[
        str | None, typer.Option(help="Only those alike: a signature, or the id of an entry that has it.")
    ] = None
    category: Annotated[str | None, typer.Option(help="Only of this category.")] = None
    lifecycle: Annotated[str | None, typer.Option(help="Only of this lifecycle.")] = None
    name: Annotated[str | None, typer.Option(help="Only of tasks of this name.")] = None
    step: Annotated[str | None, typer.Option(help="Only those that failed in this step.")] = None
    owner: Annotated[str | None, typer.Option(help="Only of tasks of this owner.")] = None


@dataclasses.dataclass(frozen=True)
class ManyFilters(Filters):
    """Which entries are handled at once, and whether without a question."""

    older_than: Annotated[
        timedelta | None,
        typer.Option("--older-than", parser=duration, metavar="2h", help="Only what failed before that."),
    ] = None
    dry_run: DryRun = False
    yes: Yes = False

    @property
    def is_given(self) -> bool:
        given = (getattr(self, one.name) for one in dataclasses.fields(Filters))
        return self.older_than is not None or any(value is not None for value in given)


@dataclasses.dataclass(frozen=True)
class Request:
    """What is to be done with which entries."""

    action: "Action"
    ids: Sequence[str]
    many: ManyFilters
    note: str | None
    as_json: bool
    from_step: str | None = None


@group(app)
@with_options_of(Filters)
@asks_store
async def list_all(
    store: Store,
    filters: Filters,
    items: Annotated[bool, typer.Option("--items", help="Each by itself, not in groups.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Also what was handled; each by itself.")] = False,
    limit: Limit = 20,
) -> Answer:
    """List what waits for a person: failures that are alike as one, the newest first; then all else that waits."""
    from holdfast.attention.store import Attention

    which = await choose(store, filters)
    groups: list[Group] = []
    entries: Sequence[Entry] = []
    has_more = False
    if items or everything:
        page = await store.inbox.page(which, handled="all" if everything else "open", limit=limit)
        entries, has_more = page.items, bool(page.next) and page.approx_count > len(page.items)
    else:
        groups = await store.inbox.groups(which, limit=limit)
    is_narrowed = any(value for name, value in vars(filters).items() if name != "owner")
    others = [] if is_narrowed else await Attention.over(store).list_waiting(filters.owner, limit=limit)
    yield [*({"kind": "failure", **vars(one)} for one in groups or entries), *others]
    now = await store.now()
    if groups:
        print_groups(groups, await shorten(store.inbox.neighbours([one.newest for one in groups])), now)
        if is_terminal():
            print_line(("Handle all of a group: holdfast inbox retry --signature NEWEST", "dim"), err=True)
    elif entries:
        print_entries(entries, await shorten(store.inbox.neighbours([one.id for one in entries])), now)
    if (groups or entries) and others:
        print_line("")
    if others:
        short = await shorten(store.neighbours([one.task_id for one in others if one.task_id]))
        print_waits(others, short, now)
    if has_more or len(others) == limit:
        print_line((f"There are more: --limit {min(limit * 5, 1000)} shows more.", "dim"), err=True)
    if groups or entries or others:
        return
    if any(vars(filters).values()):
        print_line("No entry fits. Leave a filter out, or see them all: ", ("holdfast inbox ls", "bold"), err=True)
    else:
        print_line("Nothing waits for a person.", err=True)


@app.command()
@asks_store
async def show(store: Store, entry: Id) -> Answer:
    """Show all about one failure: the error, the task, its payload and steps, what was done about it."""
    found = await store.inbox.entry(await find_entry(store, entry))
    yield found
    print_entry(found, await store.now())


@app.command()
@with_options_of(ManyFilters)
def retry(
    many: ManyFilters,
    ids: Ids = None,
    from_step: FromStep = None,
    payload: NewPayload = None,
    in_editor: Annotated[bool, typer.Option("--edit", help="Change the payload in $EDITOR.")] = False,
    note: Note = None,
    as_json: Json = False,
) -> None:
    """Run what failed again, as new tasks; with another payload from the start."""
    request = Request("retry", ids or (), many, note, as_json, from_step)
    if payload is None and not in_editor:
        handle(request)
        return
    if len(request.ids) != 1 or many.is_given or many.dry_run or (in_editor and payload is not None):
        raise typer.BadParameter("Another payload is for one entry: name it by its id, with --payload or with --edit.")
    value = edit_payload(request.ids[0]) if payload is None else read_new_payload(payload)
    with_store(lambda store: handle_one(store, request, value))


@app.command()
@with_options_of(ManyFilters)
def resolve(
    note: Annotated[str, typer.Option(help="How it was dealt with; it stays with the entry.")],
    many: ManyFilters,
    ids: Ids = None,
    as_json: Json = False,
) -> None:
    """Close failures that were dealt with elsewhere."""
    handle(Request("resolve", ids or (), many, note, as_json))


@app.command()
@with_options_of(ManyFilters)
def discard(many: ManyFilters, ids: Ids = None, note: Note = None, as_json: Json = False) -> None:
    """Close failures whose work is not needed any more."""
    handle(Request("discard", ids or (), many, note, as_json))


def handle(request: Request) -> None:
    """Do it: at once for one entry, for more of them after a question."""
    many = request.many
    if bool(request.ids) == many.is_given:
        raise typer.BadParameter("Name the entries by their ids, or say what they have in common: --signature ...")
    if len(request.ids) == 1 and not many.dry_run:
        with_store(lambda store: handle_one(store, request))
        return
    preview = with_store(lambda store: handle_many(store, request, dry_run=True))
    number = len(preview.handled) + preview.remaining
    if not many.dry_run and number > 1 and not many.yes:
        confirm(f"{request.action.capitalize()} {number}{'+' if preview.capped else ''} entries?")
    done = preview
    if preview.handled and not many.dry_run:
        done = with_store(lambda store: handle_many(store, request, dry_run=False))
    if request.as_json:
        print_json({"dry_run": many.dry_run, "handled": done.handled, "refused": done.refused})
    elif not done.handled and not done.refused:
        print_line("No open entry fits.", err=True)
    else:
        past = PAST[request.action]
        print_handled(done, f"would be {past}" if many.dry_run else past)
    if done.refused:
        raise typer.Exit(PARTLY if done.handled else REFUSED)


async def handle_many(store: Store, request: Request, *, dry_run: bool) -> "BulkResult":
    """Call after call until nothing is left; a dry run makes one call."""
    ids = [await find_entry(store, one) for one in request.ids] or None
    which = await choose(store, request.many)
    before = await store.now() - request.many.older_than if request.many.older_than is not None else None
    handled: list[Handling] = []
    refused: list[Refusal] = []
    cursor = None
    while True:
        done = await store.inbox.bulk(
            request.action, current_user(), ids=ids, which=which, before=before, cursor=cursor,
            note=request.note, from_step=request.from_step, dry_run=dry_run,
        )  # fmt: skip
        handled += done.handled
        refused += done.refused
        cursor = done.next
        if cursor is None or dry_run:
            return dataclasses.replace(done, handled=handled, refused=refused)


async def handle_one(store: Store, request: Request, payload: Any = None) -> None:
    """Do it to the one entry that is named, and say so."""
    entry, by = await find_entry(store, request.ids[0]), current_user()
    if request.action == "retry":
        made = await store.inbox.retry(entry, by, from_step=request.from_step, payload=payload, note=request.note)
        if request.as_json:
            print_json({"id": entry, "task_id": made, "retry_of": (await store.inbox.entry(entry)).task_id})
        else:
            print_started(str(made), "Started again as ")
        return
    close = store.inbox.resolve if request.action == "resolve" else store.inbox.discard
    await close(entry, by, request.note)
    past = PAST[request.action]
    if request.as_json:
        print_json({"id": entry, "resolution": past})
    else:
        print_line((str(entry), "bold"), f" is {past}.")


async def choose(store: Store, filters: Filters) -> "EntryFilter":
    """The filters, with the id of an entry turned into its signature."""
    from holdfast.engine.store.inbox import EntryFilter

    given = {one.name: getattr(filters, one.name) for one in dataclasses.fields(Filters)}
    if filters.signature:
        with contextlib.suppress(TaskNotFound):
            given["signature"] = (await store.inbox.entry(await find_entry(store, filters.signature))).signature
    return EntryFilter(**given)


def edit_payload(given: str) -> Any:
    """The payload of an entry's task, changed in an editor. Raises RequestInvalid if it was not changed."""

    async def read(store: Store) -> Any:
        return (await store.inbox.entry(await find_entry(store, given))).payload

    before = text = f"{to_json(with_store(read), indent=2)}\n"
    while True:
        text = edit(text, ".json")
        if text == before:
            raise RequestInvalid(
                "The payload was left as it was, and nothing was retried.",
                fix="Without --edit it runs again as it was.",
            )
        try:
            return parse_json("The payload", text)
        except PayloadInvalid as mistake:
            for line in mistake.detail.splitlines():
                print_line(line, err=True)
            try:
                again = typer.confirm("Edit it again?", default=True, err=True)
            except typer.Abort:  # there is no keyboard
                raise mistake from None
            if not again:
                raise typer.Exit(INTERRUPTED) from None


# What is printed


def print_waits(items: "Sequence[AttentionItem]", short: dict[UUID, str], now: datetime) -> None:
    """What waits beside failures, each with a command that a person may type: with as much of the id as is needed."""
    rows: list[tuple[Cell, ...]] = [
        (
            (one.kind, "yellow"), (one.name, "bold"), format_age(one.since, now),
            one.owner or one.acts if one.acts == "owner" else one.acts, one.why,
            one.command.replace(str(one.task_id), short[one.task_id]) if one.task_id else one.command,
        )
        for one in items
    ]  # fmt: skip
    print_table(("waits", "name", "since", "acts", "why", "command"), rows, elastic=("name", "why"))


def print_groups(groups: "Sequence[Group]", short: dict[UUID, str], now: datetime) -> None:
    heads = ("newest", "number", "name", "step", "category", "first", "last", "message")
    rows: list[tuple[Cell, ...]] = [
        (
            short[one.newest], (f"{one.number}+" if one.capped else str(one.number), "bold"), (one.name or "", "bold"),
            one.step or "", (one.category, "red"), format_age(one.first_at, now), format_age(one.last_at, now),
            one.message or "",
        )
        for one in groups
    ]  # fmt: skip
    print_table(heads, rows, elastic=("name", "step", "message"))


def print_entries(entries: "Sequence[Entry]", short: dict[UUID, str], now: datetime) -> None:
    heads = ("id", "name", "about", "step", "category", "failed", "handled", "message")
    rows: list[tuple[Cell, ...]] = [
        (
            short[one.id], (one.name or "", "bold"), one.about or "", one.step or "", (one.category, "red"),
            format_age(one.at, now), f"{one.resolution} by {one.resolved_by or 'somebody'}" if one.resolution else "",
            one.message or "",
        )
        for one in entries
    ]  # fmt: skip
    print_table(heads, rows, elastic=("name", "about", "step", "handled", "message"))


def print_entry(entry: "WholeEntry", now: datetime) -> None:
    """All about one, and how to run its task again."""
    print_line((entry.name or "a task that is forgotten", "bold"), "  ", (str(entry.id), "dim"))
    print_facts(facts_of(entry, now))
    if entry.steps:
        print_heading("steps", len(entry.steps))
        rows = [
            (f"  {step['name']}", ("done", "green") if step["done"] else ("not done", "red")) for step in entry.steps
        ]
        print_table(("  name", ""), rows, elastic=("  name",))
    print_error(entry.error)
    print_value("payload", entry.payload)
    if entry.diff:
        print_heading("changed")
    for one in entry.diff or ():
        if "more" in one:
            print_line((f"  and {one['more']} more", "dim"))
            continue
        before, after = (format_json(one[side]) if side in one else "nothing" for side in ("before", "after"))
        print_line(f"  {one['path'] or 'all'}: ", (before, "red"), " -> ", (after, "green"))
    if not entry.resolution and entry.task:
        print_line("")
        print_line(("Run it again: ", "dim"), (f"holdfast inbox retry {entry.id}", "bold"))


def facts_of(entry: "WholeEntry", now: datetime) -> Iterator[tuple[str, Cell]]:
    """Its head: what is known, by name."""
    yield "failed", format_when(entry.at, now)
    if entry.resolved_at:
        by = f" by {entry.resolved_by}" if entry.resolved_by else ""
        yield "handled", f"{entry.resolution}{by}, {format_when(entry.resolved_at, now)}"
    yield "runs as", str(entry.retried_as or "")
    yield "note", entry.note or ""
    yield "task", f"{entry.task_id}{', ' + entry.task['state'] if entry.task else ', forgotten'}"
    yield "category", (entry.category, "red")
    for name in ("step", "state", "lifecycle", "owner", "signature"):
        yield name, getattr(entry, name) or ""


def print_handled(bulk: "BulkResult", label: str) -> None:
    """A line for each that was handled; what was refused goes to stderr, with its reason."""
    heads: tuple[str, ...] = ("entry", "", "task", "runs as")
    cut = len(heads) if any(one.retried_as for one in bulk.handled) else -1
    if bulk.handled:
        rows = [(str(one.id), label, str(one.task_id), str(one.retried_as or "")) for one in bulk.handled]
        print_table(heads[:cut], [row[:cut] for row in rows])
    for one in bulk.refused:
        print_line((f"{one.id} stays: ", "red"), " ".join(part for part in (one.detail, one.fix) if part), err=True)
