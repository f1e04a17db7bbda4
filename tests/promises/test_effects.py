"""What a lifecycle writes beside the task commits with the move, or neither does."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from holdfast.errors import DeclarationInvalid
from holdfast.kernel.lifecycle import Lifecycle, after, final, owner, work
from holdfast.kernel.store import Store
from holdfast.kernel.task import Done, Failed, Submission
from holdfast.testing import Clock, Database
from tests.promises.stage import state_of, submit, take_one

PAID = Lifecycle(
    "paid", start="CART", cancel="CANCELLED", fail="FAILED", effects="paid_effects",
    states=[
        owner("CART", acts={"pay": "OPEN"}, limit=after(hours=1, to="FAILED")),
        work("OPEN", done="DONE"),
        final("DONE", "done"), final("FAILED", "failed"), final("CANCELLED", "cancelled"),
    ],
)  # fmt: skip

LEDGER = """
create table holdfast.ledger (task_id uuid, what text, data jsonb);
create function holdfast.paid_effects(moved holdfast.moved[]) returns void language plpgsql as $$
begin
  if exists (select from unnest(moved) m where m.data ->> 'price' = 'too high') then
    raise exception 'No credit.' using errcode = 'TK002', hint = 'Top up.';
  end if;
  insert into holdfast.ledger select m.task_id, coalesce(m.step, m.verb), m.data from unnest(moved) m;
end $$;
"""


@pytest.fixture
async def ledger(store: Store, database: Database) -> AsyncIterator[asyncpg.Connection]:
    async with database.connect_owner() as connection:
        await connection.execute(LEDGER)
        await store.declare(PAID)
        yield connection


async def written(ledger: asyncpg.Connection) -> list[Any]:
    return [row["what"] for row in await ledger.fetch("select what from holdfast.ledger order by what")]


async def test_every_move_and_every_step_is_told_once(store: Store, ledger: asyncpg.Connection) -> None:
    task = await submit(store, lifecycle="paid")
    await store.act(task, "pay", {"price": 3})
    lease = await take_one(store, "paid")
    for _ in range(2):
        await store.keep(lease, "agent-1", {"credits": 1})
    await store.finish(lease, Done({"output": "report"}))
    await store.finish(lease, Done({"output": "report"}))
    assert await written(ledger) == ["agent-1", "claim", "done", "pay", "submit"]
    assert await ledger.fetchval("select data from holdfast.ledger where what = 'done'") == '{"output": "report"}'


async def test_what_time_and_others_do_to_a_task_is_told_too(
    store: Store, ledger: asyncpg.Connection, clock: Clock
) -> None:
    await submit(store, lifecycle="paid")
    clock.advance(hours=1)
    await store.sweep()
    cancelled = await submit(store, lifecycle="paid")
    await store.cancel(cancelled)
    assert await written(ledger) == ["cancel", "limit", "submit", "submit"]


async def test_an_effect_that_refuses_undoes_the_move(store: Store, ledger: asyncpg.Connection) -> None:
    task = await submit(store, lifecycle="paid")
    with pytest.raises(Exception, match="No credit"):
        await store.act(task, "pay", {"price": "too high"})
    assert await state_of(store, task) == "CART"
    assert await written(ledger) == ["submit"]
    assert await store.act(task, "pay", {"price": 1}) == "OPEN"


async def test_one_task_whose_effects_refuse_does_not_hold_up_the_sweep(
    store: Store, ledger: asyncpg.Connection, clock: Clock
) -> None:
    tasks = [one.id for one in await store.submit(*(Submission(lifecycle="paid") for _ in range(5)))]
    await ledger.execute(
        "create function holdfast.refuse_one() returns trigger language plpgsql as $$ begin"
        f" if new.task_id = '{tasks[2]}' then raise exception 'never'; end if; return new; end $$;"
        "create trigger refuse_one before insert on holdfast.ledger for each row execute function holdfast.refuse_one()"
    )
    clock.advance(hours=1)
    assert (await store.sweep()).expired == 4
    assert [await state_of(store, task) for task in tasks if task] == ["FAILED", "FAILED", "CART", "FAILED", "FAILED"]


async def test_effects_that_are_not_there_cannot_be_declared(store: Store) -> None:
    with pytest.raises(DeclarationInvalid, match="paid_effects"):
        await store.declare(PAID)


async def test_a_failure_and_its_effects_are_one(store: Store, ledger: asyncpg.Connection) -> None:
    task = await submit(store, lifecycle="paid")
    await store.act(task, "pay")
    await store.finish(await take_one(store, "paid"), Failed("Fatal", "broken"))
    assert (await written(ledger))[-1] == "submit"
    assert await ledger.fetchval("select data ->> 'message' from holdfast.ledger where what = 'fail'") == "broken"
