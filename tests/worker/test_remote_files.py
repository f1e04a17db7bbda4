"""A host that has an address and a key and nothing else: the files of its tasks are where the server has them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.datasets.store import Datasets
from holdfast.errors import ObjectsUnreachable
from holdfast.objects.local import Folder
from holdfast.settings import Settings
from holdfast.tables import Table, read_table
from holdfast.testing import Database
from tests.http.serving import serving
from tests.over_http import key_to
from tests.worker import files_app
from tests.worker.crew import Crew


@dataclass
class Hosts:
    """Where the server has its files, and a crew on another host."""

    folder: Path
    home: Path
    crew: Crew

    def settings(self, key: str | None = None) -> Settings:
        """What an application on the crew's host is told."""
        environment = self.crew.environment
        return Settings(api=environment["HOLDFAST_API"], key=key or environment["HOLDFAST_KEY"], home=self.home)


@pytest.fixture
async def hosts(live: Database, tmp_path: Path) -> AsyncIterator[Hosts]:
    folder, home = tmp_path / "server", tmp_path / "worker"
    with contextlib.ExitStack() as stack:
        address = await asyncio.to_thread(
            stack.enter_context, serving(live, Folder(folder).open(), sweeps=True)
        )  # fmt: skip
        crew = stack.enter_context(contextlib.closing(Crew(live.url, tmp_path)))
        crew.speak_http(address, await asyncio.to_thread(key_to, live))
        del crew.environment["HOLDFAST_OBJECTS"]
        crew.environment["HOLDFAST_HOME"] = str(home)
        async with live.store() as crew.store:
            yield Hosts(folder, home, crew)
            assert not home.exists(), "nothing was kept there"
            assert await crew.store.verify() == []


@pytest.mark.deep
async def test_a_worker_without_a_place_writes_where_the_server_reads(hosts: Hosts) -> None:
    crew = hosts.crew
    crew.start(app="tests.worker.files_app", slots=4)
    written = await crew.run(*(files_app.catch.submission(kg) for kg in (40, 2)))
    tables = [Table(**one.result) for one in written if isinstance(one.result, dict)]
    here = await read_table(tables, settings=Settings(objects=f"file://{hosts.folder}"))
    assert here["kg"].to_list() == [40, 1, 2, 1]
    (weighed,) = await crew.run(files_app.weigh.submission(tables))
    assert weighed.result == 44
    found = await Datasets.over(crew.store).read(None, name="catches")
    assert [one["uri"] for one in found["items"]] in ([tables[0].uri], [tables[1].uri])
    (gone,) = await crew.run(files_app.missing.submission())
    assert gone.outcome == "failed"
    assert "is gone" in str(gone.note)
    there = await read_table(tables[0], settings=hosts.settings())
    assert there["kg"].to_list() == [40, 1], "an application on that host reads it too"
    with pytest.raises(ObjectsUnreachable, match="HOLDFAST_KEY"):
        await read_table(tables[0], settings=hosts.settings("hf_none"))
