"""Schedules: one run for each due time, whoever ticks, however many, and whatever happens in between."""

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from holdfast.engine.store.commands import Store
from holdfast.errors import MoveRefused, RequestInvalid, ScheduleUnknown
from holdfast.schedules.store import Schedules
from holdfast.schedules.ticker import tick
from holdfast.testing import Clock, Database, Ground
from tests.promises.stage import meet

START = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def schedules(store: Store) -> Schedules:
    return Schedules.over(store)


async def declare(schedules: Schedules, name: str = "nightly", cron: str = "0 2 * * *", **other: Any) -> str:
    target = {"name": "work", "lifecycle": "dispatch", "payload": {"n": 1}} | other.pop("target", {})
    given = {"timezone": "UTC", "starts": "task", "target": target} | other
    return await schedules.declare(name, cron=cron, **given)


async def made(store: Store, name: str = "nightly") -> list[dict[str, Any]]:
    """The tasks that a schedule has started, oldest first."""
    page = await store.list_tasks(tag=f"cron:{name}", limit=1000)
    return [await store.read(one["id"]) for one in reversed(page.items)]


async def times(schedules: Schedules, name: str = "nightly") -> list[str]:
    return [f"{run.due_at:%d %H:%M} {run.kind}" for run in reversed(await schedules.runs(name, 1000))]


async def test_a_due_time_starts_its_task_once(store: Store, schedules: Schedules, clock: Clock) -> None:
    await declare(
        schedules, at="at", owner="ada", target={"queue": "default", "priority": 7, "max_attempts": 2, "tags": ["t"]}
    )
    clock.advance(hours=1, minutes=59)
    assert await tick(schedules) == 0
    clock.advance(minutes=1)
    assert [await tick(schedules), await tick(schedules)] == [1, 0]
    (task,) = await made(store)
    assert (task["name"], task["payload"], task["tags"]) == (
        "work", {"n": 1, "at": "2030-01-01T02:00:00+00:00"}, ["t", "cron:nightly"],
    )  # fmt: skip
    assert (task["owner"], task["priority"], task["max_attempts"], task["queue"]) == ("ada", 7, 2, "default")
    now = await schedules.one("nightly")
    assert (now["last_task"], now["last_at"], now["next_at"]) == (
        task["id"], "2030-01-01T02:00:00+00:00", "2030-01-02T02:00:00+00:00",
    )  # fmt: skip
    clock.advance(days=1)
    assert await tick(schedules) == 1
    assert await times(schedules) == ["01 02:00 due", "02 02:00 due"]
    assert await store.verify() == []


async def test_a_task_gets_the_time_as_its_clocks_show_it(store: Store, schedules: Schedules, clock: Clock) -> None:
    await declare(schedules, cron="0 0 * * *", timezone="Europe/Berlin", at="day")
    clock.advance(hours=23)
    await tick(schedules)
    assert [one["payload"]["day"] for one in await made(store)] == ["2030-01-02T00:00:00+01:00"]


@pytest.mark.parametrize("policy", ["latest", "all"])
async def test_twenty_that_tick_at_once_make_one_run(database: Database, clock: Clock, policy: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(database.connect()) for _ in range(20)]
        tickers = [Schedules(one) for one in connections]
        names = [f"s{number}" for number in range(3)]
        for name in names:
            await declare(tickers[0], name, "* * * * *", missed=policy)
        started = 0
        for _ in range(3):
            clock.advance(minutes=1 if policy == "latest" else 3)
            started += sum(await asyncio.gather(*map(tick, tickers)))
            started += await tick(tickers[0])
        expected = 3 if policy == "latest" else 9
        assert started == 3 * expected
        store = Store(connections[0])
        for name in names:
            assert len(await made(store, name)) == expected
            assert len(set(await times(tickers[0], name))) == expected


async def test_one_who_is_at_it_is_not_waited_for(database: Database, schedules: Schedules, clock: Clock) -> None:
    await declare(schedules)
    clock.advance(hours=2)
    async with database.connect() as one:
        transaction = one.transaction()
        await transaction.start()
        assert await tick(Schedules(one)) == 1
        (due,) = await schedules.due()
        assert (await schedules.fire(due)).status == "passed"
        await transaction.commit()
    assert (await schedules.fire(due)).status == "passed"
    assert await times(schedules) == ["01 02:00 due"]


async def test_who_dies_between_the_start_and_the_next_time_leaves_neither(
    database: Database, store: Store, schedules: Schedules, clock: Clock
) -> None:
    await declare(schedules)
    clock.advance(hours=2)
    async with database.connect() as doomed, database.connect_owner() as owner:
        await doomed.execute("begin")
        assert await tick(Schedules(doomed)) == 1
        pid = doomed.get_server_pid()
        await owner.execute("select pg_terminate_backend($1)", pid)
        while await owner.fetchval("select exists (select from pg_stat_activity where pid = $1)", pid):
            pass
    assert (await made(store), await times(schedules)) == ([], [])
    assert (await schedules.one("nightly"))["next_at"] == "2030-01-01T02:00:00+00:00"
    assert await tick(schedules) == 1
    assert len(await made(store)) == 1


async def test_one_run_for_a_due_time_is_kept_by_an_index(
    database: Database, schedules: Schedules, clock: Clock
) -> None:
    await declare(schedules)
    clock.advance(hours=2)
    await tick(schedules)
    async with database.connect_owner() as owner:
        with pytest.raises(asyncpg.UniqueViolationError):
            await owner.execute(
                "insert into holdfast.schedule_run (name, due_at, kind, task_id)"
                " select name, due_at, 'backfill', gen_random_uuid() from holdfast.schedule_run"
            )


@pytest.mark.parametrize(
    ("policy", "ran"),
    [
        ("latest", ["03 02:00 missed"]),
        ("all", ["01 02:00 missed", "02 02:00 missed", "03 02:00 missed"]),
        ("skip", []),
    ],
)
async def test_what_nobody_was_there_for_follows_its_policy(
    schedules: Schedules, clock: Clock, policy: str, ran: list[str]
) -> None:
    await declare(schedules, missed=policy)
    clock.advance(days=2, hours=12)
    await tick(schedules)
    assert await times(schedules) == ran
    clock.advance(hours=14)
    await tick(schedules)
    assert await times(schedules) == [*ran, "04 02:00 due"]


async def test_skip_still_runs_what_is_less_than_a_minute_late(schedules: Schedules, clock: Clock) -> None:
    await declare(schedules, missed="skip")
    clock.advance(hours=2, seconds=59)
    assert await tick(schedules) == 1


async def test_catching_up_on_all_is_bounded_and_done_in_pages(schedules: Schedules, clock: Clock) -> None:
    await declare(schedules, cron="* * * * *", missed="all")
    clock.advance(days=2)
    assert await tick(schedules) == 1000
    found = await schedules.runs("nightly", 1000)
    assert (found[0].due_at, found[-1].due_at) == (clock.now(), clock.now() - timedelta(minutes=999))
    assert (await schedules.one("nightly"))["next_at"] == "2030-01-03T00:01:00+00:00"


async def test_a_paused_schedule_rests_and_resuming_does_not_catch_up(schedules: Schedules, clock: Clock) -> None:
    await declare(schedules, missed="all")
    await schedules.pause("nightly", "ada")
    await schedules.pause("nightly", "bob")
    clock.advance(days=3)
    assert await tick(schedules) == 0
    assert (await schedules.one("nightly"))["paused_by"] == "ada"
    await schedules.resume("nightly")
    assert await tick(schedules) == 0
    clock.advance(hours=2)
    assert await tick(schedules) == 1
    assert await times(schedules) == ["04 02:00 due"]
    filled = await schedules.backfill("nightly", START, clock.now())
    assert len(filled.items) == 3


async def test_who_pauses_while_another_ticks_is_obeyed(database: Database, schedules: Schedules, clock: Clock) -> None:
    await declare(schedules)
    clock.advance(hours=2)
    (due,) = await schedules.due()
    await schedules.pause("nightly")
    assert (await schedules.fire(due)).status == "passed"
    assert await times(schedules) == []
    await schedules.resume("nightly")
    clock.advance(days=1)

    async def fires(one: asyncpg.Connection) -> None:
        assert await tick(Schedules(one)) == 1

    await meet(database, fires, lambda other: Schedules(other).pause("nightly"))
    assert await times(schedules) == ["02 02:00 due"]


async def test_a_deploy_that_changes_nothing_runs_nothing_twice(schedules: Schedules, clock: Clock) -> None:
    assert await declare(schedules) == "new"
    clock.advance(hours=2)
    assert await declare(schedules) == "same"  # at the very due time, before anybody has ticked
    assert await tick(schedules) == 1
    assert await declare(schedules) == "same"
    assert await tick(schedules) == 0
    before = await schedules.one("nightly")
    clock.advance(seconds=1)
    assert await declare(schedules) == "same"
    after = await schedules.one("nightly")
    assert {name: value for name, value in after.items() if name != "now"} == {
        name: value for name, value in before.items() if name != "now"
    }


async def test_another_payload_neither_loses_nor_doubles_a_run(
    store: Store, schedules: Schedules, clock: Clock
) -> None:
    await declare(schedules)
    clock.advance(hours=2, minutes=5)  # down while it fell due, and back with other code
    assert await declare(schedules, target={"payload": {"n": 2}}) == "changed"
    assert await tick(schedules) == 1
    assert [one["payload"] for one in await made(store)] == [{"n": 2}]
    assert await declare(schedules, target={"payload": {"n": 3}}) == "changed"
    assert await tick(schedules) == 0


async def test_other_times_count_from_now_on(schedules: Schedules, clock: Clock) -> None:
    await declare(schedules)
    clock.advance(hours=1)
    await declare(schedules, cron="30 1 * * *")
    assert (await schedules.one("nightly"))["next_at"] == "2030-01-01T01:30:00+00:00"
    await declare(schedules, cron="30 1 1 * *")  # the same next time, another one after it
    clock.advance(minutes=30)
    (due,) = await schedules.due()
    await declare(schedules, cron="30 1 1 * *", target={"payload": {"n": 2}})
    assert (await schedules.fire(due)).status == "passed"  # what it had seen is no more
    assert await tick(schedules) == 1
    assert (await schedules.one("nightly"))["next_at"] == "2030-02-01T01:30:00+00:00"
    clock.advance(minutes=-10)
    await declare(schedules, cron="30 1 * * *")
    clock.advance(minutes=10)
    assert await tick(schedules) == 0  # that time had its run
    assert await times(schedules) == ["01 01:30 due"]


async def test_a_clock_that_goes_back_and_forth_runs_nothing_twice_and_stops_nothing(
    schedules: Schedules, clock: Clock
) -> None:
    await declare(schedules, cron="0 * * * *")
    clock.advance(hours=3)
    assert await tick(schedules) == 1
    clock.advance(hours=-2)  # 01:00, and 03:00 has had its run
    assert await tick(schedules) == 0
    assert (await schedules.one("nightly"))["next_at"] == "2030-01-01T02:00:00+00:00"
    clock.advance(hours=1)
    assert await tick(schedules) == 1
    clock.advance(hours=1)
    assert await tick(schedules) == 0
    clock.advance(hours=1)
    assert await tick(schedules) == 1
    assert await times(schedules) == ["01 02:00 due", "01 03:00 due", "01 04:00 due"]
    clock.set(datetime(2040, 1, 1, tzinfo=UTC))
    assert await tick(schedules) == 1
    clock.set(START + timedelta(hours=5))
    assert await tick(schedules) == 0
    clock.advance(hours=1)
    assert await tick(schedules) == 1


async def test_a_refused_target_is_reported_tried_again_and_holds_up_no_other(
    store: Store, schedules: Schedules, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await declare(schedules, "a-bad-one", target={"queue": "gone"})
    await declare(schedules, "b-bad-one", target={"lifecycle": "unknown"})
    await declare(schedules, "c-bad-one", starts="dag", target={"name": "no such graph"})
    await declare(schedules, "good")
    clock.advance(hours=2)
    assert await tick(schedules) == 1
    assert "refused" in caplog.text
    for name, message in (("a-bad-one", "'gone'"), ("b-bad-one", "'unknown'"), ("c-bad-one", "")):
        now = await schedules.one(name)
        assert message in now["error"]
        assert (now["next_at"], now["error_at"]) == ("2030-01-01T02:00:00+00:00", "2030-01-01T02:00:00+00:00")
    assert await schedules.due() == []  # not at once
    assert (await schedules.rest() or timedelta()) <= timedelta(seconds=1)
    clock.advance(seconds=1)
    assert {one.name for one in await schedules.due()} == {"a-bad-one", "b-bad-one", "c-bad-one"}
    await tick(schedules)
    await store.make_queue("gone")
    clock.advance(seconds=2)
    assert await tick(schedules) == 1
    mended = await schedules.one("a-bad-one")
    assert (mended["error"], mended["next_at"]) == (None, "2030-01-02T02:00:00+00:00")
    assert len(await made(store, "a-bad-one")) == 1


async def test_a_page_with_a_refusal_starts_none_of_it(database: Database, schedules: Schedules, clock: Clock) -> None:
    await declare(schedules, missed="all", cron="0 * * * *")
    async with database.connect_owner() as owner:  # the third key is taken by something else
        await owner.execute("select holdfast.submit('other', key => 'cron:nightly:2030-01-01T03:00:00Z')")
    clock.advance(hours=4)
    assert await tick(schedules) == 0
    assert await times(schedules) == []
    assert "another task" in (await schedules.one("nightly"))["error"]


async def test_a_backfill_runs_what_has_no_run_yet_oldest_first_and_once(
    store: Store, schedules: Schedules, clock: Clock
) -> None:
    await declare(schedules, at="at")
    clock.advance(days=1, hours=2)
    await tick(schedules)  # the second of January; the first was missed
    clock.advance(days=3)
    await schedules.pause("nightly")
    dry = await schedules.backfill("nightly", START, clock.now() + timedelta(days=9), dry_run=True)
    assert ([one.due_at.day for one in dry.items], {one.task_id for one in dry.items}) == ([1, 3, 4, 5], {None})
    assert await times(schedules) == ["02 02:00 due"]
    first = await schedules.backfill("nightly", START, clock.now(), by="ada", limit=2)
    assert ([one.due_at.day for one in first.items], first.next) == ([1], START + timedelta(days=2, hours=2))
    clock.advance(seconds=1)
    rest = await schedules.backfill("nightly", first.next or START, clock.now(), by="ada")
    assert ([one.due_at.day for one in rest.items], rest.next) == ([3, 4, 5], None)
    assert (await schedules.backfill("nightly", START, clock.now())).items == []
    assert {run.by for run in await schedules.runs("nightly") if run.kind == "backfill"} == {"ada"}
    order = [one["payload"]["at"][:10] for one in await made(store)][1:]
    assert order == ["2030-01-01", "2030-01-03", "2030-01-04", "2030-01-05"]
    assert (await schedules.one("nightly"))["next_at"] == "2030-01-03T02:00:00+00:00"


async def test_two_who_backfill_at_once_make_one_run_each(
    database: Database, schedules: Schedules, clock: Clock
) -> None:
    await declare(schedules, cron="0 * * * *")
    clock.advance(days=1)
    async with database.connect() as one, database.connect() as other:
        both = await asyncio.gather(*(Schedules(each).backfill("nightly", START, clock.now()) for each in (one, other)))
    assert sorted(len(filled.items) for filled in both) == [0, 25]
    assert await tick(schedules) == 0  # the newest of them had been due


async def test_a_run_now_leaves_the_next_time_as_it_is(store: Store, schedules: Schedules, clock: Clock) -> None:
    await declare(schedules, at="at")
    await schedules.pause("nightly")
    tasks = [await schedules.run_now("nightly", "ada") for _ in range(2)]
    assert len(set(tasks)) == 2
    assert [one["id"] for one in await made(store)] == sorted(map(str, tasks))
    assert await times(schedules) == ["01 00:00 now"] * 2
    assert (await schedules.one("nightly"))["next_at"] == "2030-01-01T02:00:00+00:00"
    await declare(schedules, target={"queue": "gone"})
    with pytest.raises(RequestInvalid):
        await schedules.run_now("nightly")


async def test_what_was_removed_and_comes_back_does_not_run_again_for_a_time_it_ran(
    schedules: Schedules, clock: Clock
) -> None:
    await declare(schedules)
    clock.advance(hours=2)
    await tick(schedules)
    await schedules.remove("nightly")
    assert await tick(schedules) == 0
    await declare(schedules, target={"payload": {"n": 2}})
    assert (await schedules.backfill("nightly", START, clock.now())).items == []


async def test_a_schedule_that_no_application_declares_is_marked(schedules: Schedules, clock: Clock) -> None:
    await declare(schedules)
    await declare(schedules, "orphan")
    clock.advance(seconds=31)
    await schedules.see(["nightly"])
    assert {one["name"]: one["live"] for one in await schedules.read()} == {"nightly": True, "orphan": False}


async def test_of_what_is_not_there_the_error_tells_what_is(schedules: Schedules, clock: Clock) -> None:
    await declare(schedules)
    for verb in (schedules.pause, schedules.resume, schedules.remove, schedules.run_now, schedules.one):
        with pytest.raises(ScheduleUnknown):
            await verb("nigthly")
    with pytest.raises(ScheduleUnknown):
        await schedules.backfill("nigthly", START, START)
    with pytest.raises(RequestInvalid):
        await schedules.backfill("nightly", START, START - timedelta(days=1))
    with pytest.raises(RequestInvalid):
        await declare(schedules, "no name")
    with pytest.raises(RequestInvalid):
        await declare(schedules, missed="never")


async def test_nothing_is_started_ahead_of_its_time(database: Database, schedules: Schedules) -> None:
    await declare(schedules)
    seen = await schedules.one("nightly")
    ahead = START + timedelta(hours=2)
    async with database.connect() as one:
        with pytest.raises(asyncpg.PostgresError, match="due"):
            await one.fetch(
                "select * from holdfast.backfill_schedule('nightly', $1, $2, $3)",
                bytes.fromhex(seen["definition"]), [ahead], ["then"],
            )  # fmt: skip
    assert await schedules.runs("nightly") == []


async def test_a_backfill_of_what_was_just_declared_again_is_refused(database: Database, schedules: Schedules) -> None:
    await declare(schedules)
    async with database.connect() as one:
        with pytest.raises(asyncpg.PostgresError, match="declared again") as refused:
            await one.fetch("select * from holdfast.backfill_schedule('nightly', 'x', '{}', '{}')")
    assert refused.value.sqlstate == MoveRefused.sqlstate


async def test_it_holds_on_every_postgres(every_ground: Ground) -> None:
    with every_ground.database() as database:
        async with database.store() as store:
            schedules = Schedules.over(store)
            await declare(schedules, at="at", missed="all")
            database.clock.advance(days=2)
            assert await tick(schedules) == 2
            assert await schedules.rest() == timedelta(hours=2)
            task: UUID = await schedules.run_now("nightly")
            assert (await store.read(task))["payload"]["at"] == "2030-01-03T00:00:00+00:00"
