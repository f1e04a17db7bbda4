"""What became of a task that a test has run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from holdfast.engine.task import Event, Json
from holdfast.errors import TaskError
from holdfast.sdk.handle import Handle

R = TypeVar("R")


@dataclass(frozen=True)
class Ran(Generic[R]):
    """A task, as it stood when nothing was left to do for it.

    `outcome` is done, partial, failed, cancelled, or None if it has not ended: it waits for its owner, say. `attempts`
    counts as retries and lost workers do. `steps` are the names of those that are done, in their order; `usage` is what
    was reported, `error` what `result` would raise.
    """

    handle: Handle[R]
    state: str
    outcome: str | None
    attempts: int
    steps: Sequence[str]
    events: Sequence[Event]
    usage: Sequence[Mapping[str, Json]]
    error: TaskError | None
    value: Any

    @property
    def id(self) -> UUID:
        return self.handle.id

    @property
    def result(self) -> R:
        """What the task returned. Raises `error`, if there is one."""
        if self.error:
            raise self.error
        value: R = self.value
        return value
