"""What the server keeps of one kind: batches, runs of graphs, jobs of pipelines, runs of `holdfast ingest`.

All of them are listed, named by the beginning of an id, and asked for something in the same way.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from holdfast.cli.access import Server
from holdfast.cli.ids import choose, shorten_id
from holdfast.cli.options import Answer
from holdfast.cli.printing import (
    Cell,
    format_age,
    format_cents,
    format_cost,
    format_time,
    format_took,
    print_facts,
    print_table,
    to_json,
)
from holdfast.cli.watcher import Status, Watched, format_status
from holdfast.errors import TaskExpired, TaskNotFound

newest_searched = 200
page_at_most = 100
distinct_length = 18
"""So much of an id is its time and some randomness: no other task than those of a list begins so."""

FACTS: dict[str, Callable[[Status], Cell]] = {
    "state": format_status,
    "cancel": lambda one: "requested from its worker" if one["cancel_requested"] and not one["finished_at"] else "",
    "made": lambda one: format_time(one["created_at"]),
    "took": lambda one: format_took(one["started_at"], one["finished_at"]),
    "cost": lambda one: format_cents(one["cost_cents"]),
    "params": lambda one: to_json(one["params"]) if one["params"] else "",
    "settings": lambda one: to_json(one["settings"]) if one["settings"] else "",
}
"""What is said of more than one kind in the same way. What else is named is the field of that name."""
COLUMNS = {**FACTS, "made": lambda one: format_age(one["created_at"]), "cost": format_cost}
"""The same in a list."""


@dataclass(frozen=True, kw_only=True)
class Kind(Watched):
    """Also what they are called, and the commands that list them and make one."""

    lifecycle: str
    noun: str
    plural: str
    listing: str
    example: str
    columns: Sequence[str]
    own_cells: Callable[[Status], Mapping[str, Cell]]
    """What stands in those columns that only this kind has, or fills in another way."""
    elastic: Sequence[str]

    async def find(self, server: Server, given: str) -> UUID:
        """The one whose id begins so, among the newest. Raises TaskNotFound or RequestInvalid."""
        try:
            return UUID(given)
        except ValueError:
            path = f"/api/v1/tasks?lifecycle={self.lifecycle}&limit={newest_searched}"
            newest = (await server.ask("GET", path))["items"]
        found = [UUID(one["id"]) for one in newest if one["id"].startswith(given.lower())]
        fix = f"List them: {self.listing}. An older one is named by its whole id."
        missing = TaskNotFound(f"No {self.noun}'s id begins with {given!r}, of the newest {newest_searched}.", fix=fix)
        return choose(given, found, missing)

    async def ask(self, server: Server, method: str, given: str, then: str = "", body: Any = None, **more: Any) -> Any:
        """What the server answers about the one whose id begins so. Raises what it refuses, and as `find` does."""
        return await server.ask(method, f"{self.path}/{await self.find(server, given)}{then}", body, **more)

    async def read_links(self, server: Server, one: Status, what: str) -> tuple[list[Status], str]:
        """Links to the files of one; or none, and why."""
        try:
            return (await server.ask("GET", f"{self.path}/{one[self.id_field]}/{what}"))[what], ""
        except TaskExpired as gone:
            return [], gone.detail

    async def list_newest(self, server: Server, limit: int, **filters: str | None) -> Answer:
        """List the newest, up to so many, each behind as much of its id as tells it from others."""
        found = await read_pages(server, self.path, limit, page=page_at_most, **filters)
        yield found
        ids = [UUID(one[self.id_field]) for one in found]
        rows = [
            [shorten_id(id_, ids, distinct_length), *cells_of(one, self.columns, COLUMNS, self.own_cells(one)).values()]
            for id_, one in zip(ids, found, strict=True)
        ]
        none = f"No such {self.noun}. " if any(filters.values()) else f"There are no {self.plural}. "
        heads = ("id", *self.columns)
        print_table(heads, rows, none=(none, (self.example, "bold"), " makes one."), elastic=self.elastic)

    def print_facts(self, one: Status, names: Sequence[str], own: Mapping[str, Cell]) -> None:
        """Print what there is to know of one, behind its id; `own` is what only this kind says, or in another way."""
        print_facts([(self.noun, one[self.id_field]), *cells_of(one, names, FACTS, own).items()])


def cells_of(
    one: Status, names: Sequence[str], shared: Mapping[str, Callable[[Status], Cell]], own: Mapping[str, Cell]
) -> dict[str, Cell]:
    """What these names say of one."""
    cells: dict[str, Cell] = {}
    for name in names:
        field = one.get(name.replace(" ", "_")) or ""
        cells[name] = own[name] if name in own else shared[name](one) if name in shared else field
    return cells


async def read_pages(
    server: Server, path: str, most: int | None, *, page: int, **query: object
) -> list[dict[str, Any]]:
    """The items of a list, page after page, up to so many."""
    found: list[dict[str, Any]] = []
    asked = {name: value for name, value in query.items() if value is not None}
    while most is None or len(found) < most:
        asked["limit"] = page if most is None else min(most - len(found), page)
        answer = await server.ask("GET", f"{path}?{urlencode(asked)}")
        found += answer["items"]
        if not answer["next"]:
            break
        asked["cursor"] = answer["next"]
    return found
