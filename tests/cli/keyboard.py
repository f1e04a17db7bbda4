"""The command as a person types it: in this process between two pipes, or as a process of its own."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main


@dataclass(frozen=True)
class Answer:
    """What came back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def typed_here(*arguments: str) -> Answer:
    """In this process, with the settings that it has."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    before = signal.getsignal(signal.SIGINT)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(arguments))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        finally:
            signal.signal(signal.SIGINT, before)
    return Answer(code, out.getvalue(), err.getvalue())


def typed_alone(*arguments: str, folder: Path | None = None, **environment: str) -> Answer:
    """In this process, with no setting but these."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        if folder:
            patch.chdir(folder)
        return typed_here(*arguments)


def run_alone(*arguments: str, folder: Path | None = None, **environment: str) -> Answer:
    """As a process of its own, with no setting but these: for what starts servers, or becomes another program."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        cwd=folder, env={**clean, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return Answer(done.returncode, done.stdout, done.stderr)
