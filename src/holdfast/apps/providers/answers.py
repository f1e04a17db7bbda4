"""Vendors' answers, read with care: values, listings and files of results.

A value may be missing or of another kind, a job that was just taken may not be shown yet, a listing may go in circles,
a file may be cut off.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.apps.providers.transport import Line, Transport
from holdfast.engine.task import Json
from holdfast.errors import Transient
from holdfast.lifecycles.batch.provider import CannotTell, Ended, Input, Job, Result, Running
from holdfast.remote.http_errors import as_json

visible_within = timedelta(minutes=5)  # two clocks are compared, hence the wide margin
clocks_differ = timedelta(minutes=10)


def as_object(value: Json) -> dict[str, Any]:
    """The object, also if it comes as a text of JSON; an empty one for anything else."""
    value = as_json(value) if isinstance(value, str) else value
    return value if isinstance(value, dict) else {}


def as_int(value: Json) -> int:
    """The number, also if it comes as a text; 0 for anything else."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0


def id_in(answer: Mapping[str, Any], done: str) -> str:
    """The id of what was made. Raises Transient if the answer holds none: then it was made all the same."""
    found = answer.get("id")
    if not isinstance(found, str) or not found:
        raise Transient(f"{done}, but does not say which.")
    return found


def is_new(job: Job) -> bool:
    """Whether the vendor may have taken it and not show it yet: some answer from a copy."""
    return job.intended_at is not None and datetime.now(UTC) - job.intended_at < visible_within


def unknown_job(job: Job, reason: str) -> Running | Ended:
    """How a job stands that the vendor does not know: for this reason, unless it is new."""
    if is_new(job):
        return Running("not shown yet")
    return Ended("gone", "expired", reason, "Fatal", has_results=False)


@dataclass(frozen=True)
class Listed:
    """A job in a vendor's listing: its id there, our token, and the second since 1970 when it was begun, if known."""

    id: Json
    token: Json
    created: int


@dataclass(frozen=True)
class Page:
    """A page of a listing, and the cursor of the next one, if there is one."""

    jobs: Sequence[Listed]
    next: str | None


async def find_listed(job: Job, ask: Callable[[str | None], Awaitable[Page]]) -> str | None:
    """The id of the job of this token; if the newest come first, only back to when it was intended.

    `ask` brings the page at a cursor. Raises CannotTell if the listing does not end.
    """
    since = (job.intended_at - clocks_differ).timestamp() if job.intended_at else None
    cursor: str | None = None
    cursors: set[str] = set()
    times: list[int] = []
    while True:
        page = await ask(cursor)
        for one in page.jobs:
            if one.token == job.token:
                return id_in({"id": one.id}, f"{job.account} lists a job of this token")
        times += [one.created for one in page.jobs if one.created]
        newest_first = len(set(times)) > 1 and times == sorted(times, reverse=True)
        cursor = page.next
        if cursor is None or (since is not None and newest_first and times[-1] < since):
            return None  # all that follow are older still
        if cursor in cursors:
            raise CannotTell(f"The listing of {job.account} goes in circles.")
        cursors.add(cursor)


async def read_results(
    http: Transport, paths: Sequence[str], inputs: Sequence[Input], result_of: Callable[[Line], Result | None]
) -> AsyncGenerator[Result, None]:
    """The results in these files; of two lines for the same input the first counts."""
    missing = {one.key for one in inputs}
    cut_off = False
    for path in paths:
        async with aclosing(http.lines(path)) as lines:
            async for line in lines:
                cut_off = cut_off or line.cut
                found = result_of(line)
                if found and found.key in missing:
                    missing.discard(found.key)
                    yield found
    if cut_off:
        for key in sorted(missing):
            yield Result(key, error="The file of results is cut off before its line.", category="Transient")
