"""Every example runs as it is printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.testing import Database

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("[a-z]*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path, database: Database) -> None:
    environment = {**os.environ, "HOLDFAST_URL": database.owner_url}
    ran = subprocess.run([sys.executable, str(example)], env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout
