"""Servers that all processes of a run share. Whoever comes first starts one; it ends with the last who uses it.

No clock ends it: a run may take as long as it takes, and one that is killed leaves nothing behind.
"""

import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx
import pytest

GUARD = Path(__file__).with_name("guard.py")
Started = tuple[int, dict[str, str]]
"""A process, and the variables that lead to it."""


@contextlib.contextmanager
def shared(folder: Path, start: Callable[[Path], Started]) -> Iterator[dict[str, str]]:
    """The variables of the one server that all processes with this folder share."""
    folder.mkdir(exist_ok=True)
    note = folder / "started.json"
    with (folder / "users.lock").open("w") as users:
        with (folder / "starting.lock").open("w") as alone:
            fcntl.flock(alone, fcntl.LOCK_EX)
            fcntl.flock(users, fcntl.LOCK_SH)  # waits for a guard that is just ending its server
            if not note.exists():
                note.write_text(json.dumps(start(folder)))
        _, variables = json.loads(note.read_text())
        yield variables


def spawn(folder: Path, *command: str, environment: dict[str, str] | None = None) -> int:
    """A process group of its own, whose leader is returned: the server's guard; nobody here waits for it."""
    log = (os.POSIX_SPAWN_OPEN, 1, str(folder / "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    actions: Sequence[tuple[object, ...]] = [log, (os.POSIX_SPAWN_DUP2, 1, 2)]
    words = [sys.executable, str(GUARD), str(folder), *command]
    variables = {**os.environ, **(environment or {})}
    return os.posix_spawn(sys.executable, words, variables, file_actions=actions, setsid=True)


def wait_for(folder: Path, pid: int, ready: Callable[[], bool]) -> None:
    """The server answers; otherwise it is ended, and what it said is told."""
    for _ in range(1200):
        with contextlib.suppress(httpx.HTTPError):
            if ready():
                return
        threading.Event().wait(0.05)
    os.killpg(pid, signal.SIGKILL)
    pytest.fail((folder / "log").read_text()[-3000:])


def free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        doors = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [door.getsockname()[1] for door in doors]
