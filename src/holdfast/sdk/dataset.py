"""A dataset as users read it: `hf.dataset("prices").read()`. One generation whole, whatever is published meanwhile."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from holdfast.datasets.store import Datasets
from holdfast.engine.store import encode
from holdfast.errors import DatasetNotFound

if TYPE_CHECKING:
    from holdfast.sdk.client import Holdfast


@dataclass(frozen=True)
class File:
    """One entry of a generation: where it is, or its rows; and which task wrote it."""

    key: str
    uri: str | None
    rows: Sequence[Mapping[str, Any]] | None = field(repr=False)
    row_count: int | None
    bytes: int | None
    task_id: UUID | None


@dataclass(frozen=True)
class Snapshot:
    """One generation of a dataset. It never changes; the dataset may have a newer one by now."""

    name: str
    version: int
    schema: Sequence[tuple[str, str]] | None
    published_at: datetime
    files: Sequence[File]

    @property
    def rows(self) -> Iterator[Mapping[str, Any]]:
        """The rows that came with outputs, of all entries. Those in files are read from their `uri`."""
        return (row for one in self.files for row in one.rows or ())

    def __getitem__(self, key: str) -> File:
        """The entry of a key. Raises KeyError."""
        for one in self.files:
            if one.key == key:
                return one
        raise KeyError(key)


class Dataset:
    """A dataset by its name. Methods that begin with `a` are for async code."""

    def __init__(self, app: "Holdfast", name: str) -> None:
        self.app = app
        self.name = name

    def read(self, version: int | None = None) -> Snapshot:
        """The current generation, or this one. Raises DatasetNotFound, also while there is none to read yet."""
        return self.app.call(self._read(version))

    async def aread(self, version: int | None = None) -> Snapshot:
        """The same in async code."""
        return await self.app.acall(self._read(version))

    def generations(self) -> list[dict[str, Any]]:
        """The newest generations, whatever became of them. Raises DatasetNotFound."""
        return self.app.call(self._generations())

    async def agenerations(self) -> list[dict[str, Any]]:
        """The same in async code."""
        return await self.app.acall(self._generations())

    def cutover(self, version: int, *, by: str = "") -> None:
        """Let this generation be current. Raises DatasetNotFound or GenerationIncomplete."""
        self.app.call(self._cutover(version, by))

    async def acutover(self, version: int, *, by: str = "") -> None:
        """The same in async code."""
        await self.app.acall(self._cutover(version, by))

    def rollback(self, version: int | None = None, *, by: str = "") -> int:
        """Take the current generation back, or this one, whose run is then cancelled; the version that is current now.

        Raises DatasetNotFound, or GenerationIncomplete where there is nothing to go back to.
        """
        return self.app.call(self._rollback(version, by))

    async def arollback(self, version: int | None = None, *, by: str = "") -> int:
        """The same in async code."""
        return await self.app.acall(self._rollback(version, by))

    async def _read(self, version: int | None) -> Snapshot:
        datasets = Datasets.over(await self.app.open_store())
        found = await datasets.read("", name=self.name, version=version)
        if not found["version"]:
            raise DatasetNotFound(f"{self.name} has no generation to read yet.", fix="Wait until its run is done.")
        items, page = list(found["items"]), found
        while page["next"] is not None:
            page = await datasets.read("", name=self.name, version=found["version"], after=page["next"])
            items += page["items"]
        return Snapshot(
            self.name,
            found["version"],
            None if found["schema"] is None else [(name, kind) for name, kind in found["schema"]],
            datetime.fromisoformat(found["published_at"]),
            [encode.from_json(File, {**one, "key": one["key"] or one["name"]}) for one in items],
        )

    async def _generations(self) -> list[dict[str, Any]]:
        datasets, own = await self._find()
        return await datasets.generations(own)

    async def _cutover(self, version: int, by: str) -> None:
        datasets, own = await self._find()
        await datasets.cutover(own, version, by)

    async def _rollback(self, version: int | None, by: str) -> int:
        datasets, own = await self._find()
        rolled = await datasets.rollback(own, version, by)
        return int(rolled["current_version"])

    async def _find(self) -> tuple[Datasets, UUID]:
        """The store of datasets, and the id of this one there. Raises DatasetNotFound."""
        datasets = Datasets.over(await self.app.open_store())
        found = await datasets.find("", name=self.name, limit=1)
        if not found:
            raise DatasetNotFound(f"There is none called {self.name!r}.", fix="List them: holdfast dataset ls")
        return datasets, UUID(found[0]["dataset_id"])
