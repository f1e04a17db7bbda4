"""The nightly graph: the papers of a harbour become two datasets, `prices` and `boats`, published together.

                 ┌─ landings ─┬─ prices ─┐
    calendar ────┴─ auctions ─┴─ boats  ─┴─ checked

Each node is a task of its own, on any machine. What `prices` and `boats` write is not visible until `checked` has
agreed; then both are current at once. A night that fails leaves the datasets as they were.
"""

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from holdfast.apps.nightly.sources import write_auctions, write_landings
from holdfast.datasets.tables import Table, read_table, write_table
from holdfast.distribution import install_hint
from holdfast.errors import Fatal, SchemaInvalid
from holdfast.execution.context import current, output, progress
from holdfast.execution.threads import in_thread
from holdfast.objects.scratch import scratch
from holdfast.remote.fetch import fetch
from holdfast.remote.fetch.guard import Guard
from holdfast.remote.places import objects_of
from holdfast.settings import Settings

if TYPE_CHECKING:
    import polars

    from holdfast.lifecycles.dispatch.sdk import Dag
    from holdfast.sdk.client import Holdfast

Days = Annotated[int, Field(ge=1, le=366)]
paper_most_bytes = 64 * 1024 * 1024


def is_installed() -> bool:
    """Whether this process has what tables are made with."""
    return find_spec("polars") is not None


def offer(app: "Holdfast", name: str = "nightly") -> "Dag":
    """A graph of this application. Raises AppInvalid."""
    nightly = Nightly(lambda: app.settings)
    dag = app.dag(
        name, title="The harbour's papers become two datasets, published together", writes=("prices", "boats"),
        retries=2, timeout="15m",
    )  # fmt: skip
    for node in (nightly.calendar, nightly.landings, nightly.auctions, nightly.prices, nightly.boats, nightly.checked):
        dag.task(name=node.__name__)(node)
    return dag


class Nightly:
    """The nodes. Each takes what those before it gave, and parameters of the run."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    async def calendar(self, day: str = "", days: Days = 7) -> list[date]:
        """The days to look at, the last of which is `day`, by default yesterday; the same for all nodes."""
        try:
            last = date.fromisoformat(day[:10]) if day else current().due_at.date() - timedelta(days=1)
        except ValueError as error:
            raise SchemaInvalid(f"{day!r} is not a day: write 2026-11-17.", code="day") from error
        return [last - timedelta(days=back) for back in reversed(range(days))]

    async def landings(self, calendar: list[date], source: str = "") -> Table:
        """What came ashore on these days.

        Papers are made up, or read from `source`: landings-2026-11-17.csv and so on below an address or a folder.
        """
        return await self._papers("landings", calendar, source)

    async def auctions(self, calendar: list[date], source: str = "") -> Table:
        """What was sold on these days."""
        return await self._papers("auctions", calendar, source)

    async def prices(self, landings: Table, auctions: Table, with_share: bool = False) -> list[Table]:
        """By day and species, a file for each day. `with_share` adds a column: such a change is a new generation."""
        from holdfast.apps.nightly.transform import prices_of

        frames = await read_table(landings), await read_table(auctions)
        return await self._publish("prices", await in_thread(prices_of, *frames, with_share=with_share))

    async def boats(self, landings: Table, auctions: Table) -> list[Table]:
        """By day and boat, a file for each day."""
        from holdfast.apps.nightly.transform import boats_of

        frames = await read_table(landings), await read_table(auctions)
        return await self._publish("boats", await in_thread(boats_of, *frames))

    async def checked(self, prices: list[Table], boats: list[Table]) -> dict[str, Any]:
        """Whether both tell the same story. If not, they are never visible."""
        from holdfast.apps.nightly.transform import check

        return await in_thread(check, await read_table(prices), await read_table(boats))

    async def _papers(self, kind: str, days: Sequence[date], source: str) -> Table:
        if not is_installed():
            raise Fatal(f"This worker cannot make tables: {install_hint('tables')}.", code="not-installed")
        from holdfast.apps.nightly.transform import read_auctions, read_landings

        with scratch() as folder:
            papers = []
            for number, each in enumerate(days):
                progress(number, len(days), note=f"{kind} of {each}")
                papers.append((each, await self._paper(kind, each, source, folder)))
            frame = await in_thread({"landings": read_landings, "auctions": read_auctions}[kind], papers)
        return await write_table(frame, kind)

    async def _paper(self, kind: str, day: date, source: str, folder: Path) -> Path:
        path = folder / f"{kind}-{day}.csv"
        if not source:
            return {"landings": write_landings, "auctions": write_auctions}[kind](path, day)
        if not source.startswith(("http://", "https://", "file:///")):
            raise SchemaInvalid("It is not a place of papers: write https://... or file:///...", code="uri")
        if source.startswith("file:") and current().owner:
            raise SchemaInvalid("Files of the server are not yours to name.", code="uri")
        settings = self._settings()
        guard = Guard(settings.fetch_networks)
        address = f"{source.rstrip('/')}/{path.name}"
        await fetch(address, path, objects=objects_of(settings), guard=guard, most_bytes=paper_most_bytes)
        return path

    async def _publish(self, dataset: str, frame: "polars.DataFrame") -> list[Table]:
        tables = []
        for part in frame.partition_by("day", maintain_order=True):
            day = str(part["day"][0])
            tables.append(await write_table(part, f"{dataset}-{day}"))
            output(dataset, tables[-1], key=day)
        return tables
