"""Servers that all processes of a run share. Whoever comes first starts one; it ends with the last who uses it.

No clock ends it: a run may take as long as it takes, and one that is killed leaves nothing behind.
"""

import contextlib
import fcntl
import json
import os
import random
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx2

from tests.eventually import eventually_sync

RANDOM = random.SystemRandom()
GUARD = Path(__file__).with_name("guard.py")
ready_within_seconds = 60.0
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
    arguments = [sys.executable, str(GUARD), str(folder), *command]
    variables = {**os.environ, **(environment or {})}
    return os.posix_spawn(sys.executable, arguments, variables, file_actions=actions, setsid=True)


def wait_for(folder: Path, pid: int, ready: Callable[[], bool]) -> None:
    """The server answers; otherwise it is ended, and its log is printed."""
    try:
        eventually_sync(ready, "the start of a server", ready_within_seconds, ignoring=httpx2.HTTPError)
    except BaseException:
        sys.stderr.write((folder / "log").read_text()[-3000:])
        os.killpg(pid, signal.SIGKILL)
        raise


def free_ports(number: int) -> list[int]:
    """Below those that the kernel hands out by itself: nobody else gets one before it is used."""
    free: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(free) < number:
            port = RANDOM.randrange(20_000, 32_000)
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                free.append(port)
    return free
