"""`hf.cron(...)`: a task, a pipeline or a graph that the clock starts. What cannot run is refused when it is loaded."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import CodeType
from typing import Any, get_args

from holdfast.engine import values
from holdfast.engine.task import Json, Submission
from holdfast.errors import AppInvalid, HoldfastError, RequestInvalid
from holdfast.lifecycles.dispatch.sdk import Dag
from holdfast.schedules.store import Missed
from holdfast.schedules.times import Times
from holdfast.sdk.task import Prepared

NAME = re.compile(r"[\w.:-]{1,80}")
tags_at_most = 19
NOT_FOR_CRON = ("key", "delay", "run_at", "after", "on")


Target = Prepared[..., Any] | Dag


@dataclass(eq=False, repr=False)
class Cron:
    """A schedule of an application. Made by `Holdfast.cron`."""

    name: str
    cron: str
    timezone: str
    target: Target
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    missed: Missed
    at: str | None
    place: tuple[CodeType, int]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise self._wrong("it cannot be called so.", "Take up to 80 letters, digits and _ . : - for name=...")
        if self.missed not in get_args(Missed):
            raise self._wrong(f"missed={self.missed!r}.", 'It is "latest", "all" or "skip".')
        try:
            self.times = Times(self.cron, self.timezone)
        except RequestInvalid as error:
            raise self._wrong(error.detail, error.fix) from None
        self.published(set())

    def __repr__(self) -> str:
        return f"<cron {self.name}: {self.cron} {self.timezone}>"

    def is_again(self, other: "Cron") -> bool:
        """Whether the other is this one declared again, as by a notebook or a reload, which compile the line again.

        What the very same code declares twice, in a loop or two of them on a line, is one only if nothing differs.
        """
        (code, line), (other_code, other_line) = self.place, other.place
        if code is other_code:
            return line == other_line and self.published(set()) == other.published(set())
        file = other_code.co_filename
        return file.startswith("<") or (code.co_filename, line) == (file, other_line)

    def published(self, queues: set[str | None]) -> dict[str, Any]:
        """How it is declared in the database; a queue among these is made. Raises AppInvalid."""
        schedule = {name: getattr(self, name) for name in ("name", "cron", "timezone", "missed", "at")}
        if not isinstance(self.target, Prepared):
            return schedule | {"starts": "dag", "target": {"name": self.target.name, "payload": self._params()}}
        made = self._submission(self.target)
        payload = dict(made.payload) if isinstance(made.payload, dict) else {}
        payload.pop(self.at or "", None)
        target = {
            "name": made.name, "lifecycle": made.lifecycle, "payload": payload, "queue": made.queue,
            "priority": made.priority, "max_attempts": made.max_attempts, "tags": list(made.tags),
            "limit_key": made.limit_key, "limit_to": made.limit_to,
            "time_limit_seconds": made.time_limit and made.time_limit.total_seconds(),
        }  # fmt: skip
        own = made.queue if made.queue in queues else None
        return schedule | {"starts": "task", "target": target, "owner": made.owner, "own_queue": own}

    def _submission(self, target: Prepared[..., Any]) -> Submission:
        """A run as it would be made, at some due time. Raises AppInvalid where the arguments do not fit."""
        given = dict(self.kwargs)
        if self.at is not None:
            if self.at in given:
                raise self._wrong(f"{self.at} is given, and at={self.at!r} gives it too.", "Leave one of them out.")
            given[self.at] = self.times.format_due(datetime(2030, 1, 1, 12, 30, tzinfo=UTC))
        try:
            made = target.submission(*self.args, **given)
        except (TypeError, HoldfastError) as error:
            detail = error.detail if isinstance(error, HoldfastError) else str(error)
            raise self._wrong(detail, "Pass what the task takes; at= names what gets the due time.") from error
        refused = [name for name in NOT_FOR_CRON if target.options.get(name)]
        if refused:
            raise self._wrong(f"its runs cannot share {' and '.join(refused)}.", "Leave it out of opts(...).")
        if len(made.tags) > tags_at_most:
            raise self._wrong(f"{len(made.tags)} tags.", f"Give {tags_at_most} at most: cron:{self.name} is one too.")
        return made

    def _params(self) -> dict[str, Json]:
        if self.args:
            raise self._wrong("a graph takes its parameters by name.", "Pass its parameters by their names.")
        try:
            return {name: values.dump(value) for name, value in self.kwargs.items()}
        except HoldfastError as error:
            raise self._wrong(error.detail, error.fix) from error

    def _wrong(self, problem: str, fix: str) -> AppInvalid:
        return AppInvalid(f"Schedule {self.name!r}: {problem}", fix=fix)
