"""`holdfast inbox`: what failed for good and waits for a person, and what that person does about it."""

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from holdfast.cli import printing
from holdfast.cli.asking import INTERRUPTED, ask, caller
from holdfast.cli.editing import edit
from holdfast.cli.entries import (
    find_entry,
    say_bulk,
    say_entry,
    say_groups,
    say_items,
    say_waiting,
    shorten_entries,
    shorten_waits,
)
from holdfast.cli.options import Json, duration
from holdfast.cli.tasks import REFUSED, parse_json, read_json, say_started
from holdfast.errors import PayloadInvalid, RequestInvalid, TaskNotFound

if TYPE_CHECKING:
    from holdfast.attention import Waits
    from holdfast.engine.store.commands import Store
    from holdfast.engine.store.inbox import Action, BulkResult, Entry, EntryFilter, Group, Handling, Refusal, WholeEntry

app = typer.Typer(invoke_without_command=True)

PARTLY = 6
FILTERS = ("signature", "category", "lifecycle", "name", "step", "owner")
WORDS = {"retry": "retried", "resolve": "resolved", "discard": "discarded"}

Id = Annotated[str, typer.Argument(metavar="ID", help="The id of an entry or of its task, or the beginning of it.")]
Ids = Annotated[
    list[str] | None, typer.Argument(metavar="ID...", help="Ids of entries or of their tasks, or beginnings of them.")
]
Signature = Annotated[
    str | None, typer.Option(help="Only those alike: a signature, or the id of an entry that has it.")
]
Category = Annotated[str | None, typer.Option(help="Only of this category.")]
Lifecycle = Annotated[str | None, typer.Option(help="Only of this lifecycle.")]
Name = Annotated[str | None, typer.Option(help="Only of tasks of this name.")]
Step = Annotated[str | None, typer.Option(help="Only those that failed in this step.")]
Owner = Annotated[str | None, typer.Option(help="Only of tasks of this owner.")]
Older = Annotated[
    timedelta | None, typer.Option("--older-than", parser=duration, metavar="2h", help="Only what failed before that.")
]
Note = Annotated[str | None, typer.Option(help="Why; it stays with the entry.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would happen.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before more than one.")]


@dataclasses.dataclass(frozen=True)
class Asked:
    """Which entries a command is about, and what is to be done."""

    action: "Action"
    ids: Sequence[str]
    filters: dict[str, str | None]
    older: timedelta | None
    note: str | None
    from_step: str | None = None
    dry_run: bool = False
    yes: bool = False
    as_json: bool = False

    @property
    def by_filter(self) -> bool:
        return self.older is not None or any(value is not None for value in self.filters.values())


@dataclasses.dataclass(frozen=True)
class Listed:
    """Failures, as groups or by themselves; how many of them there are; and what waits beside them."""

    groups: "Sequence[Group]"
    entries: "Sequence[Entry]"
    more: int
    beside: "Waits"
    short: dict[UUID, str]
    now: datetime


@app.callback()
def inbox(context: typer.Context, as_json: Json = False) -> None:
    """See what waits for a person; retry, resolve or discard what failed."""
    if not context.invoked_subcommand:
        list_all(as_json=as_json)


@app.command("ls")
def list_all(
    items: Annotated[bool, typer.Option("--items", help="Each by itself, not in groups.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Also what was handled; each by itself.")] = False,
    signature: Signature = None,
    category: Category = None,
    lifecycle: Lifecycle = None,
    name: Name = None,
    step: Step = None,
    owner: Owner = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="So many at most.")] = 20,
    as_json: Json = False,
) -> None:
    """List what waits for a person: failures that are alike as one, the newest first; then all else that waits."""
    filters = named(signature, category, lifecycle, name, step, owner)
    narrowed = any(value for name, value in filters.items() if name != "owner")

    async def question(store: "Store") -> "Listed":
        from holdfast.attention import Waiting, Waits

        which = await chosen(store, filters)
        beside = Waits((), None) if narrowed else await Waiting.over(store).waiting(owner, limit=limit)
        if not as_json:
            beside = dataclasses.replace(beside, items=await shorten_waits(store, beside.items))
        if not items and not everything:
            groups = await store.inbox.groups(which, limit=limit)
            short = await shorten_entries(store, [one.newest for one in groups])
            return Listed(groups, [], 0, beside, short, await store.now())
        page = await store.inbox.page(which, handled="all" if everything else "open", limit=limit)
        short = await shorten_entries(store, [one.id for one in page.items])
        return Listed([], page.items, page.approx_count if page.next else 0, beside, short, await store.now())

    found = ask(question)
    if as_json:
        failures = [{"kind": "failure", **vars(one)} for one in found.groups or found.entries]
        printing.answer([*failures, *(vars(one) for one in found.beside.items)])
    elif found.groups or found.entries or found.beside.items:
        say_listed(found, limit)
    elif any(filters.values()):
        printing.say("No entry fits. Leave a filter out, or see them all: ", ("holdfast inbox ls", "bold"), err=True)
    else:
        printing.say("Nothing waits for a person.", err=True)


def say_listed(found: Listed, limit: int) -> None:
    """Failures in a table of their own, then what else waits, and how to see more."""
    if found.groups:
        say_groups(found.groups, found.short, found.now)
        if printing.on_terminal():
            printing.say(("Handle all of a group: holdfast inbox retry --signature NEWEST", "dim"), err=True)
    elif found.entries:
        say_items(found.entries, found.short, found.now)
    if (found.groups or found.entries) and found.beside.items:
        printing.say("")
    if found.beside.items:
        say_waiting(found.beside.items, found.now)
    if found.more > len(found.entries) or found.beside.next:
        printing.say((f"There are more: --limit {min(limit * 5, 1000)} shows more.", "dim"), err=True)


@app.command()
def show(entry: Id, as_json: Json = False) -> None:
    """Show all about one failure: the error, the task, its payload and steps, what was done about it."""

    async def question(store: "Store") -> "tuple[WholeEntry, datetime]":
        return await store.inbox.entry(await find_entry(store, entry)), await store.now()

    found, now = ask(question)
    if as_json:
        printing.answer(vars(found))
    else:
        say_entry(found, now)


@app.command()
def retry(
    ids: Ids = None,
    from_step: Annotated[str | None, typer.Option(metavar="STEP", help="Do this step and what follows again.")] = None,
    payload: Annotated[
        str | None, typer.Option(metavar="JSON", help="Another payload; - reads stdin, @FILE a file.")
    ] = None,
    in_editor: Annotated[bool, typer.Option("--edit", help="Change the payload in $EDITOR.")] = False,
    signature: Signature = None,
    category: Category = None,
    lifecycle: Lifecycle = None,
    name: Name = None,
    step: Step = None,
    owner: Owner = None,
    older_than: Older = None,
    note: Note = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Run what failed again, as new tasks; with another payload from the start."""
    filters = named(signature, category, lifecycle, name, step, owner)
    asked = Asked("retry", ids or (), filters, older_than, note, from_step, dry_run, yes, as_json)
    if payload is None and not in_editor:
        handle(asked)
        return
    if len(asked.ids) != 1 or asked.by_filter or dry_run or (in_editor and payload is not None):
        raise typer.BadParameter("Another payload is for one entry: name it by its id, with --payload or with --edit.")
    retry_one(asked, edited(asked.ids[0]) if payload is None else read_json(payload))


@app.command()
def resolve(
    note: Annotated[str, typer.Option(help="How it was dealt with; it stays with the entry.")],
    ids: Ids = None,
    signature: Signature = None,
    category: Category = None,
    lifecycle: Lifecycle = None,
    name: Name = None,
    step: Step = None,
    owner: Owner = None,
    older_than: Older = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Say that failures were dealt with elsewhere."""
    filters = named(signature, category, lifecycle, name, step, owner)
    handle(Asked("resolve", ids or (), filters, older_than, note, None, dry_run, yes, as_json))


@app.command()
def discard(
    ids: Ids = None,
    signature: Signature = None,
    category: Category = None,
    lifecycle: Lifecycle = None,
    name: Name = None,
    step: Step = None,
    owner: Owner = None,
    older_than: Older = None,
    note: Note = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Say that nobody needs what failed."""
    filters = named(signature, category, lifecycle, name, step, owner)
    handle(Asked("discard", ids or (), filters, older_than, note, None, dry_run, yes, as_json))


def named(*given: str | None) -> dict[str, str | None]:
    return dict(zip(FILTERS, given, strict=True))


def handle(asked: Asked) -> None:
    """Do it: at once for one entry, for more of them after a question."""
    if bool(asked.ids) == asked.by_filter:
        raise typer.BadParameter("Name the entries by their ids, or say what they have in common: --signature ...")
    if len(asked.ids) == 1 and not asked.dry_run:
        retry_one(asked) if asked.action == "retry" else close_one(asked)
        return
    would = run(dataclasses.replace(asked, dry_run=True))
    number = len(would.handled) + would.remaining
    if not asked.dry_run and number > 1 and not asked.yes:
        confirm(f"{asked.action.capitalize()} {number}{'+' if would.capped else ''} entries?")
    done = would if asked.dry_run or not would.handled else run(asked)
    if asked.as_json:
        lists = {name: [vars(one) for one in getattr(done, name)] for name in ("handled", "refused")}
        printing.answer({"dry_run": asked.dry_run, **lists})
    elif not done.handled and not done.refused:
        printing.say("No open entry fits.", err=True)
    else:
        say_bulk(done, f"would be {WORDS[asked.action]}" if asked.dry_run else WORDS[asked.action])
    if done.refused:
        raise typer.Exit(PARTLY if done.handled else REFUSED)


def run(asked: Asked) -> "BulkResult":
    """Call after call until nothing is left; a dry run makes one call."""

    async def question(store: "Store") -> "BulkResult":
        ids = [await find_entry(store, one) for one in asked.ids] or None
        which = await chosen(store, asked.filters)
        before = await store.now() - asked.older if asked.older is not None else None
        handled: list[Handling] = []
        refused: list[Refusal] = []
        cursor = None
        while True:
            done = await store.inbox.bulk(
                asked.action, caller(), ids=ids, which=which, before=before, cursor=cursor, note=asked.note,
                from_step=asked.from_step, dry_run=asked.dry_run,
            )  # fmt: skip
            handled += done.handled
            refused += done.refused
            cursor = done.next
            if cursor is None or asked.dry_run:
                return dataclasses.replace(done, handled=handled, refused=refused)

    return ask(question)


def retry_one(asked: Asked, payload: Any = None) -> None:
    async def question(store: "Store") -> tuple[UUID, UUID, UUID]:
        entry = await find_entry(store, asked.ids[0])
        made = await store.inbox.retry(entry, caller(), from_step=asked.from_step, payload=payload, note=asked.note)
        return entry, made, (await store.inbox.entry(entry)).task_id

    entry, made, old = ask(question)
    if asked.as_json:
        printing.answer({"id": entry, "task_id": made, "retry_of": old})
    else:
        say_started(str(made), "Started again as ")


def close_one(asked: Asked) -> None:
    async def question(store: "Store") -> UUID:
        entry = await find_entry(store, asked.ids[0])
        close = store.inbox.resolve if asked.action == "resolve" else store.inbox.discard
        await close(entry, caller(), asked.note)
        return entry

    entry = ask(question)
    if asked.as_json:
        printing.answer({"id": entry, "resolution": WORDS[asked.action]})
    else:
        printing.say((str(entry), "bold"), f" is {WORDS[asked.action]}.")


async def chosen(store: "Store", filters: dict[str, str | None]) -> "EntryFilter":
    """The filters, with the id of an entry turned into its signature."""
    from holdfast.engine.store.inbox import EntryFilter

    given = filters["signature"]
    if given:
        try:
            signature = (await store.inbox.entry(await find_entry(store, given))).signature
            filters = {**filters, "signature": signature}
        except TaskNotFound:
            pass
    return EntryFilter(**filters)


def edited(given: str) -> Any:
    """The payload of an entry's task, as a person has changed it. Raises RequestInvalid if they have not."""

    async def question(store: "Store") -> Any:
        return (await store.inbox.entry(await find_entry(store, given))).payload

    before = text = f"{printing.to_json(ask(question), indent=2)}\n"
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
                printing.say(line, err=True)
            try:
                again = typer.confirm("Edit it again?", default=True, err=True)
            except typer.Abort:  # nobody is there to answer
                raise mistake from None
            if not again:
                raise typer.Exit(INTERRUPTED) from None


def confirm(question: str) -> None:
    """Go on if the answer is yes; without an answer, say how to go on without a question."""
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        raise typer.BadParameter(f"{question} Nobody answered. --yes does it without being asked.") from None
    if not agreed:
        raise typer.Exit(INTERRUPTED)
