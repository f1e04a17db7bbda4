"""Leaving a handler, from wherever it stands, with an outcome that is not a failure: it waits or moves on."""

from holdfast.engine.task import Cancelled, Later, Outcome

CANCELLED = Cancelled()
RELEASED = Later(kind="released")


class SuspendHandler(BaseException):
    """The attempt ends with this outcome. Raised in a handler's own code, which must not catch it as a failure."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"The task leaves its worker: {outcome}.")
        self.outcome = outcome


class Suspend(SuspendHandler, Exception):
    """The same, raised below a handler: the code there may see it as any other exception."""
