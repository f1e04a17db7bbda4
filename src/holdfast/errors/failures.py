"""What a task raises to say what kind of failure it is, and so what follows."""

from datetime import datetime, timedelta
from typing import ClassVar, Literal

from holdfast.errors.root import HoldfastError


class Failure(HoldfastError):
    """A task cannot go on."""

    category: ClassVar[Literal["RateLimited", "Transient", "SchemaInvalid", "Fatal"] | None] = None

    def __init__(
        self, message: str = "", *, code: str | None = None, retry_after: timedelta | str | float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message or self.title
        self.code = code
        self.retry_after = retry_after  # as it was written: whoever settles the task reads it


class RateLimited(Failure):
    """Somebody asks to slow down; the task waits, at no cost."""

    category = "RateLimited"

    def __init__(
        self,
        message: str = "",
        *,
        code: str | None = None,
        retry_after: timedelta | str | float | None = None,
        retry_at: datetime | None = None,
        budget: str | None = None,
    ) -> None:
        """`budget` names what all share who call the same provider: nobody spends of it until then."""
        super().__init__(message, code=code, retry_after=retry_after)
        self.retry_at = retry_at
        self.budget = budget


class Transient(Failure):
    """It may work the next time; the task is tried again, a limited number of times."""

    category = "Transient"


class SchemaInvalid(Failure):
    """The input is wrong and will stay wrong; the task goes to the inbox."""

    category = "SchemaInvalid"


class Fatal(Failure):
    """Trying again would not help; the task goes to the inbox."""

    category = "Fatal"


class Unanswered(Fatal):
    """Nobody answered in time."""
