"""A test that hangs is named, and the others run all the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.crew import ROOT

CONFTEST = """
from tests.hangs import Hangs

def pytest_configure(config):
    config.pluginmanager.register(Hangs(config, grace_seconds=1.0))
"""

# The interrupted test leaves a thread behind, for which the event loop waits before it closes.
HANGING = """
import asyncio, threading
import pytest

@pytest.mark.timeout(0.5)
async def test_that_hangs():
    await asyncio.to_thread(threading.Event().wait)

def test_after_it():
    pass
"""


@pytest.mark.deep
def test_what_hangs_for_good_ends_its_process_and_no_other_test(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(HANGING)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\ntimeout = 30\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert "crashed while running 'test_it.py::test_that_hangs'" in run.stdout
    assert "1 passed" in run.stdout
    assert "in wait" in run.stderr  # where the thread is
