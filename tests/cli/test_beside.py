"""Workers beside the server: sample work that moves, code that is saved, processes that are killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.testing import Database
from tests.tiers import deep_after

APP = """
from holdfast import Holdfast

hf = Holdfast()

@hf.task(queue="letters", retries=8, priority=4)
def first() -> str:
    return "first"
"""


def environment(database: Database, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return {**kept, "HOLDFAST_PORT": "0", "HOLDFAST_URL": database.owner_url, "PYTHONUNBUFFERED": "1", **more}


def holdfast(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "holdfast", *arguments]


class Running:
    """A command that serves, with all its output in one stream."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.output = ""

    def until(self, text: str) -> str:
        """Read on until a line holds this text."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.output += line
            if text in line:
                return line
        pytest.fail(f"It ended without {text!r}: {self.output}")


@pytest.fixture
def serve(empty_database: Database, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start a command that serves; asked to end, it must end well."""
    with contextlib.ExitStack() as stack:

        def start(*arguments: str) -> Running:
            process = stack.enter_context(
                subprocess.Popen(
                    holdfast(*arguments),
                    cwd=tmp_path,
                    env=environment(empty_database),
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
            )
            running = Running(process)

            def stop() -> None:
                process.send_signal(signal.SIGINT)
                rest, _ = process.communicate(timeout=100)
                assert process.returncode == 0, running.output + rest

            stack.callback(stop)
            return running

        yield start


def ask(database: Database, folder: Path, *text: str) -> str:
    asked: Any = subprocess.run(
        holdfast(*text), cwd=folder, env=environment(database), capture_output=True, text=True, check=True
    )
    return str(asked.stdout)


@pytest.mark.long
def test_code_that_is_saved_is_run(serve: Callable[..., Running], empty_database: Database, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    running = serve("dev", "app.py")
    running.until(" serves ")
    task = ask(empty_database, tmp_path, "start", "first", "{}", "--wait", "--json")
    read = json.loads(ask(empty_database, tmp_path, "show", json.loads(task)["task_id"], "--json"))
    answered = read.get("task", read)
    assert (answered["result"], answered["queue"], answered["max_attempts"], answered["priority"]) == (
        "first",
        "letters",
        9,
        4,
    )
    (tmp_path / "app.py").write_text(APP.replace("first", "second"))
    running.until(" serves ")
    assert ask(empty_database, tmp_path, "start", "second", "{}", "--wait").strip() == '"second"'


@pytest.mark.deep
def test_the_sample_work_moves_and_a_killed_worker_is_replaced(
    serve: Callable[..., Running], empty_database: Database, tmp_path: Path
) -> None:
    running = serve("up", "--demo", "--workers", "1")
    running.until(" serves ")
    (worker,) = [
        child
        for child in psutil.Process(running.process.pid).children()
        if "worker" in child.cmdline()
    ]  # fmt: skip
    worker.kill()
    running.until(" serves ")
    task = ask(empty_database, tmp_path, "start", "sum_up", '{"page": 1}', "--queue", "demo").strip()
    assert "computed" in ask(empty_database, tmp_path, "watch", task, "--json").lower()


@pytest.mark.deep
def test_a_worker_that_cannot_start_waits_for_the_next_save(serve: Callable[..., Running], tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP + "1 / 0\n")
    running = serve("dev", "app.py")
    running.until("it waits for the next save")
    (tmp_path / "app.py").write_text(APP)
    running.until(" serves ")
    assert running.output.count("ZeroDivisionError") == 1
    assert "exit_code" not in running.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    deep_after(
        1,
        [
            (["worker"], "The application is not named."),
            (["worker", "--app", "nowhere:hf"], "No module named 'nowhere'"),
            (["worker", "--app", "app.py:nothing"], "nothing is not there"),
            (["worker", "--app", "app.py", "--lease", "soon"], "is not a duration"),
            (["up", "--app", "nowhere:hf"], "No module named 'nowhere'"),
            (["worker", "--app", "no_guard.py"], "Put it under if __name__"),
            (["up", "--workers", "2"], "Workers must know where your tasks are."),
        ],
    ),
)
def test_a_worker_that_cannot_start_says_why(
    empty_database: Database, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "no_guard.py").write_text(APP + "\nfirst.start().result()\n")
    command = holdfast(*arguments)
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment(empty_database), capture_output=True, text=True, check=False, timeout=100
    )
    assert ran.returncode == 2
    assert message in ran.stderr
