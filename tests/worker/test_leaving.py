"""SIGTERM: nothing new is begun, what is short ends, what is long goes back at no cost."""

import signal

import pytest

from tests.eventually import eventually
from tests.worker import app
from tests.worker.crew import Crew

FREE = {"attempt": 1, "crashes": 0, "failures": 0}


async def cost(crew: Crew, task: object) -> dict[str, object]:
    read = await crew.read(task)  # type: ignore[arg-type]
    return {name: read[name] for name in FREE}


@pytest.mark.over_http("deep")
async def test_short_tasks_end_and_long_ones_go_back(crew: Crew) -> None:
    worker = crew.start(lease_seconds=30.0, slots=5, grace_seconds=1.5, cancel_seconds=0.5, processes=2)
    short, long, plain, deaf = await crew.submit(
        app.note_slowly.submission("short"), app.hold.submission("go", "long"), app.hold_sync.submission("go", "plain"),
        app.sleeps.submission("deaf"),
    )  # fmt: skip
    for mark in ("short", "long", "plain", "deaf"):
        await crew.noted(mark)
    worker.signal(signal.SIGTERM, runners=False)
    late = await crew.submit(*(app.hold.submission("go", f"late-{n}") for n in range(9)))
    assert worker.process.wait(30) == 0
    assert (await crew.ended([short]))[0].result == "short"
    for task in (long, plain, deaf):
        assert (await crew.verbs(task))[-1] == "later"
        assert await cost(crew, task) == FREE
    assert not worker.runners()
    assert await crew.store.workers() == []
    for n, task in enumerate(late):  # those that came in the moment before it heard the signal went back too
        assert await cost(crew, task) == FREE, n


@pytest.mark.deep
async def test_a_second_signal_hurries(crew: Crew) -> None:
    worker = crew.start(lease_seconds=30.0, grace_seconds=600.0)
    (task,) = await crew.submit(app.cooperative.submission("long"))
    await crew.noted("long")
    worker.signal(signal.SIGTERM, runners=False)

    async def leaving() -> bool:
        """A task that comes now is left where it is, through some looks."""
        (other,) = await crew.submit(app.add.submission(1, 1))
        for _ in range(20):
            await crew.store.sweep()
        return bool((await crew.read(other))["state"] == "Queued")

    await eventually(leaving)
    worker.signal(signal.SIGTERM, runners=False)
    assert worker.process.wait(30) == 0
    await crew.noted("long-finally")
    assert await cost(crew, task) == FREE


@pytest.mark.deep
@pytest.mark.parametrize("kind", [pytest.param("sleeps", marks=pytest.mark.long), "stubborn"])
async def test_what_ran_apart_goes_back_at_no_further_cost(crew: Crew, kind: str) -> None:
    worker = crew.start(lease_seconds=30.0, grace_seconds=0.2, cancel_seconds=0.5)
    handler = app.sleeps if kind == "sleeps" else app.stubborn
    (task,) = await crew.submit(handler.submission("apart"))
    await crew.noted("apart")
    for lost in (1, 2):
        worker.kill(supervisor=False)
        await crew.noted("apart", lost + 1)
    assert worker.leave() == 0
    assert await cost(crew, task) == {**FREE, "attempt": 3, "crashes": 2}
    assert (await crew.verbs(task))[-1] == "later"
