"""When a schedule is due: five fields of cron, in a time zone. Computes, and decides nothing.

A time that the clocks skip in spring is due right after the gap; one that they show twice in autumn is due once, the
first time. What goes by every hour or every minute (`*/15 * * * *`) keeps to real time: nothing is left out or doubled.
"""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from holdfast.errors import RequestInvalid

fields_of_cron = 5
late_after = timedelta(minutes=1)
caught_up_at_most = 1000
look_back = timedelta(hours=3)  # no clock is put on or back by more


class Times:
    """The due times of one schedule. Raises RequestInvalid for what is not a cron expression, or no time zone."""

    def __init__(self, cron: str, timezone: str) -> None:
        self.cron = cron
        self.zone = zone_of(timezone)
        check_cron(cron)

    def after(self, moment: datetime, until: datetime | None = None) -> Iterator[datetime]:
        """Those after a moment, up to another, in UTC; none if there is none within fifty years."""
        last = moment
        for one in CronSim(self.cron, moment.astimezone(self.zone)):
            due = one.astimezone(UTC)
            if until and due > until:
                return
            if due > last:  # in the hour that comes twice the first round of it may lie behind us
                yield due
                last = due

    def next(self, moment: datetime) -> datetime | None:
        """The first after a moment."""
        return next(self.after(moment), None)

    def newest(self, moment: datetime, n: int) -> list[datetime]:
        """The last `n` up to a moment, the oldest first.

        Going back only finds where to look: the times themselves are found by going forward, so both agree.
        """
        back = CronSim(self.cron, (moment + timedelta(seconds=1)).astimezone(self.zone), reverse=True)
        seen = list(islice(back, n + 1))
        if not seen:
            return []
        return list(deque(self.after(seen[-1].astimezone(UTC) - look_back, moment), maxlen=n))

    def owed_times(self, since: datetime, now: datetime, missed: str) -> list[datetime]:
        """Of the times from `since` up to now those that are still to be run."""
        most = caught_up_at_most if missed == "all" else 1
        found = self.between(since, now, most + 1)
        if len(found) > most:  # seldom: no server ran for long
            found = [due for due in self.newest(now, most) if due >= since]
        return [due for due in found if missed != "skip" or now - due <= late_after]

    def between(self, start: datetime, end: datetime, n: int) -> list[datetime]:
        """The first `n` from a moment on up to another, both counted in."""
        return list(islice(self.after(start - timedelta(seconds=1), end), n))

    def format_due(self, due: datetime) -> str:
        """A due time in words that a task can read: ISO 8601, as the clocks of the time zone show it."""
        return due.astimezone(self.zone).isoformat(timespec="seconds")


def check_cron(cron: str) -> None:
    """Raise RequestInvalid for what is not a cron expression."""
    if not isinstance(cron, str) or len(cron.split()) != fields_of_cron:
        raise RequestInvalid(
            f"{cron!r} is not a cron expression.",
            fix="Give five fields, minute hour day month weekday: `0 2 * * *` is every day at two.",
        )
    try:
        first = next(CronSim(cron, datetime(2000, 1, 1, tzinfo=UTC)), None)
    except (CronSimError, AssertionError) as error:
        raise RequestInvalid(
            f"{cron!r} is not a cron expression: {str(error).lower() or 'it cannot be read'}.",
            fix="The fields are minute (0-59), hour (0-23), day (1-31), month (1-12), weekday (0-7).",
        ) from None
    if first is None:
        raise RequestInvalid(f"{cron!r} never comes.", fix="Name a day that there is.")


def zone_of(timezone: str) -> tzinfo:
    """A time zone by its IANA name. Raises RequestInvalid."""
    try:
        return UTC if timezone == "UTC" else ZoneInfo(timezone)
    except (ValueError, OSError, TypeError, KeyError):  # what is not found is a KeyError
        raise RequestInvalid(
            f"There is no time zone {timezone!r}.",
            fix="Name one as the IANA does: Europe/Berlin, America/New_York, UTC.",
        ) from None
