"""Scratch folders: a private place for one attempt's files, gone when it ends, however it ends.

The process that uses one holds a file lock on it, which the kernel drops when the process dies. So the next process
that makes one can tell, and removes what dead ones left; until then it stays.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

NAME = "holdfast-scratch-"


@contextlib.contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """A folder that only this process's user may enter, removed with all that is in it when the block ends."""
    parent = parent or Path(tempfile.gettempdir())
    remove_dead(parent)
    folder, descriptor = take(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def take(parent: Path) -> tuple[Path, int]:
    """A new folder, locked; another one if a process removed it as abandoned before it was locked."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=NAME, dir=parent))
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if folder.exists():
                return folder, descriptor
            os.close(descriptor)


def remove_dead(parent: Path) -> None:
    """Remove the folders of processes that are gone."""
    for folder in parent.glob(f"{NAME}*"):
        with contextlib.suppress(OSError):  # another user's, or another process was faster
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(descriptor)
