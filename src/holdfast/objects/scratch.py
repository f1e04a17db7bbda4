"""Files on this machine: scratch folders for one attempt, gone however it ends; and files that are whole or not there.

The process that uses a folder holds a file lock on it, which the kernel drops when the process dies. So the next one
can tell, and removes the folders of dead processes; until then they stay.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

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


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write into, for its owner only, which is removed if that fails."""
    try:
        with open(path, "wb", opener=lambda name, flags: os.open(name, flags | os.O_CLOEXEC, 0o600)) as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise
