"""Datasets: files under a name, version by version. The functions of datasets.sql, as Python."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from holdfast.kernel import wire
from holdfast.kernel.calls import Calls


class Datasets(Calls):
    """The datasets of all owners."""

    async def make(self, owner: str, name: str, files: Sequence[Mapping[str, str]], by: str = "") -> tuple[UUID, int]:
        """A dataset of these files, or its next version; its id and version. Raises RequestInvalid."""
        query = "select * from holdfast.make_dataset($1, $2, $3, $4)"
        given = (owner, wire.text(name), wire.dump([dict(one) for one in files]), by)
        row = (await self._rows(query, *given, repeatable=False))[0]
        return row["dataset_id"], row["version"]

    async def read(
        self,
        owner: str | None = None,
        *,
        dataset: UUID | None = None,
        name: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        """Datasets by name: of one owner, or of all; one of them; or those after a name."""
        query = "select * from holdfast.read_datasets($1, $2, $3, $4, $5)"
        rows = await self._rows(query, owner, dataset, wire.text(name), wire.text(after), limit)
        return [wire.load(row[0]) for row in rows]

    async def files(self, dataset: UUID, version: int, *, after: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
        """The files of a version, in their order."""
        query = "select * from holdfast.dataset_files($1, $2, $3, $4)"
        return [dict(row) for row in await self._rows(query, dataset, version, after, limit)]
