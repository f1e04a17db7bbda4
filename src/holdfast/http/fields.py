"""The fields that requests are made of: unknown ones are refused, texts hold no NUL, true is not the number 1.

What is wrong with a body is told up to a limit, so that a body full of mistakes is refused as fast as any: of unknown
fields the first few, of a list (with `fail_fast`) the first wrong one.
"""

from itertools import islice
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

unknown_fields_told = 20


class Body(BaseModel):
    """A request's body."""

    model_config = ConfigDict(extra="forbid", str_max_length=20_000)

    @model_validator(mode="before")
    @classmethod
    def drop_most_unknown(cls, given: Any) -> Any:
        if not isinstance(given, dict) or len(given) <= len(cls.model_fields) + unknown_fields_told:
            return given
        known = {name: given[name] for name in cls.model_fields if name in given}
        unknown = islice((name for name in given if name not in known), unknown_fields_told)
        return known | {name: given[name] for name in unknown}


def sane(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL")
    return text


def number(value: object) -> object:
    if isinstance(value, (bool, str)):
        raise ValueError("is no number")
    return value


Whole = Annotated[int, BeforeValidator(number)]
Real = Annotated[float, BeforeValidator(number)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\u0000]+$"), AfterValidator(sane)]
Text = Annotated[str, Field(max_length=2000), AfterValidator(sane)]
Json = Any


def written(value: object) -> object:
    if not isinstance(value, str) or "-" not in value[1:]:
        raise ValueError("is no moment such as 2030-01-01T12:00:00Z")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(written)]


class Cancel(Body):
    """Why, for whoever looks at it later."""

    reason: Text | None = None
