"""The worker in bash does what a worker must, against a real server."""

import os
import shutil
import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from holdfast.engine.store.commands import Store
from holdfast.testing import Database
from tests.http.serving import serving
from tests.promises.stage import state_of, submit

WORKER = Path(__file__).parents[2] / "examples" / "worker.sh"

PROGRAM = """#!/usr/bin/env bash
payload=$(cat)
[ "$1" = broken ] && { printf 'it "broke"\\nat\\\\line 2' >&2; exit 3; }
printf 'did %s with %s' "$1" "$payload"
"""

pytestmark = pytest.mark.skipif(not (shutil.which("bash") and shutil.which("curl")), reason="bash or curl is missing")


def work(url: str, program: Path, key: str | None = None) -> str:
    environment = {**os.environ, "HOLDFAST_API": url, **({"HOLDFAST_KEY": key} if key else {})}
    command = [str(WORKER), str(program), "default", "--drain"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


async def test_a_worker_in_bash_completes_and_fails_tasks(store: Store, database: Database, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    payload = {"n": 1, "text": 'a "quoted", {curly} \\ value', "payload": {"task_id": "no"}}
    good = [await submit(store, "good", payload=payload), await submit(store, "also good")]
    bad = await submit(store, "broken")
    key = await store.keys.make("bash", ["worker"])
    with serving(database) as url:
        output = work(url, program, key.secret)
    assert output.count(" 200 Completed") == 2
    assert f"{bad} 200 Failed" in output
    assert [await state_of(store, task) for task in (*good, bad)] == ["Completed", "Completed", "Failed"]
    first = await store.read(good[0])
    assert first["result"].startswith('did good with {"n":1,')
    assert await message_of(store, bad) == 'it "broke"\nat\\line 2'
    assert await store.verify() == []


async def message_of(store: Store, task: UUID) -> str:
    return str((await store.attempts(task))[0].error["message"])
