"""The fields that requests are made of: unknown ones are refused, texts hold no NUL and are not endless."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class Body(BaseModel):
    """A request's body."""

    model_config = ConfigDict(extra="forbid", str_max_length=20_000)


def sane(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL")
    return text


Word = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\u0000]+$"), AfterValidator(sane)]
Text = Annotated[str, Field(max_length=2000), AfterValidator(sane)]
Json = Any
