"""The moved clock: time passes when the test says so, for every connection to its database at once."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from holdfast.testing.ground import Database

CLOCK_SQL = Path(__file__).with_name("clock.sql").read_text()
REAL_CLOCK_SQL = """
create or replace function holdfast.now() returns timestamptz
language sql stable parallel safe
as 'select pg_catalog.now()'
"""


class Clock:
    """The one row that `holdfast.now()` reads. Its methods are synchronous: time moves between two lines of a test."""

    def __init__(self, database: "Database") -> None:
        self._database = database

    def now(self) -> datetime:
        return self._ask("select at from holdfast.test_clock")

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> datetime:
        """Move on by this much; the new time."""
        step = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return self._ask("update holdfast.test_clock set at = at + $1 returning at", step)

    def set(self, at: datetime) -> datetime:
        """Jump to `at`, forward or back."""
        return self._ask("update holdfast.test_clock set at = $1 returning at", at)

    def next(self, held: Iterable[UUID] = ()) -> datetime | None:
        """When time alone changes something next: something falls due, a limit passes, a lease (not those held) ends.

        The limits of states in which an owner acts are left out: owners are not hurried. None if nothing will.
        """
        answer = self._database.ask_owner("select holdfast.test_next($1)", list(held))
        assert answer is None or isinstance(answer, datetime)  # noqa: S101
        return answer

    def _ask(self, query: str, *arguments: object) -> datetime:
        answer = self._database.ask_owner(query, *arguments)
        assert isinstance(answer, datetime)  # noqa: S101
        return answer
