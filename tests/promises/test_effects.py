"""What a lifecycle writes beside the task commits with the move, or neither does."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from holdfast.engine.lifecycle.model import Lifecycle, after, blocked, final, owner, work
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Submission
from holdfast.errors import DeclarationInvalid
from holdfast.testing import Clock, Database
from tests.promises.stage import MINUTE, state_of, submit, take_one

PAID = Lifecycle(
    "paid", start="CART", cancel="CANCELLED", fail="FAILED", effects="paid_effects",
    states=[
        owner("CART", acts={"pay": "OPEN"}, limit=after(hours=1, to="FAILED")),
        work("OPEN", done="DONE"),
        final("DONE", "done"), final("FAILED", "failed"), final("CANCELLED", "cancelled"),
    ],
)  # fmt: skip

LEDGER = """
create table holdfast.told (task_id uuid, what text, data jsonb);
create function holdfast.paid_effects(moved holdfast.moved[]) returns void language plpgsql as $$
begin
  if exists (select from unnest(moved) m where m.data ->> 'price' = 'too high') then
    raise exception 'No credit.' using errcode = 'TK002', hint = 'Top up.';
  end if;
  insert into holdfast.told select m.task_id, coalesce(m.step, m.verb), m.data from unnest(moved) m;
end $$;
"""


@pytest.fixture
async def ledger(store: Store, database: Database) -> AsyncIterator[asyncpg.Connection]:
    async with database.connect_owner() as connection:
        await connection.execute(LEDGER)
        await store.declare(PAID)
        yield connection


async def written(ledger: asyncpg.Connection) -> list[Any]:
    return [row["what"] for row in await ledger.fetch("select what from holdfast.told order by what")]


async def test_every_move_and_every_step_has_its_effect_once(store: Store, ledger: asyncpg.Connection) -> None:
    task = await submit(store, lifecycle="paid")
    await store.act(task, "pay", {"price": 3})
    lease = await take_one(store, "paid")
    for _ in range(2):
        await store.keep(lease, "agent-1", {"credits": 1})
    await store.finish(lease, Done({"output": "report"}))
    await store.finish(lease, Done({"output": "report"}))
    assert await written(ledger) == ["agent-1", "claim", "done", "pay", "submit"]
    assert await ledger.fetchval("select data from holdfast.told where what = 'done'") == '{"output": "report"}'


async def test_what_time_and_others_do_to_a_task_has_effects_too(
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
    await refuse(ledger, f"new.task_id = '{tasks[2]}'")
    clock.advance(hours=1)
    assert (await store.sweep()).expired == 4
    assert [await state_of(store, task) for task in tasks if task] == ["FAILED", "FAILED", "CART", "FAILED", "FAILED"]


async def refuse(ledger: asyncpg.Connection, condition: str) -> None:
    """From now on the effects refuse what meets the condition."""
    await ledger.execute(
        "create or replace function holdfast.refuse_one() returns trigger language plpgsql as $$ begin"
        f" if {condition} then raise exception 'never'; end if; return new; end $$;"
        "create or replace trigger refuse_one before insert on holdfast.told for each row"
        " execute function holdfast.refuse_one()"
    )


async def test_tasks_whose_effects_refuse_do_not_stand_before_the_others(
    store: Store, ledger: asyncpg.Connection, clock: Clock
) -> None:
    bad = [one.id for one in await store.submit(*(Submission(lifecycle="paid") for _ in range(3)))]
    clock.advance(seconds=1)
    good = await submit(store, lifecycle="paid")
    await refuse(ledger, " or ".join(f"new.task_id = '{one}'" for one in bad))
    clock.advance(hours=1)
    assert [(await store.sweep(3)).expired for _ in range(2)] == [0, 1]
    assert await state_of(store, good) == "FAILED"
    assert {entry["error"]["kind"] for entry in await store.inbox.newest()} == {"effects_refused"}
    assert len(await store.inbox.newest()) == 3
    await refuse(ledger, "false")
    clock.advance(seconds=10)
    assert (await store.sweep()).expired == 3


async def test_effects_that_refuse_to_go_on_do_not_undo_what_was_waited_for(
    store: Store, ledger: asyncpg.Connection, clock: Clock
) -> None:
    await store.declare(replace(PAID, name="chained", start="OPEN", blocked="BLOCKED", states=[
        blocked("BLOCKED", unblock="OPEN", cancel="CANCELLED", skip="CANCELLED"),
        *(state for state in PAID.states if state.name != "CART"),
    ]))  # fmt: skip
    first = await submit(store)
    waiting = await submit(store, lifecycle="chained", after=[first])
    await refuse(ledger, "new.what = 'unblock'")
    await store.finish(await take_one(store), Done())
    assert await state_of(store, first) == "Completed"
    why = await store.explain(waiting)
    assert (why.state, "never" in why.sentence) == ("BLOCKED", True)
    await refuse(ledger, "false")
    clock.advance(seconds=10)
    await store.sweep()
    assert await state_of(store, waiting) == "OPEN"


async def test_a_task_whose_effects_refuse_the_claim_does_not_stop_its_queue(
    store: Store, ledger: asyncpg.Connection, clock: Clock
) -> None:
    tasks = [await submit(store, lifecycle="paid") for _ in range(3)]
    for task in tasks:
        await store.act(task, "pay")
    await refuse(ledger, f"new.task_id = '{tasks[0]}'")
    leases = await store.claim(["paid"], 3, lasting=MINUTE, worker="w")
    assert {lease.task_id for lease in leases} == set(tasks[1:])
    assert "never" in (await store.explain(tasks[0])).sentence
    assert await store.claim(["paid"], 3, lasting=MINUTE, worker="w") == []
    await refuse(ledger, "false")
    clock.advance(seconds=10)
    assert (await take_one(store, "paid")).task_id == tasks[0]
    assert (await store.explain(tasks[0])).reason == "leased"


async def test_a_task_whose_effects_refuse_its_place_leaves_it_to_the_next(
    store: Store, ledger: asyncpg.Connection
) -> None:
    await store.declare(replace(PAID, name="limited", queue="limited", start="OPEN", states=PAID.states[1:]))
    await refuse(ledger, "new.what = 'admit' and new.task_id = (select min(task_id::text)::uuid from holdfast.told)")
    await store.submit(*(Submission(lifecycle="limited", limit_key="k", limit_to=5) for _ in range(5)))
    assert len(await store.claim(["limited"], 9, lasting=MINUTE, worker="w")) == 4
    assert len(await store.inbox.newest()) == 1


async def test_a_child_whose_effects_refuse_to_end_with_its_parent_ends_later(
    store: Store, ledger: asyncpg.Connection, clock: Clock
) -> None:
    parent = await submit(store)
    child = await submit(store, lifecycle="paid", parent=parent)
    await refuse(ledger, "new.what = 'cancel'")
    assert await store.cancel(parent) == "cancelled"
    assert await state_of(store, child) == "CART"
    await refuse(ledger, "false")
    clock.advance(seconds=10)
    await store.sweep()
    assert await state_of(store, child) == "CANCELLED"


async def test_in_a_batch_only_the_one_that_is_refused_is_refused(store: Store, ledger: asyncpg.Connection) -> None:
    tasks = [await submit(store, lifecycle="paid") for _ in range(3)]
    for task in tasks:
        await store.act(task, "pay")
    leases = await store.claim(["paid"], 3, lasting=MINUTE, worker="w")
    prices = [1, "too high", 3]
    answers = await store.settle(
        *((lease, Done({"price": price})) for lease, price in zip(leases, prices, strict=True))
    )
    assert sorted(answer.status for answer in answers) == ["ok", "ok", "refused"]
    assert sorted([await state_of(store, lease.task_id) for lease in leases]) == ["DONE", "DONE", "OPEN"]
    await store.finish(leases[1], Done({"price": 2}))


async def test_effects_that_are_not_there_cannot_be_declared(store: Store) -> None:
    with pytest.raises(DeclarationInvalid, match="paid_effects"):
        await store.declare(PAID)


async def test_in_a_list_the_one_that_is_refused_undoes_nothing_of_other_lifecycles(
    store: Store, ledger: asyncpg.Connection
) -> None:
    task = await submit(store, lifecycle="paid")
    await store.act(task, "pay", {"price": 1})
    plain = await submit(store)
    leases = [await take_one(store, "paid"), await take_one(store)]
    answers = await store.settle((leases[0], Done({"price": "too high"})), (leases[1], Done({})))
    assert {one.task_id: one.status for one in answers} == {task: "refused", plain: "ok"}
    assert await state_of(store, plain) == "Completed"


async def test_a_failure_and_its_effects_are_one(store: Store, ledger: asyncpg.Connection) -> None:
    task = await submit(store, lifecycle="paid")
    await store.act(task, "pay")
    await store.finish(await take_one(store, "paid"), Failed("Fatal", "broken"))
    assert (await written(ledger))[-1] == "submit"
    assert await ledger.fetchval("select data ->> 'message' from holdfast.told where what = 'fail'") == "broken"
