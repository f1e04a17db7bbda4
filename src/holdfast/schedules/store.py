"""Schedules: what is started at which times. The functions of schedules.sql and fire.sql, as Python.

Here times are computed; whether one is run, and that it is run once, is decided under the lock of the schedule's row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls, require_one
from holdfast.errors import MoveRefused, RequestInvalid, ScheduleUnknown
from holdfast.schedules.times import Times

Missed = Literal["latest", "all", "skip"]

runs_at_once = 100
backfilled_at_most = 1000
resumed_at_most = 5


@dataclass(frozen=True)
class Due:
    """A schedule that has something to do, as it was seen."""

    name: str
    cron: str
    timezone: str
    missed: str
    definition: bytes
    next_at: datetime | None
    now: datetime


@dataclass(frozen=True)
class Fired:
    """What became of it: `fired`, `passed` to another who was first, or `refused` and why."""

    status: Literal["fired", "passed", "refused"]
    started: int
    problem: str | None


@dataclass(frozen=True)
class Run:
    """A run: for which time, and the task that it is."""

    due_at: datetime
    kind: Literal["due", "missed", "backfill", "now"]
    task_id: UUID
    by: str
    at: datetime


@dataclass(frozen=True)
class FilledRun:
    """A run for a due time that had none."""

    due_at: datetime
    task_id: UUID | None
    """None in a dry run."""


@dataclass(frozen=True)
class Filled:
    """The runs that a backfill has started, or would in a dry run. More of the range begins at `next`."""

    dry_run: bool
    items: Sequence[FilledRun]
    next: datetime | None


class Schedules(Calls):
    """The schedules of all applications."""

    # For applications

    async def declare(
        self,
        name: str,
        *,
        cron: str,
        timezone: str,
        starts: str,
        target: Mapping[str, Any],
        missed: str = "latest",
        at: str | None = None,
        owner: str = "",
        own_queue: str | None = None,
    ) -> str:
        """Say what a schedule is: `new`, `changed` or the `same`. `own_queue` is made. Raises RequestInvalid."""
        if own_queue:
            await self._call("make_queue", own_queue)
        next_at = Times(cron, timezone).next(await self.now())
        given = (cron, timezone, starts, encode.dump(dict(target)), encode.text(at), missed, owner, next_at)
        return str(await self._call("declare_schedule", encode.text(name), *given))

    async def see(self, names: Sequence[str]) -> None:
        """Say that an application is there that declares these."""
        await self._call("see_schedules", list(names))

    # For the clock

    async def due(self, n: int = 100) -> list[Due]:
        """Those that have something to do."""
        return await self._records(Due, "due_schedules", n)

    async def rest(self) -> timedelta | None:
        """How long until one of them is due; None if none will be."""
        answer: timedelta | None = await self._call("schedules_rest")
        return answer

    async def fire(self, due: Due) -> Fired:
        """Start what is owed of it, and move on to its next time. Raises RequestInvalid for what is not a schedule."""
        times = Times(due.cron, due.timezone)
        owed = times.owed_times(due.next_at, due.now, due.missed) if due.next_at else []
        page = owed[:runs_at_once]
        next_at = times.next(page[-1] if len(owed) > len(page) else due.now)
        given = (due.name, due.definition, due.next_at, page, [times.format_due(one) for one in page], next_at)
        return await self._record(Fired, "fire", *given)

    # For operators

    async def read(self, *, after: str | None = None, limit: int = 50) -> list[dict[str, Any]]:
        """Schedules, by name."""
        return await self._documents("read_schedules", None, encode.text(after), limit)

    async def find(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Those of these that there are."""
        query = "select s.* from unnest($1::text[]) n(name) cross join lateral holdfast.read_schedules(n.name) s"
        return [encode.load(row[0]) for row in await self._rows(query, list(names))]

    async def one(self, name: str) -> dict[str, Any]:
        """One of them. Raises ScheduleUnknown."""
        missing = ScheduleUnknown(f"There is no schedule {name!r}.", fix="List them: holdfast cron ls")
        return require_one(await self._documents("read_schedules", encode.text(name)), missing)

    async def runs(self, name: str, limit: int = 20) -> list[Run]:
        """Its newest runs."""
        return await self._records(Run, "schedule_runs", encode.text(name), limit)

    async def pause(self, name: str, by: str = "") -> None:
        """Let the clock start nothing of it. Raises ScheduleUnknown."""
        await self._call("pause_schedule", encode.text(name), encode.text(by))

    async def resume(self, name: str) -> None:
        """Let the clock start it again; what fell due meanwhile is not run. Raises ScheduleUnknown."""
        for _ in range(resumed_at_most):
            seen = await self.one(name)
            next_at = times_of(seen).next(datetime.fromisoformat(seen["now"]))
            if await self._call("resume_schedule", encode.text(name), bytes.fromhex(seen["definition"]), next_at):
                return
        raise MoveRefused(
            f"{name} is declared again and again.", fix="Stop the application that declares it, and ask again."
        )

    async def run_now(self, name: str, by: str = "") -> UUID:
        """One run at once; its next time stays. Raises ScheduleUnknown, or why its target is refused."""
        seen = await self.one(name)
        now = times_of(seen).format_due(datetime.fromisoformat(seen["now"]))
        made: UUID = await self._call("run_schedule", encode.text(name), now, encode.text(by), repeatable=False)
        return made

    async def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        by: str = "",
        dry_run: bool = False,
        limit: int = backfilled_at_most,
    ) -> Filled:
        """A run for each due time from `start` to `end` that has none, the oldest first; up to now.

        Looks at `limit` due times; the answer says where to go on. Raises ScheduleUnknown or RequestInvalid.
        """
        if end < start:
            raise RequestInvalid("A range goes from one time to a later one.", fix="Give both with their time zone.")
        seen = await self.one(name)
        times = times_of(seen)
        found = times.between(start, min(end, datetime.fromisoformat(seen["now"])), limit + 1)
        page = found[:limit]
        local = [times.format_due(due) for due in page]
        given = (encode.text(name), bytes.fromhex(seen["definition"]), page, local, encode.text(by), dry_run)
        runs = await self._records(FilledRun, "backfill_schedule", *given)
        return Filled(dry_run, runs, found[limit] if len(found) > limit else None)

    async def remove(self, name: str) -> None:
        """Forget it, but not what it has run. Raises ScheduleUnknown."""
        await self._call("remove_schedule", encode.text(name))


def times_of(schedule: Mapping[str, Any]) -> Times:
    """When it is due, of one that was read."""
    return Times(schedule["cron"], schedule["timezone"])
