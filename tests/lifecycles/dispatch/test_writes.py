"""What a run tells the room of the datasets: which generations it builds, how it ended, and who goes on with them.

The three functions that it calls stand here as recorders: what they do is tried in tests/datasets.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done
from holdfast.errors import RequestInvalid
from holdfast.testing import Database
from tests.lifecycles.dispatch.graphs import FATAL, Running

RECORDERS = """
drop function if exists holdfast.open_generation(text, text, uuid, bool, text, text);
drop function if exists holdfast.finish_generations(uuid, text);
drop function if exists holdfast.adopt_generations(uuid, uuid);
create table holdfast.heard (number serial, what text, run uuid, data jsonb);
create function holdfast.open_generation(
  p_owner text, p_dataset text, p_run uuid, p_extends bool default false,
  p_cutover text default 'auto', p_by text default '',
  out dataset_id uuid, out version int) language plpgsql as $$
begin
  if p_dataset = 'forbidden' then
    perform holdfast.refuse('TK010', 'Not that one.', 'Take another.');
  end if;
  insert into holdfast.heard (what, run, data)
  values ('open', p_run, jsonb_build_array(p_owner, p_dataset, p_extends, p_cutover, p_by));
  dataset_id := gen_random_uuid();
  version := 7;
end $$;
create function holdfast.finish_generations(p_run uuid, p_outcome text) returns void language sql as $$
  insert into holdfast.heard (what, run, data) values ('finish', p_run, to_jsonb(p_outcome)) $$;
create function holdfast.adopt_generations(p_old_run uuid, p_new_run uuid) returns void language sql as $$
  insert into holdfast.heard (what, run, data) values ('adopt', p_new_run, to_jsonb(p_old_run)) $$;
"""


class Heard:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def of(self, run: Any) -> list[tuple[str, Any]]:
        async with self.database.connect_owner() as owner:
            rows = await owner.fetch(
                "select what, data #>> '{}' as data from holdfast.heard where run = $1 order by number", run
            )
        return [(row["what"], row["data"]) for row in rows]


@pytest.fixture
async def heard(database: Database, store: Store) -> AsyncIterator[Heard]:
    async with database.connect_owner() as owner:
        await owner.execute(RECORDERS)
    yield Heard(database)
    assert await store.verify() == []


async def test_a_run_opens_its_generations_and_finishes_them_when_it_ends(store: Store, heard: Heard) -> None:
    run = await Running.of(
        store, "a -> b", writes={"prices": "replace", "log": "extends"}, cutover="manual", owner="ada", by="me"
    )
    found = await run.read()
    assert [(one["dataset"], one["mode"], one["version"]) for one in found["writes"]] == [
        ("log", "extends", 7),
        ("prices", "replace", 7),
    ]
    opened = [
        ("open", '["ada", "log", true, "manual", "me"]'),
        ("open", '["ada", "prices", false, "manual", "me"]'),
    ]
    await run.done("a")
    assert await heard.of(run.id) == opened
    await run.done("b")
    assert await heard.of(run.id) == [*opened, ("finish", "done")]


async def test_a_bad_end_is_passed_on_once_with_its_outcome_and_a_retry_adopts(store: Store, heard: Heard) -> None:
    run = await Running.of(store, "a -> b", "c", writes={"prices": "replace"})
    await run.end(a=FATAL, c=Done())
    assert (await heard.of(run.id))[1:] == [("finish", "partial")]
    again = Running(store, await run.dags.retry(run.id))
    assert await heard.of(again.id) == [("adopt", str(run.id))]
    assert (await again.read())["writes"] == (await run.read())["writes"]
    await store.cancel(again.id)
    assert (await heard.of(again.id))[1:] == [("finish", "cancelled")]
    none = await Running.of(store, "a", writes={"prices": "replace"})
    await none.end(a=FATAL)
    assert (await heard.of(none.id))[1:] == [("finish", "failed")]


async def test_a_run_that_writes_nothing_asks_nobody(store: Store, heard: Heard) -> None:
    run = await Running.of(store, "a")
    await run.done("a")
    assert await heard.of(run.id) == []


async def test_a_generation_that_cannot_be_opened_leaves_no_run(store: Store, heard: Heard) -> None:
    with pytest.raises(RequestInvalid, match="Not that one"):
        await Running.of(store, "a", writes={"forbidden": "replace"})
    with pytest.raises(RequestInvalid, match="What a graph writes"):
        await Running.of(store, "a", writes={"prices": "sometimes"})
    assert (await store.list_tasks()).items == []
