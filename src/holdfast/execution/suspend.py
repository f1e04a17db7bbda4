"""A handler is left, from wherever it stands, with an outcome that is no failure: it waits, or moves on."""

from holdfast.engine.task import Outcome


class Leaving(Exception):
    """Raised below a handler and meant for whoever runs it."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"The task leaves its worker: {outcome}.")
        self.outcome = outcome


class Waiting(BaseException):
    """The same out of the midst of a handler's own code, which must not take it for a failure and catch it."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"The task leaves its worker: {outcome}.")
        self.outcome = outcome
