"""A server that processes share is there for as long as one of them is, and no longer."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.sharing import Started, shared, spawn, wait_for
from tests.worker.crew import ROOT

USER = """
import sys
from pathlib import Path
from tests.sharing import shared
from tests.testing.test_sharing import start
with shared(Path(sys.argv[1]), start):
    print("in", flush=True)
    sys.stdin.read()
"""


def start(folder: Path) -> Started:
    pid = spawn(folder, "sleep", "1000")
    wait_for(folder, pid, lambda: bool(psutil.Process(pid).children()))
    return pid, {}


@contextlib.contextmanager
def another(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that uses the server until it is told to stop."""
    arguments = [sys.executable, "-c", USER, str(folder)]
    with subprocess.Popen(arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "in\n"
        yield process
        process.communicate()


def of(folder: Path) -> psutil.Process:
    pid: int = json.loads((folder / "started.json").read_text())[0]
    return psutil.Process(pid)


def has_ended(server: psutil.Process) -> bool:
    with contextlib.suppress(psutil.TimeoutExpired):
        server.wait(30)
    return not server.is_running() or server.status() == psutil.STATUS_ZOMBIE


def test_it_outlives_who_started_it_while_another_uses_it(tmp_path: Path) -> None:
    with another(tmp_path) as first, shared(tmp_path, start):
        server = of(tmp_path)
        first.communicate()
        assert (server.is_running(), len(server.children())) == (True, 1)
        with shared(tmp_path, start):
            assert of(tmp_path) == server
    assert has_ended(server)
    with shared(tmp_path, start):
        assert of(tmp_path) != server


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_last_user_however_that_ended(tmp_path: Path, how: signal.Signals) -> None:
    with another(tmp_path) as user:
        server = of(tmp_path)
        sleeping = server.children()
        user.send_signal(how)
    assert [has_ended(one) for one in (server, *sleeping)] == [True, True]
