"""A plain function in a thread of its own can be stopped, once, and is waited for."""

import asyncio
import importlib
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast.execution import threads
from holdfast.execution.threads import in_thread


class Witness:
    """What happened in the thread."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.interruptions = 0
        self.cleaned_up = False

    def work(self, cleaning: float) -> None:
        try:
            self.begun.set()
            while True:
                time.sleep(0.001)
        except asyncio.CancelledError:
            self.interruptions += 1
            raise
        finally:
            until = time.monotonic() + cleaning
            try:
                while time.monotonic() < until:
                    time.sleep(0.001)
                self.cleaned_up = True
            except asyncio.CancelledError:
                self.interruptions += 1


async def test_what_cleans_up_is_not_interrupted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "remind_seconds", 0.02)
    witness = Witness()
    call = asyncio.create_task(in_thread(witness.work, 0.3))
    await asyncio.to_thread(witness.begun.wait, 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (witness.interruptions, witness.cleaned_up) == (1, True)


async def test_a_function_that_ends_while_it_is_stopped_is_not_waited_for_for_ever() -> None:
    for _ in range(300):  # somewhere in its last lines
        call = asyncio.create_task(in_thread(time.sleep, 0.0005))
        await asyncio.sleep(0.0005)
        call.cancel()
        async with asyncio.timeout(10):
            await asyncio.wait([call])
        assert call.cancelled() or call.exception() is None


async def test_what_is_no_error_of_ours_comes_back_as_one() -> None:
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(threads.Exited, match="SystemExit: 3"):
        await in_thread(leave)


class Import:
    """A module that is imported slowly: how far that is."""

    begun, may_go_on = threading.Event(), threading.Event()


SLOW_MODULE = """
from tests.worker.test_threads import Import
Import.begun.set()
Import.may_go_on.wait(60)
is_whole = True
"""


async def test_an_import_is_not_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported_slowly.py").write_text(SLOW_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(threads, "remind_seconds", 0.02)
    interruptions = []
    interrupt = threads.Call.interrupt

    def counted(call: threads.Call) -> None:
        interrupt(call)
        interruptions.append(call)
        if len(interruptions) == 3:
            Import.may_go_on.set()

    monkeypatch.setattr(threads.Call, "interrupt", counted)

    def imports_and_works() -> None:
        importlib.import_module("imported_slowly")
        while True:
            time.sleep(0.001)

    call = asyncio.create_task(in_thread(imports_and_works))
    assert await asyncio.to_thread(Import.begun.wait, 60)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert sys.modules.pop("imported_slowly").is_whole
