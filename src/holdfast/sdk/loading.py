"""While a worker imports an application, nothing of it may ask the database: it would wait for that very worker."""

import contextlib
import sys
from collections.abc import Iterator
from types import FrameType

from holdfast.errors import AppInvalid

LOADING: list[bool] = []


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """While a worker imports an application: whoever then starts a task, or waits for one, would wait for this worker.

    Until the block ends every call that would use the database raises AppInvalid.
    """
    LOADING.append(True)
    try:
        yield
    finally:
        LOADING.pop()


def called_while_loading() -> AppInvalid:
    """The error for the line outside of Holdfast that calls us now."""
    frame: FrameType | None = sys._getframe(1)
    name = ""
    while frame and str(frame.f_globals.get("__name__")).partition(".")[0] == "holdfast":
        name, frame = frame.f_code.co_name, frame.f_back
    place = f" ({frame.f_code.co_filename}:{frame.f_lineno})" if frame else ""
    return AppInvalid(
        f".{name}(){place} is called while its module is imported.", fix='Put it under if __name__ == "__main__":'
    )
