"""The fields and headers of requests: unknown ones are refused, texts have no NUL, true is not the number 1.

Mistakes are listed up to a limit, so that a body full of them is refused as fast as any: of unknown fields the first
few, of a list (with `fail_fast`) the first wrong item.
"""

import re
from itertools import islice
from typing import Annotated, Any

from fastapi import Header
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

unknown_fields_named = 20


class Body(BaseModel):
    """A request's body."""

    model_config = ConfigDict(extra="forbid", str_max_length=20_000)

    @model_validator(mode="before")
    @classmethod
    def drop_most_unknown(cls, given: Any) -> Any:
        if not isinstance(given, dict) or len(given) <= len(cls.model_fields) + unknown_fields_named:
            return given
        known = {name: given[name] for name in cls.model_fields if name in given}
        unknown = islice((name for name in given if name not in known), unknown_fields_named)
        return known | {name: given[name] for name in unknown}


def refuse_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("has a NUL character")
    return text


def check_number(value: object) -> object:
    if isinstance(value, (bool, str)):
        raise ValueError("is not a number")
    return value


Whole = Annotated[int, BeforeValidator(check_number)]
Real = Annotated[float, BeforeValidator(check_number)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\u0000]+$")]
Text = Annotated[str, Field(max_length=2000), AfterValidator(refuse_nul)]
Json = Any


def check_moment(value: object) -> object:
    if not isinstance(value, str) or "-" not in value[1:]:
        raise ValueError("is not a moment such as 2030-01-01T12:00:00Z")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(check_moment)]


class Cancel(Body):
    """The reason is kept with the task."""

    reason: Text | None = None


IdempotencyKey = Annotated[str | None, Header(alias="idempotency-key", min_length=1, max_length=200)]
TraceParent = Annotated[str | None, Header(description="The trace it belongs to (W3C); any other value is ignored")]
TRACE = re.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def trace_of(traceparent: str | None) -> str | None:
    """The header's value, if it is a trace."""
    return traceparent if TRACE.fullmatch(traceparent or "") else None
