"""What the server keeps of one kind: batches, runs of graphs, jobs of pipelines, runs of `holdfast ingest`.

All of them are listed, named by the beginning of an id, and asked for something in the same way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

from holdfast.cli.ids import choose, shorten_id
from holdfast.cli.printing import Cell, print_table
from holdfast.errors import TaskNotFound

if TYPE_CHECKING:
    from holdfast.remote.server import Server

newest_searched = 200
page_at_most = 100
distinct_length = 18
"""So much of an id is its time and some randomness: no other task than those of a list begins so."""


@dataclass(frozen=True)
class Kind:
    """Where they are found, what they are called, and the commands that list them and make one."""

    path: str
    lifecycle: str
    id_field: str
    noun: str
    plural: str
    listing: str
    example: str

    async def find(self, server: "Server", given: str) -> UUID:
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

    async def ask(
        self, server: "Server", method: str, given: str, then: str = "", body: Any = None, **more: Any
    ) -> Any:
        """What the server answers about the one whose id begins so. Raises what it refuses, and as `find` does."""
        return await server.ask(method, f"{self.path}/{await self.find(server, given)}{then}", body, **more)

    async def newest(self, server: "Server", limit: int, **filters: str | None) -> list[dict[str, Any]]:
        """The newest, up to so many."""
        return await read_pages(server, self.path, limit, page=page_at_most, **filters)

    def print_newest(
        self,
        found: Sequence[dict[str, Any]],
        heads: Sequence[str],
        row_of: Callable[[dict[str, Any]], Sequence[Cell]],
        *,
        elastic: Sequence[str],
        filtered: object = None,
    ) -> None:
        """Print them, each behind as much of its id as tells it from others; or how to make the first."""
        ids = [UUID(one[self.id_field]) for one in found]
        rows = [(shorten_id(one, ids, distinct_length), *row_of(item)) for one, item in zip(ids, found, strict=True)]
        none = f"No such {self.noun}. " if filtered else f"There are no {self.plural}. "
        print_table(("id", *heads), rows, none=(none, (self.example, "bold"), " makes one."), elastic=elastic)


async def read_pages(
    server: "Server", path: str, most: int | None, *, page: int, **query: object
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
