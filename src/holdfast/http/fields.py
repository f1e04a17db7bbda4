"""The fields that requests are made of: unknown ones are refused, texts hold no NUL, true is not the number 1."""

from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field


class Body(BaseModel):
    """A request's body."""

    model_config = ConfigDict(extra="forbid", str_max_length=20_000)


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
Word = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\u0000]+$"), AfterValidator(sane)]
Text = Annotated[str, Field(max_length=2000), AfterValidator(sane)]
Json = Any


def written(value: object) -> object:
    if not isinstance(value, str) or "-" not in value[1:]:
        raise ValueError("is no moment such as 2030-01-01T12:00:00Z")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(written)]
