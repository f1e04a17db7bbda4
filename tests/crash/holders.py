"""Processes that hold an embedded server, and how to find, ask and outlive them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import psutil
import pytest

from holdfast.postgres.connections import open_connection
from holdfast.postgres.embedded import find_binaries, read_postmaster
from holdfast.postgres.embedded import holder as holder_module
from holdfast.postgres.embedded.folder import Plan
from tests.eventually import eventually

SOURCE = holder_module.SOURCE
HOLDER = Path(__file__).with_name("holder_process.py")
AS_NOBODY = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--no-new-privs",
    "--inh-caps=-all",
    "--",
    "sh",
    "-c",
    'exec "$@"',
    "sh",
]

is_root = os.geteuid() == 0
only_as_root = pytest.mark.skipif(not is_root, reason="needs root")
only_as_user = pytest.mark.skipif(is_root, reason="root may write everywhere")


class Holder:
    """Another process that holds the server in `home`."""

    def __init__(self, home: Path, environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", HOLDER, SOURCE, home, find_binaries(home)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip

    def wait_until_held(self) -> str:
        """The owner's address, once the server is ready."""
        assert self.process.stdout
        assert self.process.stderr
        return self.process.stdout.readline().decode().strip() or pytest.fail(self.process.stderr.read().decode())

    def leave(self) -> None:
        try:
            self.process.communicate(timeout=60)
        finally:
            self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


class Hold(Protocol):
    def __call__(self, environment: dict[str, str] | None = None) -> Holder: ...


def processes_of(home: Path) -> list[psutil.Process]:
    """Every process of `home` that lives: the watchdog, the postmaster, its backends."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = rpcs_of(process)
        ours = (
            f"-D {home}/postgres" in command
            or ("embedded.watchdog" in command and f'"{home}"' in command)
            or command.startswith(f"postgres: {Plan(str(home), '', {}).mark}: ")
        )
        if ours and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def rpcs_of(process: psutil.Process) -> str:
    """Its command as it was when it was found: it may have gone since."""
    return " ".join(process.info["cmdline"] or [])


def rulers_of(home: Path) -> list[psutil.Process]:
    """The watchdog and the postmaster alone."""
    return [process for process in processes_of(home) if not rpcs_of(process).startswith("postgres: ")]


def postmaster_of(home: Path) -> psutil.Process:
    running = read_postmaster(home)
    assert running
    return psutil.Process(running.pid)


def watchdog_of(home: Path) -> psutil.Process:
    return next(process for process in processes_of(home) if "embedded.watchdog" in rpcs_of(process))


def kill_at_once(*processes: psutil.Process) -> None:
    """Kill them all before any of them can act on another's death."""
    for process in processes:
        process.suspend()
    for process in processes:
        process.kill()


def assert_gone(home: Path) -> None:
    left = psutil.wait_procs(processes_of(home), timeout=60)[1]
    assert not left


async def write(url: str, value: int) -> None:
    async with open_connection(url) as connection:
        await connection.execute("create table if not exists public.kept (value int)")
        await connection.execute("insert into public.kept values ($1)", value)


async def read(url: str) -> list[int]:
    async with open_connection(url) as connection:
        return [row["value"] for row in await connection.fetch("select value from public.kept order by value")]


async def eventually_read(url: str) -> list[int]:
    """What `read` returns once the server answers again."""

    async def ask() -> list[list[int]]:
        return [await read(url)]

    return (await eventually(ask, "an answer", ignoring=Exception))[0]
