"""When a schedule is due: the clocks change twice a year, and no run is lost or doubled by it."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from holdfast.errors import RequestInvalid
from holdfast.schedules.times import Times

BERLIN = ZoneInfo("Europe/Berlin")
# In 2030 the clocks of Berlin go from 02:00 to 03:00 on March 31, and from 03:00 back to 02:00 on October 27.
SPRING, AUTUMN = datetime(2030, 3, 30, 12, tzinfo=UTC), datetime(2030, 10, 26, 12, tzinfo=UTC)


def first_starts(cron: str, start: datetime, n: int) -> list[str]:
    times = Times(cron, "Europe/Berlin")
    due = times.after(start)
    return [times.format_due(next(due)) for _ in range(n)]


def test_a_time_that_is_skipped_in_spring_is_due_right_after_the_gap() -> None:
    assert first_starts("30 2 * * *", SPRING, 2) == ["2030-03-31T03:00:00+02:00", "2030-04-01T02:30:00+02:00"]


def test_a_time_that_comes_twice_in_autumn_is_due_once_the_first_time() -> None:
    assert first_starts("30 2 * * *", AUTUMN, 2) == ["2030-10-27T02:30:00+02:00", "2030-10-28T02:30:00+01:00"]


def test_what_goes_by_every_half_hour_keeps_to_real_time() -> None:
    hours = [datetime.fromisoformat(one) for one in first_starts("*/30 * * * *", AUTUMN, 60)]
    assert {after - before for before, after in pairwise(hours)} == {timedelta(minutes=30)}
    hours = [datetime.fromisoformat(one) for one in first_starts("*/30 * * * *", SPRING, 60)]
    assert {after - before for before, after in pairwise(hours)} == {timedelta(minutes=30)}


@pytest.mark.parametrize("cron", ["30 2 * * *", "0,30 1-3 * * *", "*/20 * * * *", "15 * * * *", "5 2,3 * * *"])
@pytest.mark.parametrize("start", [SPRING, AUTUMN])
def test_it_does_not_matter_from_where_one_counts(cron: str, start: datetime) -> None:
    times = Times(cron, "Europe/Berlin")
    whole = times.between(start, start + timedelta(days=2), 1000)
    assert whole == sorted(set(whole))
    moment = start + timedelta(hours=11)
    while moment < start + timedelta(hours=15):  # throughout the change the answer is the same
        assert times.next(moment) == next((due for due in whole if due > moment), times.next(whole[-1]))
        before = [due for due in whole if due <= moment]
        assert not before or times.newest(moment, 1) == before[-1:]
        assert not before[2:] or times.newest(moment, 3) == before[-3:]
        moment += timedelta(minutes=5)


def test_a_year_without_anybody_is_looked_through_at_once() -> None:
    times = Times("* * * * *", "Europe/Berlin")
    now = datetime(2031, 1, 1, 0, 0, 30, tzinfo=UTC)
    since = datetime(2030, 1, 1, tzinfo=UTC)
    newest = datetime(2031, 1, 1, tzinfo=UTC)
    assert times.owed_times(since, now, "latest") == [newest] == times.owed_times(since, now, "skip")
    assert times.owed_times(since, now + timedelta(minutes=1, seconds=-31), "skip") == [newest]
    everything = times.owed_times(since, now, "all")
    assert (len(everything), everything[-1], everything[0]) == (1000, newest, newest - timedelta(minutes=999))


def test_skip_is_none_if_over_a_minute_late() -> None:
    times, due = Times("0 2 * * *", "UTC"), datetime(2030, 1, 1, 2, tzinfo=UTC)
    assert times.owed_times(due, due + timedelta(seconds=60), "skip") == [due]
    assert times.owed_times(due, due + timedelta(seconds=61), "skip") == []
    assert times.owed_times(due, due - timedelta(seconds=1), "all") == []


def test_the_hour_of_a_leap_day_comes() -> None:
    assert Times("0 0 29 2 *", "UTC").next(datetime(2029, 3, 1, tzinfo=UTC)) == datetime(2032, 2, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "timezone", "message"),
    [
        ("0 2 * *", "UTC", "five fields"),
        ("0 0 2 * * *", "UTC", "five fields"),
        ("", "UTC", "five fields"),
        ("60 * * * *", "UTC", "minute"),
        ("0 24 * * *", "UTC", "hour"),
        ("0 0 32 * *", "UTC", "day-of-month"),
        ("0 0 30 2 *", "UTC", "day-of-month"),
        ("*/0 * * * *", "UTC", "minute"),
        ("0 0 * * MON#9", "UTC", "day-of-week"),
        ("@daily", "UTC", "five fields"),
        ("0 2 * * *", "Mars/Olympus", "IANA"),
        ("0 2 * * *", "", "IANA"),
        ("0 2 * * *", "../etc/passwd", "IANA"),
    ],
)
def test_what_cannot_be_read_is_refused_and_the_error_teaches(cron: str, timezone: str, message: str) -> None:
    with pytest.raises(RequestInvalid) as refused:
        Times(cron, timezone)
    assert message in str(refused.value)
