"""The session that the documentation shows runs as it is printed."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.testing import Database
from tests.http.serving import serving

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http.md"


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is missing")
def test_the_session_in_the_documentation_runs(database: Database) -> None:
    found = re.search(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    commands = [line for line in found[1].splitlines() if line.startswith("curl")]
    answers = [line.lstrip("# ") for line in found[1].splitlines() if line.startswith("#")]
    task, token = "01b8dac5-...", "5f0c..."
    with serving(database) as url:
        for command, promised in zip(commands, answers, strict=True):
            line = command.replace("$api", url).replace("01b8dac5-...", task).replace("5f0c...", token)
            answer = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout
            task, token = newer("task_id", answer, task), newer("lease_token", answer, token)
            pattern = re.escape(promised.replace("5f0c...", "...")).replace(r"\.\.\.", ".*")
            assert re.fullmatch(pattern, answer), answer


def newer(field: str, answer: str, before: str) -> str:
    found = re.search(rf'"{field}":"([^"]+)"', answer)
    return found[1] if found else before
