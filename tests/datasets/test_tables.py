"""Tables that one task writes and others read."""

from collections.abc import Iterator

import polars as pl
import pytest

from holdfast import Holdfast
from holdfast.errors import Fatal, SchemaInvalid, StepInvalid
from holdfast.remote.places import objects_of
from holdfast.tables import Table, read_table, write_table
from holdfast.testing import Engine

FRAME = pl.DataFrame({"species": ["cod", "sole"], "kg": [4.5, 1.0]})


@pytest.fixture
def hf() -> Iterator[Holdfast]:
    app = Holdfast()
    yield app
    app.close()


def test_a_table_comes_back_as_it_was_written(hf: Holdfast, holdfast: Engine) -> None:
    @hf.task
    async def write() -> Table:
        return await write_table(FRAME, "catch")

    @hf.task
    async def read(table: Table) -> list[dict[str, object]]:
        return (await read_table(table)).to_dicts()

    table = holdfast.run(write).value
    assert (table.rows, table.schema) == (2, [("species", "String"), ("kg", "Float64")])
    assert table.bytes > 0
    assert holdfast.run(read, table).value == FRAME.to_dicts()


def test_plain_functions_write_and_read_tables_too(hf: Holdfast, holdfast: Engine) -> None:
    @hf.task
    def write_and_read() -> list[dict[str, object]]:
        tables = [write_table.sync(FRAME, "one"), write_table.sync(FRAME, "other")]
        return read_table.sync(tables).to_dicts()

    assert holdfast.run(write_and_read).value == FRAME.to_dicts() * 2


def test_each_lease_writes_where_no_other_does(hf: Holdfast, holdfast: Engine) -> None:
    @hf.task(retries=2)
    async def write() -> Table:
        table = await write_table(FRAME)
        uris.append(table.uri)
        if len(uris) == 1:
            raise ConnectionError("hung up")
        return table

    uris: list[str] = []
    ran = holdfast.run(write)
    assert len(set(uris)) == 2
    assert ran.value.uri == uris[1]


def test_a_table_that_is_gone_is_no_reason_to_try_again(hf: Holdfast, holdfast: Engine) -> None:
    @hf.task(retries=5)
    async def write() -> Table:
        return await write_table(FRAME)

    @hf.task(retries=5)
    async def read(table: Table) -> int:
        return (await read_table(table)).height

    table = holdfast.run(write).value
    holdfast.call(objects_of(hf.settings).delete("tables"))
    ran = holdfast.run(read, table)
    assert (ran.state, ran.attempts) == ("Dead", 1)
    assert "is gone" in str(ran.error)


async def test_what_is_not_a_table_is_refused() -> None:
    with pytest.raises(SchemaInvalid, match="not a table that a task has written"):
        await read_table("file:///etc/passwd")
    with pytest.raises(SchemaInvalid, match="no table to read"):
        await read_table([])


async def test_writing_needs_a_task() -> None:
    with pytest.raises(StepInvalid, match="outside of a task"):
        await write_table(FRAME)
    with pytest.raises(StepInvalid, match=r"write_table\.sync was called in async code"):
        write_table.sync(FRAME)


def test_writing_in_plain_code_needs_a_task_too() -> None:
    with pytest.raises(StepInvalid, match="outside of a task"):
        write_table.sync(FRAME)


def test_a_name_that_leads_elsewhere_is_refused(hf: Holdfast, holdfast: Engine) -> None:
    @hf.task
    async def write(name: str) -> Table:
        return await write_table(FRAME, name)

    for name in ("../up", "", "a/b", "a" * 101):
        assert "cannot be the name of a table" in str(holdfast.run(write, name).error)


async def test_without_polars_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(Fatal, match=r"holdfast-engine\[tables\]"):
        await read_table("object:tables/x")
