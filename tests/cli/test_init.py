"""`holdfast init`: what it writes runs as it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.testing import Database
from tests.cli.conftest import Keyboard


def test_the_project_is_written_once_and_nothing_is_overwritten(holdfast: Keyboard, tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "notes.txt").write_text("mine")
    written = holdfast("init", str(tmp_path / "demo"))
    assert (written.code, "holdfast dev app.py" in written.out) == (0, True)
    names = {path.name for path in (tmp_path / "demo").iterdir()}
    assert names == {"app.py", "test_app.py", "README.md", "notes.txt"}
    (tmp_path / "demo" / "app.py").write_text("changed")
    (tmp_path / "demo" / "README.md").unlink()
    again = holdfast("init", str(tmp_path / "demo"))
    assert (again.code, again.out) == (2, "")
    assert (tmp_path / "demo" / "app.py").read_text() == "changed"
    assert not (tmp_path / "demo" / "README.md").exists()


def test_in_json_it_names_the_files(holdfast: Keyboard, tmp_path: Path) -> None:
    answered = holdfast("init", str(tmp_path / "new" / "demo"), "--json").json
    assert answered == {"folder": str(tmp_path / "new" / "demo"), "files": ["app.py", "test_app.py", "README.md"]}


def test_a_folder_that_cannot_be_made_is_a_usage_error(holdfast: Keyboard, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = holdfast("init", str(tmp_path / "file" / "demo"))
    assert (refused.code, "Traceback" in refused.err) == (2, False)


@pytest.mark.deep
def test_its_tasks_run(holdfast: Keyboard, tmp_path: Path, database: Database) -> None:
    holdfast("init", str(tmp_path))
    worker = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "worker", "--app", "app:hf"],
        cwd=tmp_path, env={**os.environ, "HOLDFAST_URL": database.url}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        greeted = holdfast("start", "greet", '{"name": "Ada"}', "--wait", "--timeout", "50s")
        counted = holdfast("start", "count_words", '{"text": "to be or not to be"}', "--wait", "--timeout", "50s")
    finally:
        worker.terminate()
        worker.wait(30)
    assert (greeted.code, greeted.json) == (0, "Hello, Ada!")
    assert counted.json == {"be": 2, "not": 1, "or": 1, "to": 2}


@pytest.mark.deep
def test_its_test_passes(holdfast: Keyboard, tmp_path: Path) -> None:
    holdfast("init", str(tmp_path / "project"))
    # Without a folder of its own it would first clear away what earlier runs of these tests have left.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/temporary"]
    tested = subprocess.run(command, cwd=tmp_path / "project", capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout
