"""The folder of an embedded server: what lies in it, and what it says about who is alive."""

import fcntl
import hashlib
import os
from pathlib import Path
from typing import NamedTuple

OWNER = "holdfast"
APPLICATION = "holdfast_app"
DATABASE = "holdfast"


class Plan(NamedTuple):
    """What a holder asks for: a server in `home`, made of the binaries in `bindir`."""

    home: str
    bindir: str
    settings: dict[str, str]

    @property
    def data(self) -> Path:
        return Path(self.home, "postgres")

    @property
    def mark(self) -> str:
        """What the server's processes are called, so that they can be distinguished from those of other servers."""
        return f"holdfast-{hashlib.sha256(os.fsencode(self.home)).hexdigest()[:12]}"

    def binary(self, name: str) -> str:
        return str(Path(self.bindir, name))


class Postmaster(NamedTuple):
    """A running server, as its own pid file says."""

    pid: int
    port: int
    socket: str
    ready: bool


def read_postmaster(home: Path) -> Postmaster | None:
    """The server that runs in `home`; None if there is none, or if the pid file only remembers a dead one."""
    data = home / "postgres"
    try:
        lines = [line.strip() for line in (data / "postmaster.pid").read_text().splitlines()]
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return None
    if not is_server(pid, data):
        return None
    lines += [""] * (8 - len(lines))
    return Postmaster(pid, int(lines[3] or 0), lines[4], ready=lines[7] in ("ready", "standby"))


def is_server(pid: int, data: Path) -> bool:
    """Whether `pid` lives and is the postmaster of `data`, rather than a stranger who got its old number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    if not Path("/proc/self/stat").exists():
        return True
    # Its command line, which anybody may read. Root in a container may not look into another account's process.
    try:
        dead = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return not dead and os.fsencode(data) in command and Path(f"/proc/{pid}").stat().st_uid == data.stat().st_uid
    except (FileNotFoundError, ProcessLookupError):
        return False


def try_lock(path: Path, kind: int) -> int | None:
    """A file descriptor that holds the flock, or None if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if take_lock(descriptor, kind):
        return descriptor
    os.close(descriptor)
    return None


def take_lock(descriptor: int, kind: int) -> bool:
    """Take the flock, unless another process holds it."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_watched(home: Path) -> bool:
    """Whether a watchdog is alive."""
    descriptor = try_lock(home / "watchdog.lock", fcntl.LOCK_SH)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None
