"""Lists show what is there, the newest first, page by page, and never more than they promise."""

from datetime import timedelta
from uuid import UUID

import pytest

from holdfast.durations import parse_duration
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Later, Submission
from holdfast.errors import RequestInvalid, TaskNotFound
from holdfast.testing import Clock
from tests.promises.stage import declare_polled, submit, take, take_one


async def listed(store: Store, **filters: object) -> list[UUID]:
    page = await store.list_tasks(**filters)  # type: ignore[arg-type]
    return [UUID(item["id"]) for item in page.items]


async def test_pages_hold_every_task_once_newest_first(store: Store) -> None:
    made = [made.id for made in await store.submit(*(Submission("work") for _ in range(25)))]
    await store.settle(*((lease, Done()) for lease in await take(store, n=10)))
    seen: list[UUID] = []
    cursor = None
    for _ in range(4):
        page = await store.list_tasks(cursor=cursor, limit=7)
        assert (page.approx_count, page.capped) == (25, False)
        seen += [UUID(item["id"]) for item in page.items]
        cursor = page.next
    assert cursor is None
    assert seen == sorted((task for task in made if task), reverse=True)


async def test_every_filter_finds_what_it_names_and_nothing_else(store: Store, clock: Clock) -> None:
    await store.make_queue("mail")
    mail = await submit(store, "post", queue="mail", owner="ada")
    await store.finish(await take_one(store, "mail"), Failed("Fatal", "no such street", code="street"))
    clock.advance(seconds=1)
    running = await submit(store, owner="ada")
    await take_one(store)
    clock.advance(seconds=1)
    pipeline = await submit(store, None, lifecycle="pipeline")
    clock.advance(seconds=1)
    waiting = await submit(store, after=[running])
    assert await listed(store) == [waiting, pipeline, running, mail]
    assert await listed(store, live=True) == [waiting, pipeline, running]
    assert await listed(store, live=False) == [mail]
    assert await listed(store, owner="ada") == [running, mail]
    assert await listed(store, owner="ada", outcome="failed") == [mail]
    assert await listed(store, owner="") == [waiting, pipeline]
    assert await listed(store, lifecycle="pipeline") == [pipeline]
    assert await listed(store, lifecycle="dispatch") == [waiting, running, mail]
    assert await listed(store, state="Dead") == [mail]
    assert await listed(store, state="Running") == [running]
    assert await listed(store, actor="tasks") == [waiting]
    assert await listed(store, actor="nobody") == [mail]
    assert await listed(store, outcome="failed") == [mail]
    assert await listed(store, queue="mail") == [mail]
    assert await listed(store, name="post") == [mail]
    assert await listed(store, outcome="failed", name="work") == []
    assert await listed(store, lifecycle="none'; drop table holdfast.task; --") == []
    (item,) = (await store.list_tasks(name="post")).items
    assert item["message"] == "no such street"
    assert not {"lease_token", "token", "payload", "result"} & item.keys()


async def test_a_filter_that_fits_few_goes_on_from_next(store: Store, clock: Clock) -> None:
    rare = await submit(store, "rare")
    clock.advance(seconds=1)
    for _ in range(3):
        await store.submit(*(Submission("work") for _ in range(4000)))
    first = await store.list_tasks(name="rare")
    assert (first.items, first.capped) == ([], True)
    assert first.next is not None
    second = await store.list_tasks(name="rare", cursor=first.next)
    assert [item["id"] for item in second.items] == [str(rare)]
    assert second.next is None
    everything = await store.list_tasks(limit=1)
    assert (everything.approx_count, everything.capped) == (10000, True)


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_a_page_has_a_size(store: Store, limit: int) -> None:
    with pytest.raises(RequestInvalid):
        await store.list_tasks(limit=limit)


async def test_ids_are_found_by_how_they_begin(store: Store) -> None:
    one, two = await submit(store), await submit(store)
    await store.finish((await take(store))[0], Done())
    both = sorted([one, two])
    assert await store.find_ids(str(one)[:8]) == both
    assert await store.find_ids(str(one)) == [one]
    assert await store.find_ids(str(two).upper().replace("-", "")) == [two]
    assert await store.find_ids(str(one)[:8], limit=1) == both[:1]
    assert await store.find_ids("ffff") == []
    for nonsense in ("", "-", "xyz", "0" * 33, "'; --"):
        with pytest.raises(RequestInvalid):
            await store.find_ids(nonsense)


async def test_attempts_say_who_held_it_and_how_that_ended(store: Store, clock: Clock) -> None:
    task = await submit(store, max_attempts=5)
    await store.finish(await take_one(store, worker="a"), Failed("Transient", "once"))
    clock.advance(hours=1)
    await store.sweep()
    await store.finish(await take_one(store, worker="b"), Later(timedelta(0)))
    await take_one(store, worker="c")
    clock.advance(hours=1)
    await store.sweep()
    last = await take_one(store, worker="d")
    assert [(one.attempt, one.worker_id, one.ended) for one in await store.attempts(task)] == [
        (1, "a", "failed"), (2, "b", "later"), (2, "c", "lost"), (3, "d", None),
    ]  # fmt: skip
    await store.finish(last, Done())
    history = await store.attempts(task)
    assert (history[-1].ended, history[-1].to_state, history[0].error["message"]) == ("done", "Completed", "once")
    assert await store.attempts(UUID(int=0)) == []


async def test_a_checkpoint_that_moves_a_task_does_not_end_the_lease(store: Store) -> None:
    await declare_polled(store)
    task = await submit(store, None, lifecycle="polled")
    lease = await take_one(store, "polled")
    await store.keep(lease, to="IN_PROGRESS")
    (held,) = await store.attempts(task)
    assert (held.worker_id, held.ended) == ("worker", None)
    await store.finish(lease, Done())
    (held,) = await store.attempts(task)
    assert (held.ended, held.to_state) == ("done", "COMPLETED")


async def test_a_task_knows_what_it_is_tied_to(store: Store) -> None:
    first = await submit(store, "first")
    second = await submit(store, "second", after=[first])
    await store.cancel(first)
    again = await store.retry(first)

    async def links(task: UUID) -> list[tuple[str, UUID]]:
        return [(link.relation, link.id) for link in await store.tree(task)]

    assert await links(first) == [("awaited_by", second), ("retried_as", again)]
    assert await links(second) == [("waits_for", first)]
    assert await links(again) == [("retry_of", first)]
    (link,) = await store.tree(second)
    assert (link.name, link.state, link.outcome, link.policy) == ("first", "Canceled", "cancelled", "cancel")


async def test_counts_say_how_many_are_where(store: Store) -> None:
    await store.submit(*(Submission("work") for _ in range(5)))
    await store.finish(await take_one(store), Done())
    counts = {(one.lifecycle, one.state): one.number for one in await store.stats()}
    assert (counts["dispatch", "Queued"], counts["dispatch", "Completed"], counts["dispatch", "Dead"]) == (4, 1, 0)
    assert not any(one.capped for one in await store.stats())


async def test_queues_and_workers_are_listed(store: Store) -> None:
    await submit(store)
    await store.hello("w1", label="one", queues=["default"], names=None, slots=3)
    (worker,) = await store.workers()
    assert (worker.id, worker.slots, worker.live) == ("w1", 3, True)
    assert {queue.name: queue.ready for queue in await store.queues()}["default"] == 1


async def test_the_owner_of_a_task_is_known(store: Store) -> None:
    assert await store.owner_of(await submit(store, owner="ada")) == "ada"
    with pytest.raises(TaskNotFound):
        await store.owner_of(UUID(int=0))


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("5m", 300), ("1h30m", 5400), ("26h", 93600), ("2d", 172800), ("1.5s", 1.5), ("250ms", 0.25), ("90", 90), (0, 0),
     (2.5, 2.5), (timedelta(minutes=1), 60), (" 5M ", 300), ("1w", 604800)],
)  # fmt: skip
def test_a_duration_is_read_as_it_is_meant(written: str | float | timedelta, seconds: float) -> None:
    assert parse_duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "written",
    ["", "m", "5 minutes", "-5m", "5x", "1e9", "NaN", -1, float("nan"), float("inf"), 1e300, True, None, timedelta(-1),
     "9" * 12 + "w", "5m" * 60, "\u0665m"],
)  # fmt: skip
def test_what_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(RequestInvalid):
        parse_duration(written)  # type: ignore[arg-type]
