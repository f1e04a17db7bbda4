"""The README's ten lines run as they are printed, on a machine where nothing is running."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
BIN = Path(sys.executable).parent


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a new user has saved the ten lines and runs `holdfast dev`."""
    (tmp_path / "invoices.py").write_text(blocks("python")[0])
    (command,) = [block.strip() for block in blocks("sh") if "holdfast dev" in block]
    with subprocess.Popen(
        command.replace(".venv/bin", str(BIN)).split(),
        cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as dev:  # fmt: skip
        assert dev.stdout is not None
        for line in dev.stdout:
            if line.startswith("Worker "):
                break
        yield tmp_path
        dev.send_signal(signal.SIGINT)
        rest = dev.stdout.read()
        assert dev.wait() == 0, rest


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return {**kept, "HOLDFAST_PORT": "0", "PYTHONUNBUFFERED": "1"}


def test_the_ten_lines_run_as_printed(folder: Path) -> None:
    assert len(blocks("python")[0].strip().replace("\n\n", "\n").splitlines()) <= 10
    (commands,) = [block.strip() for block in blocks("sh") if "invoices.py\n" in block and "start" in block]
    answers = [ask(command, folder) for command in commands.splitlines()]
    assert answers[0] == "INV-42\n"
    assert "INV-43" in answers[1]
    assert answers[2].count("send_invoice") == 2


def ask(command: str, folder: Path) -> str:
    arguments = shlex.split(command.replace(".venv/bin", str(BIN)))
    return subprocess.run(arguments, cwd=folder, env=environment(), capture_output=True, text=True, check=True).stdout
