"""A process that dies between any two steps, or among those that run in parallel: what is missing is done, no more.

Crashes are played at every boundary there is; then real workers are killed at a few of them.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast.lifecycles.ingest.declaration import STEPS
from holdfast.objects.scratch import scratch
from holdfast.sdk.handle import Handle
from holdfast.settings import Settings
from holdfast.testing import Database
from holdfast.testing.engine import Engine
from tests.eventually import eventually
from tests.lifecycles.ingest import app
from tests.lifecycles.ingest.harness import Harness, harness_at
from tests.lifecycles.ingest.ledger import Ledger, watch
from tests.tiers import deep_after
from tests.worker.crew import Crew

ONE_BY_ONE = ("FETCHED", "CONTENT_EXTRACTED", "PERSISTED", "INDEXED")
Boundary = tuple[tuple[str, ...], tuple[str, ...]]

# What was kept when the process died, and what had run and was lost. Of the parallel steps: each set that can be done.
BOUNDARIES: list[Boundary] = [
    *(((step,), ()) for step in ONE_BY_ONE),
    *(((), (step,)) for step in ONE_BY_ONE),
    ((), ("CHUNKED", "ENTITY_EXTRACTED")),
    (("CHUNKED",), ("EMBEDDED", "ENTITY_EXTRACTED")),
    (("ENTITY_EXTRACTED",), ("CHUNKED",)),
    (("CHUNKED", "EMBEDDED"), ("ENTITY_EXTRACTED",)),
    (("CHUNKED", "ENTITY_EXTRACTED"), ("EMBEDDED",)),
    (("CHUNKED", "EMBEDDED", "ENTITY_EXTRACTED"), ()),
]
COUNTS = {"total": 1, "pending": 0, "running": 0, "waiting": 0, "done": 1, "failed": 0, "cancelled": 0}


def named(boundary: Boundary) -> str:
    kept, lost = (",".join(steps) for steps in boundary)
    return " ".join([*([f"{kept} kept"] if kept else []), *([f"{lost} lost"] if lost else [])])


async def begun(harness: Harness, uri: str, **options: Any) -> tuple[str, str]:
    """A run with one item."""
    run = await harness.begin(uri, **options)
    return run, (await harness.item(run))["item_id"]


def handle(item: str) -> Handle[object]:
    return Handle(app.hf, UUID(item))


async def check_done(
    harness: Harness, run: str, item: str, ran: Counter[str], lost: tuple[str, ...], attempts: int
) -> None:
    """Everything is there once, and nothing but what was lost has run again."""
    found_run = await harness.run(run)
    assert (found_run["status"], found_run["steps"]) == ("COMPLETED", dict.fromkeys(STEPS, 1))
    assert {name: found_run[f"item_count_{name}"] for name in COUNTS} == COUNTS
    found = await harness.item(run)
    assert (found["status"], found["retry_count"], found["attempt"]) == ("DONE", 0, attempts)
    rows = await harness.store.steps(UUID(item))
    assert sorted((row.name, row.done, row.failures) for row in rows) == sorted((step, True, 0) for step in STEPS)
    assert ran == Counter([*STEPS, *lost])
    kinds = Counter(await harness.kinds(item))
    assert {step: kinds[f"{step} step_completed"] for step in STEPS} == dict.fromkeys(STEPS, 1)
    assert {step: kinds[f"{step} step_started"] for step in STEPS} == ran
    assert [one.kind for one in await harness.store.step_events(UUID(run))].count("run_completed") == 1
    costs = [one["cost_cents"] for one in await harness.events(item)]
    assert found_run["cost_cents"] == sum(costs) == len(STEPS)  # a cent for each step that was kept, none for the lost


async def check_published(harness: Harness, item: str, name: str, topic: str) -> None:
    """Of this document there is one version, whole, and it is found."""
    assert await harness.found(topic, mode="text") == [name]
    assert (await harness.found(f"Who speaks of {topic}?"))[0] == name
    async with harness.engine.database.connect_owner() as owner:
        versions = await owner.fetch(
            "select n.task_id, n.chunks, n.published_at is not null as is_current, n.replaced_at is null as stays,"
            " (select count(*) from holdfast.chunk c where c.version = n.task_id) as kept"
            " from holdfast.document_version n join holdfast.document d on d.id = n.document where d.name = $1", name
        )  # fmt: skip
        assert [(str(row["task_id"]), row["is_current"], row["stays"]) for row in versions] == [(item, True, True)]
        assert versions[0]["kept"] == versions[0]["chunks"] > 0
        assert not await owner.fetch("select from holdfast.chunk c where not holdfast.is_current(c.version)")


# Played crashes


@pytest.mark.parametrize("boundary", BOUNDARIES, ids=named)
async def test_what_was_kept_is_not_run_again_and_what_was_lost_is(harness: Harness, boundary: Boundary) -> None:
    kept, lost = boundary
    run, item = await begun(harness, "file:///a", kind="scripted")
    harness.engine.run(handle(item), crash_after=kept, crash_before=lost)
    await check_done(harness, run, item, Counter(app.RAN), lost, attempts=2)


@pytest.mark.deep
async def test_documents_survive_a_crash_at_every_boundary(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    watch(monkeypatch.setattr, ledger)
    for number, (kept, lost) in enumerate(BOUNDARIES):
        topic = f"barnacle{chr(ord('a') + number) * 3}"
        name = harness.write(f"{number:02}.md", f"# Shores\n\nThis page is about {topic}.\n")
        run, item = await begun(harness, name)
        harness.engine.run(handle(item), crash_after=kept, crash_before=lost)
        await check_done(harness, run, item, Counter(ledger.begun(item)), lost, attempts=2)
        await check_published(harness, item, name, topic)


# Workers that are killed


@pytest.fixture
def crew(crew: Crew) -> Crew:
    (crew.folder / "scratch").mkdir()
    crew.environment["TMPDIR"] = f"{crew.folder}/scratch"
    return crew


@pytest.fixture
async def user(live: Database, tmp_path: Path) -> AsyncIterator[Harness]:
    """A user of a server on the same database and the same objects."""
    async with harness_at(Engine(live), Settings(home=tmp_path), tmp_path / "papers") as harness:
        yield harness


KILLS: list[tuple[str, bool, tuple[str, ...]]] = [
    ("begin EMBEDDED", False, ("EMBEDDED",)),
    ("begin CONTENT_EXTRACTED", True, ("CONTENT_EXTRACTED",)),
    ("end ENTITY_EXTRACTED", True, ("ENTITY_EXTRACTED",)),
    ("end PERSISTED", False, ("PERSISTED",)),
]


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("moment", "whole", "lost"),
    deep_after(1, [pytest.param(*kill, id=f"{kill[0]}, {'worker' if kill[1] else 'runner'}") for kill in KILLS]),
)  # fmt: skip
async def test_another_process_goes_on_at_the_step_that_was_running(
    crew: Crew, user: Harness, moment: str, whole: bool, lost: tuple[str, ...]
) -> None:
    ledger = Ledger(crew.ledger)
    crew.environment["HALTS"] = moment
    worker = crew.start(app="tests.lifecycles.ingest.watched_app:hf", lease_seconds=6.0 if whole else 30.0)
    name = user.write("shores.md", "# Shores\n\nThis page is about limpets.\n")
    run, item = await begun(user, name)
    await eventually(stands_at(user, ledger, item, moment, lost), moment, within=60)
    worker.kill(supervisor=whole)
    crew.open(moment)
    if whole:
        crew.start(app="tests.lifecycles.ingest.watched_app:hf", lease_seconds=30.0)

    async def has_ended() -> bool:
        return bool((await user.run(run))["status"] != "RUNNING")

    await eventually(has_ended, "its end", within=60)
    await check_done(user, run, item, Counter(ledger.begun(item)), lost, attempts=2)
    await check_published(user, item, name, "limpets")
    with scratch(crew.folder / "scratch") as own:  # whoever comes next removes what the dead have left
        assert list((crew.folder / "scratch").iterdir()) == [own]


def stands_at(
    user: Harness, ledger: Ledger, item: str, moment: str, lost: tuple[str, ...]
) -> Callable[[], Any]:  # fmt: skip
    """Whether a step is held up there, and those beside it that are not to be lost are kept."""
    what, step = moment.split()

    async def look() -> bool:
        if not any((line.what, line.step, line.item) == (what, step, item) for line in ledger.lines()):
            return False
        beside = {"CHUNKED", "EMBEDDED", "ENTITY_EXTRACTED"} - set(lost) if set(lost) & set(STEPS[2:5]) else set()
        return beside <= set(await user.steps(item))

    return look
