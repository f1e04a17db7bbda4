"""Servers as processes, and what can be done to them."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.crew import ROOT


class ServerProcess:
    """`holdfast up` on a port of its own, which may be killed and started again."""

    def __init__(self, url: str, folder: Path, port: int) -> None:
        self.port = port
        self.address = f"http://127.0.0.1:{port}"
        self.deaths = 0
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        self._environment = {
            **clean, "HOLDFAST_URL": url, "HOLDFAST_PORT": str(port),
            "HOLDFAST_OBJECTS": f"file://{folder}/objects", "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        self._log = (folder / f"server-{port}.log").open("a")
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Return once it answers."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "up"], cwd=ROOT, env=self._environment, text=True,
            stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip
        assert self._process.stdout
        for line in self._process.stdout:
            if found := re.search(r"Holdfast is up: .*:(\d+)", line):
                assert int(found[1]) == self.port
                return
        pytest.fail(Path(self._log.name).read_text())

    def kill(self) -> None:
        assert self._process
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()
        self._process = None
        self.deaths += 1

    def close(self) -> None:
        if self._process:
            self.kill()
        self._log.close()
