"""Workers are killed, and workers leave, in every stage at once: each job goes on at the stage it was in."""

from typing import Any

import pytest

from holdfast.lifecycles.pipeline.store import Jobs
from tests.lifecycles.pipeline.app import NAMES
from tests.lifecycles.pipeline.watched_app import hf, watched
from tests.tiers import deep_after
from tests.worker.crew import Crew

APP = "tests.lifecycles.pipeline.watched_app:hf"


@pytest.fixture
async def crew(crew: Crew) -> Crew:
    await hf.declare(crew.store)
    return crew


@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", deep_after(1, ["killed", "leaves"]))
@pytest.mark.over_http("long")
async def test_another_worker_goes_on_at_the_stage_that_was_running(crew: Crew, how: str) -> None:
    times: dict[str, Any] = {"lease_seconds": 6.0}
    if how == "leaves":
        times = {"lease_seconds": 30.0, "cancel_seconds": 20.0}
    worker = crew.start(app=APP, slots=len(NAMES), **times)
    jobs = await crew.submit(*(watched.submission(held=name) for name in NAMES))
    for name in NAMES:
        await crew.noted(f"{name}:{name}")
    if how == "killed":
        worker.kill()
    else:
        assert worker.leave() == 0
    crew.start(app=APP, slots=len(NAMES), lease_seconds=30.0)
    for name in NAMES:
        await crew.noted(f"{name}:{name}", 2)
    crew.open("all")
    for name, job, end in zip(NAMES, jobs, await crew.ended(jobs), strict=True):
        assert end.state == "COMPLETED"
        assert {one: len(crew.notes(f"{name}:{one}")) for one in NAMES} == {one: 1 + (one == name) for one in NAMES}
        found = await Jobs.over(crew.store).job(job)
        assert {one.status for one in found.stages} == {"completed"}
        read = await crew.read(job)
        # Who leaves costs nothing and cancels nothing; who is lost, an attempt.
        assert (read["attempt"], found.cancel_requested) == (2 if how == "killed" else 1, False)
        assert ("lost" in await crew.verbs(job)) == (how == "killed")
