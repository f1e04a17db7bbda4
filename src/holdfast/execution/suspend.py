"""Leaving a handler, from wherever it stands, with an outcome that is not a failure: it waits or moves on."""

from holdfast.engine.task import Cancelled, Later, Outcome

CANCELLED = Cancelled()
RELEASED = Later(kind="released")


class Suspend(Exception):
    """Raised below a handler: the attempt ends with this outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"The task leaves its worker: {outcome}.")
        self.outcome = outcome


class SuspendHandler(BaseException):
    """The same out of the midst of a handler's own code, which must not take it for a failure and catch it."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"The task leaves its worker: {outcome}.")
        self.outcome = outcome
