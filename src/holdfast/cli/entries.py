"""Inbox entries as a person names and sees them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from holdfast.cli import printing
from holdfast.cli.asking import whereabouts
from holdfast.cli.ids import beginning, candidates_shown, shorten
from holdfast.cli.showing import heading, say_error, say_value, when
from holdfast.errors import RequestInvalid, TaskNotFound

if TYPE_CHECKING:
    from holdfast.attention import Wait
    from holdfast.engine.store.commands import Store
    from holdfast.engine.store.inbox import BulkResult, Entry, Group, WholeEntry

counted_at_most = 10_000


async def find_entry(store: "Store", given: str) -> UUID:
    """The one entry whose id begins so, or whose task's does. Raises TaskNotFound, or RequestInvalid."""
    could_be = re.fullmatch("[0-9a-fA-F-]*[0-9a-fA-F][0-9a-fA-F-]*", given)
    found = await store.inbox.find(given, limit=candidates_shown + 1) if could_be else []
    if not found:
        raise TaskNotFound(
            f"No inbox entry's id begins with {given!r}, nor that of its task ({whereabouts()}).",
            fix="List them: holdfast inbox ls --items",
        )
    if len({task for _, task, _ in found}) > 1:
        lines = [f"  {entry}  of task {task}" for entry, task, _ in found[:candidates_shown]]
        raise RequestInvalid("\n".join([f"{given!r} begins more than one id:", *lines]), fix="Write more of it.")
    return max(found, key=lambda one: (one[2], one[0]))[0]


async def shorten_entries(store: "Store", ids: Iterable[UUID]) -> dict[UUID, str]:
    """For each id as much of it as tells it from every other entry's, and every other task's that is in the inbox."""
    return {one: beginning(one, beside) for one, beside in (await store.inbox.neighbours(ids)).items()}


def say_groups(groups: "Sequence[Group]", short: dict[UUID, str], now: datetime) -> None:
    heads = ("newest", "number", "name", "step", "category", "first", "last", "message")
    rows: list[tuple[printing.Part, ...]] = [
        (
            short[one.newest], (f"{one.number}+" if one.capped else str(one.number), "bold"), (one.name or "", "bold"),
            one.step or "", (one.category, "red"), printing.age(one.first_at, now), printing.age(one.last_at, now),
            one.message or "",
        )
        for one in groups
    ]  # fmt: skip
    printing.table(heads, rows, elastic=("name", "step", "message"))


def say_items(entries: "Sequence[Entry]", short: dict[UUID, str], now: datetime) -> None:
    heads = ("id", "name", "about", "step", "category", "failed", "handled", "message")
    rows: list[tuple[printing.Part, ...]] = [
        (
            short[one.id], (one.name or "", "bold"), one.about or "", one.step or "", (one.category, "red"),
            printing.age(one.at, now),
            f"{one.resolution} by {one.resolved_by or 'somebody'}" if one.resolution else "", one.message or "",
        )
        for one in entries
    ]  # fmt: skip
    printing.table(heads, rows, elastic=("name", "about", "step", "handled", "message"))


async def shorten_waits(store: "Store", found: "Sequence[Wait]") -> "list[Wait]":
    """The same with commands that a person may type: as much of a task's id as tells it from every other."""
    short = await shorten(store, [one.task_id for one in found if one.task_id])
    return [
        replace(one, command=one.command.replace(str(one.task_id), short.get(one.task_id, ""))) if one.task_id else one
        for one in found
    ]


def say_waiting(found: "Sequence[Wait]", now: datetime) -> None:
    heads = ("waits", "name", "since", "acts", "why", "command")
    rows: list[tuple[printing.Part, ...]] = [
        (
            (one.kind, "yellow"), (one.name, "bold"), printing.age(one.since, now),
            one.owner or one.acts if one.acts == "owner" else one.acts, one.why, one.command,
        )
        for one in found
    ]  # fmt: skip
    printing.table(heads, rows, elastic=("name", "why"))


def say_entry(entry: "WholeEntry", now: datetime) -> None:
    """All about one, and how to run its task again."""
    printing.say((entry.name or "a task that is forgotten", "bold"), "  ", (str(entry.id), "dim"))
    printing.facts([*facts(entry, now)])
    if entry.steps:
        heading("steps", len(entry.steps))
        rows = [
            (f"  {step['name']}", ("done", "green") if step["done"] else ("not done", "red")) for step in entry.steps
        ]
        printing.table(("  name", ""), rows, elastic=("  name",))
    say_error(entry.error)
    say_value("payload", entry.payload)
    say_diff(entry.diff or ())
    if not entry.resolution and entry.task:
        printing.say("")
        printing.say(("Run it again: ", "dim"), (f"holdfast inbox retry {entry.id}", "bold"))


def facts(entry: "WholeEntry", now: datetime) -> Iterator[tuple[str, printing.Part]]:
    """Its head: what has a value, by name."""
    yield "failed", when(entry.at, now)
    if entry.resolved_at:
        by = f" by {entry.resolved_by}" if entry.resolved_by else ""
        yield "handled", f"{entry.resolution}{by}, {when(entry.resolved_at, now)}"
    if entry.retried_as:
        yield "runs as", str(entry.retried_as)
    if entry.note:
        yield "note", entry.note
    yield "task", f"{entry.task_id}{', ' + entry.task['state'] if entry.task else ', forgotten'}"
    yield "category", (entry.category, "red")
    for name in ("step", "state", "lifecycle", "owner", "signature"):
        if value := getattr(entry, name):
            yield name, value


def say_diff(diff: "Sequence[Any]") -> None:
    if not diff:
        return
    heading("changed")
    for one in diff:
        if "more" in one:
            printing.say((f"  and {one['more']} more", "dim"))
            continue
        before, after = (printing.pretty(one[side]) if side in one else "nothing" for side in ("before", "after"))
        printing.say(f"  {one['path'] or 'all'}: ", (before, "red"), " -> ", (after, "green"))


def say_bulk(bulk: "BulkResult", words: str) -> None:
    """A line for each that was handled; what was refused goes to stderr, with its reason."""
    retried = any(one.retried_as for one in bulk.handled)
    if bulk.handled:
        rows = [(str(one.id), words, str(one.task_id), str(one.retried_as or "")) for one in bulk.handled]
        heads = ("entry", "", "task", "runs as")
        cut = len(heads) if retried else -1
        printing.table(heads[:cut], [row[:cut] for row in rows])
    for one in bulk.refused:
        printing.say((f"{one.id} stays: ", "red"), " ".join(part for part in (one.detail, one.fix) if part), err=True)
