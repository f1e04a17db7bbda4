"""The id of a task as a person writes it: the beginning is enough, as long as no other task's id begins so."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from holdfast.cli.asking import whereabouts
from holdfast.errors import RequestInvalid, TaskNotFound

if TYPE_CHECKING:
    from holdfast.cli.calling import Server
    from holdfast.engine.store.commands import Store

Id = Annotated[str, typer.Argument(metavar="ID", help="A task's id, or the beginning of it.")]

candidates_shown = 10
looked_at = 200
shortest = 8


async def find(store: "Store", given: str) -> UUID:
    """The one task whose id begins so. Raises TaskNotFound, or RequestInvalid with the candidates."""
    could_be = re.fullmatch("[0-9a-fA-F-]*[0-9a-fA-F][0-9a-fA-F-]*", given)
    found = await store.find_ids(given, limit=candidates_shown + 1) if could_be else []
    if not found:
        raise TaskNotFound(f"No task's id begins with {given!r} ({whereabouts()}).", fix="List them: holdfast ls")
    return only(given, found)


async def find_newest(server: "Server", lifecycle: str, given: str, *, word: str, listing: str) -> UUID:
    """The same by asking the server, among the newest of a lifecycle. Raises TaskNotFound or RequestInvalid."""
    try:
        return UUID(given)
    except ValueError:
        newest = (await server.ask("GET", f"/api/v1/tasks?lifecycle={lifecycle}&limit={looked_at}"))["items"]
    found = [UUID(one["id"]) for one in newest if one["id"].startswith(given.lower())]
    if not found:
        fix = f"List them: {listing}. An older one is named by its whole id."
        raise TaskNotFound(f"No {word}'s id begins with {given!r}, of the newest {looked_at}.", fix=fix)
    return only(given, found)


def only(given: str, found: Sequence[UUID]) -> UUID:
    """The one that was found. Raises RequestInvalid with the candidates."""
    if len(found) > 1:
        lines = [f"  {one}" for one in found[:candidates_shown]]
        more = ["  ..."] if len(found) > candidates_shown else []
        raise RequestInvalid("\n".join([f"{given!r} begins more than one id:", *lines, *more]), fix="Write more of it.")
    return found[0]


async def shorten(store: "Store", ids: Iterable[UUID]) -> dict[UUID, str]:
    """For each id as much of it as tells it from every other task's."""
    return {one: beginning(one, beside) for one, beside in (await store.neighbours(ids)).items()}


def beginning(one: UUID, others: Iterable[UUID | None], least: int = shortest) -> str:
    """As much of an id as tells it from these others."""
    length = least
    while any(str(other)[:length] == str(one)[:length] for other in others if other not in (one, None)):
        length += 1
    return str(one)[:length].rstrip("-")
