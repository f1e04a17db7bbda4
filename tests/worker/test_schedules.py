"""Workers tick: what an application declares is started when its time has come, by whoever is there."""

import asyncio
import contextlib
from datetime import timedelta

import pytest

from holdfast.schedules import ticker
from holdfast.schedules.store import Schedules
from holdfast.schedules.ticker import tick_on
from holdfast.testing import Clock, Database
from tests.eventually import eventually
from tests.promises.test_schedules import declare
from tests.worker.crew import Crew

LAST_YEAR = "date_trunc('year', holdfast.now() at time zone 'Asia/Tokyo') at time zone 'Asia/Tokyo'"


@pytest.mark.deep
async def test_what_a_worker_declares_is_started_and_run_by_workers_once(crew: Crew, live: Database) -> None:
    schedules = Schedules.over(crew.store)
    for _ in range(2):
        crew.start(app="tests.worker.scheduled", lease_seconds=20.0)
    await eventually(lambda: found(schedules), "the schedule")
    live.ask_owner(f"update holdfast.schedule set next_at = {LAST_YEAR} returning 1")
    (run,) = await eventually(lambda: schedules.runs("new-year"), "a run", within=60)
    (ended,) = await crew.ended([run.task_id])
    assert (ended.outcome, run.kind) == ("done", "missed")
    seen = await schedules.one("new-year")
    assert (seen["live"], seen["next_at"] > seen["now"]) == (True, True)
    assert len(await schedules.runs("new-year")) == 1


async def found(schedules: Schedules) -> bool:
    return bool(await schedules.read())


async def has_complained(caplog: pytest.LogCaptureFixture) -> bool:
    return "schedules could not be looked at" in caplog.text


async def test_the_ticking_outlives_a_database_that_is_away(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ticker, "rest_at_most", timedelta(seconds=0.01))
    monkeypatch.setattr(ticker, "tick_every", timedelta(seconds=0.01))
    async with database.store() as store:
        schedules = Schedules.over(store)
        await declare(schedules)
        ticking = asyncio.create_task(tick_on(store))
        try:
            database.ask_owner("alter table holdfast.schedule rename to schedule_away")
            await eventually(lambda: has_complained(caplog), "a complaint")
            database.ask_owner("alter table holdfast.schedule_away rename to schedule")
            clock.advance(hours=2)
            (run,) = await eventually(lambda: schedules.runs("nightly"), "a run")
            assert run.kind == "due"
        finally:
            ticking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ticking
