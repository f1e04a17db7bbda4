"""A handle works from wherever it is held: plain code, any event loop, threads, a forked child."""

import asyncio
import os
import re
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from holdfast import Fatal, Handle, Holdfast, step
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Ended
from holdfast.errors import DatabaseUnreachable, RequestInvalid, TaskCancelled, TaskFailed, TaskNotFound
from holdfast.testing import Engine

hf = Holdfast()


@hf.task
def add(a: int, b: int) -> int:
    return a + b


@hf.task(retries=0)
async def fail() -> None:
    await step("paid", charge)


def charge() -> None:
    raise Fatal("no money", code="E7")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tasks each question about ends was about."""
    asked: list[int] = []
    outcomes = Store.outcomes

    async def counted(store: Store, ids: Any) -> Any:
        asked.append(len(ids))
        return await outcomes(store, ids)

    monkeypatch.setattr(Store, "outcomes", counted)
    return asked


def test_a_handle_tells_all_about_its_task(holdfast: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.sdk.session.explained_within_seconds", 60.0)
    handle = add.start(1, 2)
    assert handle == hf.handle(str(handle.id)) != add.start(1, 2)
    assert len({handle, hf.handle(handle.id)}) == 1
    assert str(handle.id) in repr(handle)
    assert (handle.state, handle.why().reason, handle.read()["payload"]) == ("Queued", "no_worker", {"a": 1, "b": 2})
    why = f"{re.escape(handle.why().sentence)} In a test nothing runs by itself"
    with pytest.raises(TimeoutError, match=rf"has not ended\. {why}"):
        handle.result(timeout=0)
    with pytest.raises(TimeoutError, match=rf"has not ended within 0\.01 s; it goes on\. {why}"):
        handle.result(timeout=0.01)
    holdfast.drain()
    assert (handle.state, handle.result(), handle.why().reason) == ("Completed", 3, "final")
    assert handle.cancel() == "too_late"


def test_how_a_task_failed_comes_with_the_error(holdfast: Engine) -> None:
    handle = fail.start()
    holdfast.drain()
    with pytest.raises(TaskFailed, match="is Dead: no money") as raised:
        handle.result(timeout=5)
    assert (raised.value.category, raised.value.code, raised.value.step) == ("Fatal", "E7", "paid")


async def test_a_cancelled_task_says_so_to_whoever_waits(holdfast: Engine) -> None:
    handle = await add.astart(1, 2)
    waiting = asyncio.create_task(handle.aresult())
    await asyncio.sleep(0)
    assert await handle.acancel("user asked") == "cancelled"
    with pytest.raises(TaskCancelled, match="user asked"):
        await waiting
    with pytest.raises(TaskCancelled):
        await handle


def test_what_is_not_there_is_not_waited_for(holdfast: Engine) -> None:
    nobody = hf.handle(uuid4())
    for ask in (nobody.result, nobody.read, nobody.why, lambda: nobody.state, lambda: nobody.result(timeout=0)):
        with pytest.raises(TaskNotFound):
            ask()
    with pytest.raises(RequestInvalid, match="is not the id of a task"):
        hf.handle("nothing")
    with psycopg.connect(holdfast.database.url) as connection:
        uncommitted = add.opts(on=connection).start(1, 2)
        with pytest.raises(TaskNotFound, match="Was its transaction committed"):
            uncommitted.result()
        connection.commit()
        assert uncommitted.state == "Queued"


async def test_every_move_can_be_watched(holdfast: Engine) -> None:
    handle = await add.astart(1, 2)
    seen: list[str] = []
    seen_some = asyncio.Event()

    async def watch() -> None:
        async for event in handle.watch():
            seen.append(event.verb)
            seen_some.set()

    watching = asyncio.create_task(watch())
    await seen_some.wait()
    await asyncio.to_thread(holdfast.drain)
    await watching
    assert seen == ["submit", "claim", "done"]


def in_two_loops() -> int:
    async def ask() -> int:
        return await (await add.astart(1, 2))

    return asyncio.run(ask()) if asyncio.run(ask()) == 3 else 0


def in_a_running_loop() -> int:
    async def cell() -> int:
        return add.start(1, 2).result()  # as in a notebook

    return asyncio.run(cell())


def add_two(n: int) -> int:
    return add.start(n, 1).result() - n + 2


def in_threads() -> int:
    with ThreadPoolExecutor(8) as threads:
        return max(threads.map(add_two, range(8)))


def after_close() -> int:
    hf.close()
    return add.start(1, 2).result()


def in_lifespan() -> int:
    async def served() -> int:
        async with hf.lifespan():
            return await (await add.astart(1, 2))

    return asyncio.run(served())


@pytest.mark.parametrize("way", [in_two_loops, in_a_running_loop, in_threads, after_close, in_lifespan])
def test_it_works_from(holdfast: Engine, way: Callable[[], int]) -> None:
    add.start(0, 0)  # opened here, before
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(way)
        while not answer.done():
            holdfast.drain()
        assert answer.result() == 3


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_opens_anew(holdfast: Engine) -> None:
    handle = add.start(1, 2)
    child = os.fork()
    if not child:
        status = 1
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)  # what hangs here ends, and with it what it has inherited
        try:
            status = 0 if handle.state == "Queued" and add.opts(key="child").start(2, 3).state == "Queued" else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert handle.state == "Queued"  # and the parent's connection is as it was
    assert holdfast.run(add.opts(key="child").start(2, 3)).result == 5


def test_closing_ends_every_wait(holdfast: Engine) -> None:
    handle = add.start(1, 2)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            handle.result()
        except BaseException as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while waiting.is_alive() and not hf.has_waiters:
        pass
    hf.close()
    waiting.join(60)
    assert [type(error) for error in errors] == [DatabaseUnreachable]


async def test_thousands_wait_with_few_questions(holdfast: Engine, asked: list[int]) -> None:
    handles: list[Handle[Any]] = await hf.asubmit(add.submission(n, 1) for n in range(2000))
    waiting = asyncio.gather(*(handle.aresult() for handle in handles), return_exceptions=True)
    await asyncio.sleep(0)
    holdfast.database.ask_owner("select count(*) from holdfast.task t cross join lateral holdfast.cancel(t.id)")
    assert {type(end) for end in await waiting} == {TaskCancelled}
    assert len(asked) < 200


WAITS_FOR_A_LOCK = """
select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')
"""


def test_closing_leaves_nobody_waiting_for_a_lock(holdfast: Engine) -> None:
    app = Holdfast()
    task = app.task(name="held")(add.function)
    task.start(0, 0)
    # The lock is let go before the threads are waited for.
    with ThreadPoolExecutor() as threads, psycopg.connect(holdfast.database.url) as other:
        other.execute("""select holdfast.submit('held', '{"a": 1, "b": 1}', key => 'k')""")  # taken, not committed
        call = threads.submit(lambda: task.opts(key="k").start(1, 1))
        while not call.done() and not holdfast.database.ask_owner(WAITS_FOR_A_LOCK):
            pass
        app.close()
        with pytest.raises(DatabaseUnreachable, match="was closed"):
            call.result(timeout=30)


def test_closing_ends_the_asking(holdfast: Engine) -> None:
    app = Holdfast()
    handle = app.task(name="asked")(add.function).start(1, 1)
    with pytest.raises(TimeoutError):
        handle.result(timeout=0.01)
    app.close()
    assert not app.is_open
    assert handle.state == "Queued"


def test_whoever_waits_learns_why_it_was_cancelled() -> None:
    handle = hf.handle(uuid4())
    for note, reason in (
        ({"reason": "too late"}, "too late"),
        ({"message": "no money"}, "no money"),
        (None, "Canceled"),
    ):
        with pytest.raises(TaskCancelled, match=reason):
            handle.value(Ended(handle.id, "Canceled", "cancelled", None, note))
