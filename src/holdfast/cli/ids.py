"""Ids as a person writes them: the beginning is enough while no other id begins so; or a name."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar
from uuid import UUID

import typer

from holdfast.cli.access import Store, database_label
from holdfast.errors import HoldfastError, RequestInvalid, TaskNotFound

Id = Annotated[str, typer.Argument(metavar="ID", help="A task's id, or the beginning of it.")]

T = TypeVar("T")

candidates_listed = 10
shortest = 8


async def find_task(store: Store, given: str) -> UUID:
    """The one task whose id begins so. Raises TaskNotFound, or RequestInvalid with the candidates."""
    found = await store.find_ids(given, limit=candidates_listed + 1) if could_begin_id(given) else []
    fix = "List them: holdfast ls"
    return choose(given, found, TaskNotFound(f"No task's id begins with {given!r} ({database_label()}).", fix=fix))


async def find_entry(store: Store, given: str) -> UUID:
    """The one inbox entry whose id begins so, or whose task's does. Raises TaskNotFound, or RequestInvalid."""
    found = await store.inbox.find(given, limit=candidates_listed + 1) if could_begin_id(given) else []
    of_task = {task: entry for entry, task, _ in sorted(found, key=lambda one: (one[2], one[0]))}
    missing = TaskNotFound(
        f"No inbox entry's id begins with {given!r}, nor that of its task ({database_label()}).",
        fix="List them: holdfast inbox ls --items",
    )
    chosen = choose(given, list(of_task), missing, describe=lambda task: f"{of_task[task]}  of task {task}")
    return of_task[chosen]


def find_named(given: str, items: Iterable[T], missing: HoldfastError) -> T:
    """The one of this name, or whose id begins so. Raises `missing`, or RequestInvalid with the candidates."""
    every: list[Any] = list(items)
    named = [one for one in every if one.name == given and not getattr(one, "revoked_at", None)]
    found = named or [one for one in every if given and str(one.id).startswith(given.lower())]
    chosen: T = choose(given, found, missing, describe=lambda one: f"{one.id}  {one.name}")
    return chosen


def choose(given: str, found: Sequence[T], missing: HoldfastError, *, describe: Callable[[T], str] = str) -> T:
    """The only one that was found. Raises `missing`, or RequestInvalid with the candidates."""
    if not found:
        raise missing
    if len(found) > 1:
        lines = [f"  {describe(one)}" for one in found[:candidates_listed]]
        more = ["  ..."] if len(found) > candidates_listed else []
        raise RequestInvalid("\n".join([f"{given!r} begins more than one id:", *lines, *more]), fix="Write more of it.")
    return found[0]


def could_begin_id(given: str) -> bool:
    return re.fullmatch("[0-9a-fA-F-]*[0-9a-fA-F][0-9a-fA-F-]*", given) is not None


async def shorten(neighbours: Awaitable[Mapping[UUID, Iterable[UUID | None]]]) -> dict[UUID, str]:
    """For each id as much of it as tells it from every other, of which the store names the nearest."""
    return {one: shorten_id(one, others) for one, others in (await neighbours).items()}


def shorten_id(one: UUID, others: Iterable[UUID | None], least: int = shortest) -> str:
    """As much of an id as tells it from these others."""
    length = least
    while any(str(other)[:length] == str(one)[:length] for other in others if other not in (one, None)):
        length += 1
    return str(one)[:length].rstrip("-")
