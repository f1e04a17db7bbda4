"""One thing that a text names."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entity:
    """`value` is the same for every way to write the thing; `text` is how it is written, at `start` to `end`."""

    kind: str
    value: str
    text: str
    start: int
    end: int
