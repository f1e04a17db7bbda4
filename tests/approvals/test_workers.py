"""Real workers ask, die, and go on."""

import pytest

from holdfast.approvals.store import Questions
from tests.approvals import app
from tests.eventually import eventually
from tests.worker.crew import Crew


@pytest.mark.deep
async def test_a_task_that_waits_takes_no_slot_and_survives_its_worker(crew: Crew) -> None:
    crew.open("die")
    crew.start(app="tests.approvals.app", slots=1)
    tasks = await crew.submit(app.publish.submission(), app.approve.submission())
    questions = Questions.over(crew.store)

    async def both_wait() -> bool:
        reads = [await crew.read(task) for task in tasks]
        return all(read["note"] and read["note"].get("kind") == "question" for read in reads)

    await eventually(both_wait, "that both wait")
    (end,) = await crew.run(app.other.submission())
    assert end.result == "done"
    links = [line.split()[0] for line in crew.ledger.read_text().splitlines()]
    assert (len(links), len(set(links))) == (3, 2)  # one was told twice, by a worker that died and by the next
    for task, answer in zip(tasks, ("yes", None), strict=True):
        await questions.answer(task, answer)
    assert [end.result for end in await crew.ended(tasks)] == ["yes", None]
