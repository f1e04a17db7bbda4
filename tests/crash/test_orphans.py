"""A runner that is still loading when its supervisor dies begins nothing."""

import array
import asyncio
import fcntl
import termios
from pathlib import Path

import psutil
import pytest

from holdfast.engine.task import Submission
from tests.eventually import eventually
from tests.worker.crew import Crew


@pytest.mark.deep
async def test_an_isolated_task_is_not_started_once_its_supervisor_is_dead(crew: Crew) -> None:
    worker = await asyncio.to_thread(crew.start, app="tests.crash.gated_app:hf")
    await crew.submit(Submission("deadly"))
    (alone,) = await crew.noted("gated")  # after two runners that it has brought down, and a third that claimed it
    orphan = psutil.Process(alone)
    # Without its go it would end before it asks for its supervisor.
    await eventually(lambda: asyncio.to_thread(is_started, orphan), "its go")
    worker.seen()
    worker.kill(runners=False)
    crew.open("load")
    await asyncio.to_thread(orphan.wait, 30)
    assert len(crew.notes("deadly")) == 2


def is_started(runner: psutil.Process) -> bool:
    """Whether something that its supervisor has said lies in its pipe, unread."""
    read_fd = runner.cmdline()[-3]
    waiting = array.array("i", [0])
    with Path(f"/proc/{runner.pid}/fd/{read_fd}").open("rb", buffering=0) as pipe:
        fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return waiting[0] > 0
