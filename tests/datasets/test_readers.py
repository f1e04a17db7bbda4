"""Readers see the old generation or the new one whole, never a mix, whatever is cut over and rolled back meanwhile."""

import asyncio

import pytest

from holdfast.datasets.store import Datasets
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Output
from holdfast.testing import Database
from tests.datasets.stage import Runs, publish
from tests.tiers import deep

FILES = 40
READERS = 4


def whole(name: str) -> list[Output]:
    return [Output("prices", f"{n}", uri=f"s3://{name}/{n}") for n in range(FILES)]


@pytest.mark.parametrize("times", [40, deep(200)])
async def test_cutovers_and_rollbacks_show_nobody_a_mix(
    store: Store, runs: Runs, database: Database, times: int
) -> None:
    """Version 1 is all of `one`, version 2 all of `two`; every single read is one of them, as it says."""
    await publish(store, *whole("one"))
    await publish(store, *whole("two"))
    dataset = await runs.id()
    over = asyncio.Event()
    read_now: asyncio.Queue[int] = asyncio.Queue()
    seen: list[set[int]] = []

    async def watch() -> int:
        reads, versions = 0, set()
        async with database.connect() as connection:
            datasets = Datasets(connection)
            while not over.is_set():
                found = await datasets.read("", dataset=dataset)
                version, items = found["version"], found["items"]
                expected = {1: "one", 2: "two"}[version]
                assert [one["uri"] for one in items] == [f"s3://{expected}/{n}" for n in range(FILES)]
                assert {one["version"] for one in items} == {version}
                assert found["files"] == FILES
                versions.add(version)
                reads += 1
                read_now.put_nowait(version)
        seen.append(versions)
        return reads

    async def until_read(version: int) -> None:
        while await read_now.get() != version:
            """Read before the change."""

    async def change() -> None:
        try:
            await until_read(2)
            for number in range(times):
                if number % 2 == 0:
                    assert (await runs.datasets.rollback(dataset))["current_version"] == 1
                else:
                    assert (await runs.datasets.cutover(dataset, 2))["before"] == 1
                if number % 4 == 0:  # the others come as close to each other as they can
                    await until_read(1)
        finally:
            over.set()

    async with asyncio.TaskGroup() as group:
        readers = [group.create_task(watch()) for _ in range(READERS)]
        await change()
    assert sum(reader.result() for reader in readers) > times / 4
    assert set().union(*seen) == {1, 2}
    assert await runs.owner.fetchval("select count(*) from holdfast.dataset_cutover") == times + 2


async def test_pages_are_of_the_generation_that_the_first_was_of(store: Store, runs: Runs) -> None:
    await publish(store, *whole("one"))
    first = await runs.read(limit=25)
    assert (first["version"], len(first["items"]), first["next"]) == (1, 25, 25)
    await publish(store, *whole("two"))
    rest = await runs.read(version=1, after=first["next"], limit=25)
    assert [one["uri"] for one in first["items"] + rest["items"]] == [f"s3://one/{n}" for n in range(FILES)]
    assert (rest["next"], (await runs.read())["version"]) == (None, 2)


async def test_a_page_has_no_more_rows_than_one_can_carry(store: Store, runs: Runs) -> None:
    outputs = [Output("prices", f"{n}", rows=[{"text": "x" * 250_000}]) for n in range(40)]
    await publish(store, *outputs[:20])
    await publish(store, *outputs[20:])
    first = await runs.read()
    rest = await runs.read(version=2, after=first["next"])
    assert 25 < len(first["items"]) < 40
    assert (len(first["items"]) + len(rest["items"]), rest["next"]) == (40, None)
