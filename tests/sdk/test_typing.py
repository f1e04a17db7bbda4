"""Type checkers accept right uses and reject wrong ones."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = Path("tests/sdk/typing_cases.py")
LINES = (ROOT / CASES).read_text().splitlines()
WRONG = {number for number, line in enumerate(LINES, 1) if line.endswith("# wrong")}


def check(*command: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", *command, str(CASES)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stdout


def misplaced(rejected: set[int]) -> list[str]:
    """Where a checker and the marks differ."""
    return [LINES[number - 1].strip() for number in sorted(rejected ^ WRONG)]


@pytest.mark.deep
def test_mypy_rejects_the_wrong_lines_and_no_others() -> None:
    found = check(
        "mypy", "--config-file=", "--strict", "--no-error-summary", "--output=json", "--cache-dir=.mypy_cache"
    )
    assert misplaced({json.loads(line)["line"] for line in found.splitlines()}) == []


@pytest.mark.deep
def test_pyright_rejects_the_wrong_lines_and_no_others() -> None:
    pytest.importorskip("basedpyright")
    found = json.loads(check("basedpyright", "--outputjson", "--level", "error"))["generalDiagnostics"]
    assert misplaced({one["range"]["start"]["line"] + 1 for one in found}) == []
