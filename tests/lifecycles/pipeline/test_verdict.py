"""What the stages make of a job is decided in Postgres, whoever runs them."""

from datetime import timedelta
from itertools import product

import pytest

from holdfast.engine.task import Checkpoint, Done, Failed, Lease, Outcome, Partial, Submission
from holdfast.errors import HoldfastError, LeaseLost, MoveRefused, RequestInvalid
from holdfast.lifecycles.pipeline.store import Jobs
from holdfast.testing import Database
from tests.lifecycles.pipeline.app import ALL_ON, NAMES, hf, press

LASTING = timedelta(minutes=1)
STATUSES = ("completed", "partial", "failed", "skipped")
OUTCOMES: dict[str, Outcome] = {
    "COMPLETED": Done({}), "PARTIAL": Partial({}), "FAILED": Failed("Fatal", "As its stages say."),
}  # fmt: skip


def verdict(first: str, others: tuple[str, ...]) -> str:
    """The table, in words of its own: the first stage is required."""
    if first == "failed" or not {first, *others} & {"completed", "partial"}:
        return "FAILED"
    return "PARTIAL" if {first, *others} & {"failed", "partial"} else "COMPLETED"


class Hand:
    """A worker of another make: it keeps stages by itself, with nothing but the store."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def __aenter__(self) -> "Hand":
        self._opened = self.database.store()
        self.store = await self._opened.__aenter__()
        await hf.declare(self.store)
        self.jobs = Jobs.over(self.store)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert await self.store.verify() == []
        await self._opened.__aexit__(None, None, None)

    async def lease(self) -> Lease:
        await self.store.submit(press.submission(**ALL_ON))
        (lease,) = await self.store.claim(["pipeline"], lasting=LASTING, worker="hand")
        return lease

    async def keep(self, lease: Lease, stage: str, status: object = "completed", **more: object) -> None:
        kept = {"status": status, "errors": [], **more}
        (answer,) = await self.store.checkpoint(Checkpoint(lease, stage, kept))
        assert answer.status == "ok"


@pytest.mark.parametrize("first", STATUSES)
async def test_the_job_ends_as_its_stages_say_and_in_no_other_way(database: Database, first: str) -> None:
    async with Hand(database) as hand:
        for others in product(STATUSES, repeat=2):
            statuses = (first, *others, *["skipped"] * 4)
            says = verdict(first, others)
            lease = await hand.lease()
            for name, status in zip(NAMES, statuses, strict=True):
                await hand.keep(lease, name, status)
            assert (await hand.jobs.verdict(lease.task_id)).state == says
            for state in {"COMPLETED", "PARTIAL"} - {says}:
                with pytest.raises(MoveRefused):
                    await hand.store.finish(lease, OUTCOMES[state])
            assert (await hand.store.finish(lease, OUTCOMES[says])).state == says


async def test_no_job_is_completed_while_a_stage_is_open(database: Database) -> None:
    async with Hand(database) as hand:
        lease = await hand.lease()
        for name in NAMES[:-1]:
            await hand.keep(lease, name)
        with pytest.raises(MoveRefused, match="some have not run"):
            await hand.store.finish(lease, Done({}))
        await hand.keep(lease, NAMES[-1])
        assert (await hand.store.finish(lease, Done({}))).state == "COMPLETED"


async def test_no_stage_begins_or_ends_before_those_before_it_nor_twice(database: Database) -> None:
    async with Hand(database) as hand:
        lease = await hand.lease()
        with pytest.raises(MoveRefused, match="CLASSIFY cannot be done before INGEST"):
            await hand.keep(lease, "CLASSIFY")
        with pytest.raises(MoveRefused, match="CLASSIFY cannot begin before INGEST"):
            await hand.jobs.begin(lease, "CLASSIFY")
        assert await hand.jobs.begin(lease, "INGEST")
        await hand.keep(lease, "INGEST")
        with pytest.raises(MoveRefused, match="done, or is not a stage"):
            await hand.jobs.begin(lease, "INGEST")
        (again,) = await hand.store.checkpoint(Checkpoint(lease, "INGEST", {"status": "failed"}))
        assert (again.status, again.result["status"]) == ("stored", "completed")
        assert await hand.jobs.begin(lease, "CLASSIFY")


@pytest.mark.parametrize("wrong", ["done", None, 3, "pending"])
async def test_a_stage_is_kept_with_one_of_four_statuses(database: Database, wrong: object) -> None:
    async with Hand(database) as hand:
        lease = await hand.lease()
        with pytest.raises(RequestInvalid, match="kept with its status"):
            await hand.keep(lease, "INGEST", wrong)
        with pytest.raises(RequestInvalid, match="kept with its status"):
            await hand.keep(lease, "INGEST", errors="a string")
        await hand.keep(lease, "INGEST")


async def test_a_late_result_of_an_orphan_changes_nothing(database: Database) -> None:
    async with Hand(database) as hand:
        orphan = await hand.lease()
        await hand.jobs.begin(orphan, "INGEST")
        database.clock.advance(seconds=61)
        await hand.store.sweep()
        (heir,) = await hand.store.claim(["pipeline"], lasting=LASTING, worker="hand")
        for late in (
            hand.jobs.begin(orphan, "INGEST"),
            hand.store.finish(orphan, Done({})),
            hand.store.finish(orphan, Failed("Fatal", "I am late.")),
        ):
            with pytest.raises(LeaseLost):
                await late
        (refused,) = await hand.store.checkpoint(
            Checkpoint(orphan, "INGEST", {"status": "failed", "errors": ["late"], "settings": {"articles": 99}})
        )
        assert refused.status == "lost"
        job = await hand.jobs.job(heir.task_id)
        assert (job.status, job.stages[0].status, job.stages[0].errors) == ("RUNNING", "running", [])
        assert (await hand.jobs.pipelines("press"))[0]["settings"] == {}
        await hand.keep(heir, "INGEST")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"colour": 1}, "'colour' is not a parameter of press"),
        ({"articles": "two"}, "articles is a string, and not integer"),
        ({"articles": 2.5}, "articles is a number, and not integer"),
        ({"enable_evaluation": "yes"}, "enable_evaluation is a string, and not boolean"),
    ],
    ids=str,
)
async def test_a_job_with_a_parameter_that_no_stage_takes_is_not_made(
    database: Database, given: dict[str, object], says: str
) -> None:
    async with Hand(database) as hand:
        with pytest.raises(HoldfastError, match=says):
            await hand.jobs.make("press", given, owner="")
        with pytest.raises(RequestInvalid, match="are an object"):
            await hand.store.submit(Submission("press", [1], "pipeline"))
        with pytest.raises(RequestInvalid, match="There is no pipeline 'pres'"):
            await hand.jobs.make("pres", {}, owner="")
        assert (await hand.store.list_tasks(lifecycle="pipeline")).items == []
