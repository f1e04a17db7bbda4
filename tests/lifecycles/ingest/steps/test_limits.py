"""A file that was made to hurt its reader costs a process, and the next file is read."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from holdfast.apps.documents.extract import Extracted, Limits, extract, read_elsewhere
from holdfast.errors import SchemaInvalid, Transient
from tests.lifecycles.ingest.steps.reading import Harness

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Endless:
    """A file that never comes to its end."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self.descriptor = os.open(path, os.O_RDWR)  # for a pipe that somebody could write to has no end

    def readers(self) -> list[psutil.Process]:
        """The processes that read it now."""
        return [process for process in all_readers() if self.path in open_files(process)]

    async def read(self, seconds: float = 60) -> asyncio.Task[Extracted]:
        """A task that reads it, and has begun to."""
        task = asyncio.create_task(extract(self.path, "endless.txt", limits=Limits(seconds)))
        while not self.readers() and not task.done():  # noqa: ASYNC110 - another process tells by nothing else
            await asyncio.sleep(0)
        return task


def all_readers() -> list[psutil.Process]:
    return [process for process in psutil.Process().children() if "anyio.to_process" in command(process)]


def command(process: psutil.Process) -> list[str]:
    """Nothing for one that has ended and that nobody has asked for its exit code yet."""
    try:
        return process.cmdline()
    except (psutil.ZombieProcess, psutil.NoSuchProcess):
        return []


def open_files(process: psutil.Process) -> list[Path]:
    files = []
    for link in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            files.append(link.readlink())
    return files


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Endless]:
    endless = Endless(tmp_path / "endless.txt")
    yield endless
    os.close(endless.descriptor)


@pytest.mark.deep
async def test_a_file_that_takes_too_long_is_refused_and_its_reader_ended(harness: Harness, endless: Endless) -> None:
    with pytest.raises(SchemaInvalid, match="longer than 1 seconds") as caught:
        await (await endless.read(seconds=1))
    assert caught.value.code == "bomb"
    assert endless.readers() == []
    assert (await harness.read(page("The next one"))).text == "The next one"


async def test_whoever_cancels_ends_the_reader(harness: Harness, endless: Endless) -> None:
    reading = await endless.read()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert endless.readers() == []


@pytest.mark.deep
async def test_a_reader_that_is_killed_is_transient(harness: Harness, endless: Endless) -> None:
    reading = await endless.read()
    endless.readers()[0].kill()
    with pytest.raises(Transient) as caught:
        await reading
    assert caught.value.code == "reader-died"


async def test_a_reader_that_nobody_waits_for_ends(endless: Endless) -> None:
    script = (
        "import sys; from pathlib import Path; from holdfast.apps.documents import extract;"
        "extract.abandoned_seconds = 1;"
        "extract.read_within_limits(Path(sys.argv[1]), 'endless.txt', None, extract.Limits(seconds=0))"
    )
    reader = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(endless.path))
    assert await reader.wait() == -signal.SIGALRM


def page(text: str) -> str:
    """Something that is read in another process; a short text would not be."""
    return f"<html><body><p>{text}</p></body></html>"


@pytest.mark.deep
async def test_a_reader_that_died_while_it_waited_costs_nothing(harness: Harness) -> None:
    await harness.read(page("One"))
    readers = all_readers()
    for process in readers:
        process.kill()
    assert readers
    assert (await harness.read(page("Two"))).text == "Two"


async def test_a_reader_that_keeps_its_memory_is_replaced(harness: Harness) -> None:
    await harness.read(page("One"))
    before = all_readers()
    path = harness.put("Two")
    await read_elsewhere(path, "two.txt", None, Limits(grown_bytes=-(1 << 40)))
    assert set(all_readers()) < set(before)


@pytest.mark.deep
async def test_a_file_that_takes_too_much_memory_is_refused(harness: Harness) -> None:
    path = harness.put("word " * 4_000_000)
    with pytest.raises(SchemaInvalid, match="more than 16 MiB of memory") as caught:
        await extract(path, "long.txt", limits=Limits(memory_bytes=16 * 1024 * 1024))
    assert caught.value.code == "bomb"
    assert (await harness.read("The next one")).text == "The next one"


async def test_a_text_that_is_too_long_is_refused(harness: Harness) -> None:
    assert (await harness.refusal("word " * 4_000_001, "long.txt")).code == "too-long"


@pytest.mark.deep
async def test_more_files_than_processes_are_read_side_by_side(harness: Harness, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.html" for number in range(8)]
    for path in paths:
        path.write_text(page(f"Text {path.stem}"))
    read = await asyncio.gather(*(extract(path, path.name) for path in paths))
    assert [one.text for one in read] == [f"Text {number}" for number in range(8)]


async def test_a_file_that_is_gone_is_transient(harness: Harness, tmp_path: Path) -> None:
    with pytest.raises(Transient, match="No such file"):
        await extract(tmp_path / "gone.pdf", "gone.pdf")
