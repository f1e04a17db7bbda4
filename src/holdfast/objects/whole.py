"""A file that is there whole, or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write into, for its owner only, which is removed if that fails."""
    try:
        with open(path, "wb", opener=lambda name, flags: os.open(name, flags | os.O_CLOEXEC, 0o600)) as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise
