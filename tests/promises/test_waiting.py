"""What waits for a person beside failures: it is there for as long as its reason is, and names who acts and how."""

from datetime import timedelta
from uuid import UUID

import pytest

from holdfast.approvals.store import Questions
from holdfast.attention.store import Attention, AttentionItem
from holdfast.engine.store.commands import Store
from holdfast.errors import RequestInvalid
from holdfast.schedules.store import Schedules
from holdfast.schedules.ticker import tick
from holdfast.testing import Clock, Database, Ground
from holdfast.webhooks.store import Sent, Webhooks
from tests.promises.stage import submit, take_one


@pytest.fixture
def waiting(store: Store) -> Attention:
    return Attention.over(store)


async def kept_waiting(waiting: Attention, owner: str | None = None) -> list[AttentionItem]:
    return await waiting.list_waiting(owner)


async def ask(store: Store, step: str = "publish", owner: str = "ada") -> UUID:
    """A question that nobody has answered; its task."""
    task = await submit(store, "prices", owner=owner)
    await store.ask(await take_one(store), step, "Publish them?", timedelta(days=1))
    return task


async def refuse_schedule(store: Store, clock: Clock, name: str = "nightly", owner: str = "ada") -> Schedules:
    """A schedule that starts a graph which nobody has declared."""
    schedules = Schedules.over(store)
    target = {"name": "gone", "payload": {}}
    await schedules.declare(name, cron="* * * * *", timezone="UTC", starts="dag", target=target, owner=owner)
    clock.advance(minutes=1)
    await tick(schedules)
    return schedules


async def deliver(store: Store, webhooks: Webhooks, clock: Clock, *, tries: int, status: int = 500) -> None:
    """The end of a task, refused so many times by everybody who is told of it."""
    task = await submit(store)
    await store.cancel(task)
    await webhooks.pump()
    for _ in range(tries):
        for taken in await webhooks.take(10, each=10):
            await webhooks.end(taken, Sent(status, f"It answered {status}."))
        clock.advance(hours=30)


async def test_a_question_waits_until_it_is_answered(store: Store, waiting: Attention) -> None:
    task = await ask(store)
    (one,) = await kept_waiting(waiting)
    assert (one.kind, one.task_id, one.name, one.owner, one.acts) == ("question", task, "prices", "ada", "owner")
    assert (one.why, one.since, one.until) == (
        "Publish them?", await store.now(), await store.now() + timedelta(days=1),
    )  # fmt: skip
    assert one.command == f"holdfast answer {task} --step publish --approve"
    await Questions.over(store).answer(task, "yes")
    assert await kept_waiting(waiting) == []


async def test_a_command_can_be_typed_whatever_a_step_is_called(store: Store, waiting: Attention) -> None:
    task = await ask(store, "it's $HOME")
    assert [one.command for one in await kept_waiting(waiting)] == [
        f"holdfast answer {task} --step 'it'\\''s $HOME' --approve"
    ]


async def test_a_schedule_waits_while_its_start_is_refused(store: Store, waiting: Attention, clock: Clock) -> None:
    schedules = await refuse_schedule(store, clock)
    (one,) = await kept_waiting(waiting)
    assert (one.kind, one.name, one.owner, one.acts) == ("schedule", "nightly", "ada", "operator")
    assert one.why.startswith("It is not started: There is no graph")
    assert (one.since, one.command) == (await store.now(), "holdfast cron show nightly")
    await schedules.pause("nightly", "ada")
    assert await kept_waiting(waiting) == []


async def test_a_webhook_waits_once_a_failure_is_no_accident(store: Store, waiting: Attention, clock: Clock) -> None:
    webhooks = Webhooks.over(store)
    hook, _ = await webhooks.add("https://example.org/hook", "crm")
    await deliver(store, webhooks, clock, tries=2)
    assert await kept_waiting(waiting) == []
    await deliver(store, webhooks, clock, tries=1)
    (one,) = await kept_waiting(waiting)
    assert (one.kind, one.name, one.acts) == ("webhook", "crm", "operator")
    assert one.why == "It does not take what is sent to it: It answered 500."
    assert one.command == "holdfast webhooks deliveries crm --state pending"
    await webhooks.pause(hook)
    assert await kept_waiting(waiting) == []


async def test_what_was_given_up_waits_until_it_is_sent_again(store: Store, waiting: Attention, clock: Clock) -> None:
    webhooks = Webhooks.over(store)
    hook, _ = await webhooks.add("https://example.org/hook?a=1&b=2", "https://example.org/hook?a=1&b=2")
    since = await store.now()
    await deliver(store, webhooks, clock, tries=10)
    (one,) = await kept_waiting(waiting)
    assert (one.why, one.since) == ("1 delivery was given up: It answered 500.", since)
    assert one.command == f"holdfast webhooks deliveries {hook} --state failed"
    (given_up,) = await webhooks.deliveries(hook, state="failed")
    await webhooks.redeliver(hook, given_up.id)
    assert await kept_waiting(waiting) == []


async def test_an_endpoint_that_is_gone_waits_to_be_resumed_or_removed(
    store: Store, waiting: Attention, clock: Clock
) -> None:
    webhooks = Webhooks.over(store)
    hook, _ = await webhooks.add("https://example.org/hook", "crm")
    await deliver(store, webhooks, clock, tries=1, status=410)
    (one,) = await kept_waiting(waiting)
    assert (one.why, one.command) == ("It is sent nothing more: It answered 410 Gone.", "holdfast webhooks resume crm")
    await webhooks.remove(hook)
    assert await kept_waiting(waiting) == []


async def test_each_sees_their_own_and_pages_join(store: Store, waiting: Attention, clock: Clock) -> None:
    webhooks = Webhooks.over(store)
    for owner in ("ada", "bob"):
        await ask(store, owner=owner)
        await refuse_schedule(store, clock, f"{owner}-nightly", owner)
        await webhooks.add("https://example.org/hook", f"{owner}s", owner=owner)
        await store.cancel(await submit(store, owner=owner))
    await webhooks.pump()
    for taken in await webhooks.take(10, each=10):
        await webhooks.end(taken, Sent(410))
    whole = await kept_waiting(waiting)
    assert [(one.kind, one.owner) for one in whole] == [
        (kind, owner) for kind in ("question", "schedule", "webhook") for owner in ("ada", "bob")
    ]
    assert await kept_waiting(waiting, "ada") == [one for one in whole if one.owner == "ada"]
    assert await kept_waiting(waiting, "eve") == []
    seen: list[AttentionItem] = []
    cursor = None
    while page := await waiting.list_waiting(cursor=cursor, limit=1):
        seen += page
        cursor = page[-1].id
    assert seen == whole
    for wrong in ("", "nobody", "question:x", "webhook:", "task:1"):
        with pytest.raises(RequestInvalid, match="not a place in this list"):
            await waiting.list_waiting(cursor=wrong)
    with pytest.raises(RequestInvalid):
        await waiting.list_waiting(limit=0)


async def test_what_is_stuck_is_found_by_an_index(database: Database) -> None:
    """A webhook may have sent a million deliveries; only those that are stuck are read."""
    async with database.connect_owner() as connection:
        await connection.execute("set enable_seqscan = off")
        plan = await connection.fetch(
            "explain select from holdfast.webhook_delivery d where d.webhook_id = gen_random_uuid()"
            " and (d.state = 'failed' or (d.state = 'pending' and d.tries > 2)) order by d.id limit 1000"
        )
    assert "webhook_delivery_stuck" in str(plan)


async def test_it_holds_on_every_postgres(every_ground: Ground) -> None:
    with every_ground.database() as database:
        async with database.store() as store:
            await ask(store)
            await refuse_schedule(store, database.clock)
            await Webhooks.over(store).add("https://example.org/hook", "crm")
            assert [one.kind for one in await kept_waiting(Attention.over(store))] == ["question", "schedule"]
