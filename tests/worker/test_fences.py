"""Who holds a task no more stops it, and stops nothing else."""

import signal
from uuid import UUID

import pytest

from holdfast.engine.task import Proof
from holdfast.testing import Database
from tests.eventually import eventually
from tests.worker import app
from tests.worker.crew import Crew


async def until_stopped(crew: Crew, mark: str) -> None:
    async def look() -> bool:
        return bool(crew.notes(f"{mark}-finally"))

    await eventually(look, f"the stop of {mark!r}")


@pytest.mark.over_http("deep")
async def test_a_lease_that_is_lost_stops_its_task_and_no_other(crew: Crew, live: Database) -> None:
    worker = crew.start()
    lost, near = await crew.submit(app.cooperative.submission("lost"), app.hold.submission("go", "near"))
    await crew.noted("lost")
    await crew.noted("near")
    runners = worker.runners()
    await crew.store.pause_queue("default", "nobody else")  # coming again would stop it as well
    token: UUID = live.ask_owner(f"select lease_token from holdfast.task where id = '{lost}'")
    assert await crew.store.mark_lost([Proof(lost, 1, token)]) == 1
    await until_stopped(crew, "lost")
    crew.open("go")
    assert (await crew.ended([near]))[0].outcome == "done"
    assert (len(crew.notes("near")), worker.runners()) == (1, runners)


@pytest.mark.deep
async def test_a_runner_whose_supervisor_hangs_stops_what_is_not_kept(crew: Crew) -> None:
    first = crew.start()
    await crew.submit(app.cooperative.submission("held"))
    await crew.noted("held")
    first.signal(signal.SIGSTOP, runners=False)
    await until_stopped(crew, "held")
