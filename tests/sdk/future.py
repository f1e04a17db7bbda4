"""Tasks whose annotations are text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast import Holdfast

if TYPE_CHECKING:
    from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

hf = Holdfast()
LOCAL: list[Any] = []


@hf.task
def plus(pair: Pair, at: datetime, unread: Sequence[int] = ()) -> Pair:
    """`Sequence` is known to type checkers alone; the others are read all the same."""
    assert isinstance(at, datetime)
    return Pair(pair.a + 1, pair.b + 1)


@dataclass
class Pair:
    a: int
    b: int


def make() -> Any:
    """A task within a function, with a class that only this function knows."""

    @dataclass
    class Inner:
        n: int

    LOCAL[:] = [Inner]

    @hf.task(name=f"inner{len(hf.tasks)}")
    def more(inner: Inner) -> Inner:
        return Inner(inner.n + 1)

    return more
