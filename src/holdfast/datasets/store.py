"""Datasets: files under a name, generation by generation. The functions of sql/, as Python.

Readers see one generation whole: the one that was current when they asked. What is complete never changes.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls
from holdfast.errors import DatasetNotFound


class Datasets(Calls):
    """The datasets of all owners."""

    async def make(self, owner: str, name: str, files: Sequence[Mapping[str, str]], by: str = "") -> tuple[UUID, int]:
        """A dataset of these files, or its next version; its id and version. Raises RequestInvalid."""
        given = (owner, encode.text(name), encode.dump([dict(one) for one in files]), by)
        row = (await self._table("make_dataset", *given, repeatable=False))[0]
        return row["dataset_id"], row["version"]

    async def find(
        self,
        owner: str | None = None,
        *,
        dataset: UUID | None = None,
        name: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        """Datasets by name: of one owner, or of all; one of them; or those after a name."""
        return await self._documents("read_datasets", owner, dataset, encode.text(name), encode.text(after), limit)

    async def read(
        self,
        owner: str | None,
        *,
        dataset: UUID | None = None,
        name: str | None = None,
        version: int | None = None,
        after: int = 0,
        limit: int = 1000,
    ) -> dict[str, Any]:
        """The current generation, or this one, with its files from a number on: one snapshot. Raises DatasetNotFound.

        Where there is more, `next` is the number to go on from, with the same version.
        """
        rows = await self._table("read_dataset", owner, dataset, encode.text(name), version, after, limit)
        found: dict[str, Any] | None = encode.load(rows[0][0]) if rows else None
        if found is None:
            which = f" {name or dataset}" + (f" in a generation {version} that can be read" if version else "")
            raise DatasetNotFound(f"There is none called{which}.", fix="List them: holdfast dataset ls")
        return found

    async def generations(self, dataset: UUID) -> list[dict[str, Any]]:
        """Its newest fifty generations, the newest first, whatever became of them."""
        return await self._documents("generations", dataset)

    async def cutover(self, dataset: UUID, version: int, by: str = "") -> dict[str, Any]:
        """Let this generation be current. Raises DatasetNotFound or GenerationIncomplete."""
        return dict((await self._table("cutover_dataset", dataset, version, by))[0])

    async def rollback(self, dataset: UUID, version: int | None = None, by: str = "") -> dict[str, Any]:
        """Take back the current generation, or this one. Raises DatasetNotFound or GenerationIncomplete."""
        return dict((await self._table("rollback_dataset", dataset, version, by, repeatable=False))[0])

    async def forget(self) -> int:
        """Forget the generations that were kept for long enough; how many there were."""
        return int(await self._call("forget_generations"))
