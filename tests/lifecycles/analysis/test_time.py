"""Limits to the second, and how long files are kept."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from holdfast.errors import ObjectsUnreachable
from tests.lifecycles.analysis.harness import Harness
from tests.lifecycles.analysis.test_matrix import AT

LIMITS = [
    ("CREATED", 15, "EXPIRED"),
    ("UPLOADING", 15, "EXPIRED"),
    ("UPLOAD_FAILED", 60, "EXPIRED"),
    ("QUEUED", 60, "EXPIRED"),
    ("PROCESSING", 30, "FAILED"),
]


@pytest.mark.parametrize(("state", "minutes", "end"), LIMITS)
async def test_a_limit_ends_the_task_to_the_second(harness: Harness, state: str, minutes: int, end: str) -> None:
    task = await AT[state](harness)
    harness.clock.advance(minutes=minutes, seconds=-1)
    await harness.sweep()
    assert (await harness.read(task))["status"] == state
    harness.clock.advance(seconds=1)
    await harness.sweep()
    status = await harness.read(task)
    assert status["status"] == end
    assert status["expired_at" if end == "EXPIRED" else "failed_at"] == harness.clock.now().isoformat()
    if end == "FAILED":
        assert (status["error_code"], status["error_message"]) == ("TIMEOUT_ERROR", "Processing timeout exceeded")
        assert status["error_category"] == "Transient"


async def test_new_links_give_new_time_but_an_hour_at_most(harness: Harness) -> None:
    task = await harness.create()
    await harness.links(task)
    for _ in range(4):
        harness.clock.advance(minutes=14)
        links = await harness.links(task)
    started = harness.clock.now()
    assert (await harness.read(task))["status"] == "UPLOADING"
    harness.clock.advance(minutes=4, seconds=-1)
    await harness.sweep()
    assert (await harness.read(task))["status"] == "UPLOADING"
    harness.clock.advance(seconds=1)
    await harness.sweep()
    assert (await harness.read(task))["status"] == "EXPIRED"
    assert datetime.fromisoformat(links["primary"]["expires_at"]) == started + timedelta(minutes=4)


async def test_a_late_call_is_refused_even_before_the_sweep(harness: Harness) -> None:
    task = await harness.uploaded()
    harness.clock.advance(minutes=15)
    answer = await harness.process(task)
    assert (answer.status_code, answer.json()["code"]) == (410, "task-expired")
    assert (await harness.read(task))["status"] == "EXPIRED"
    other = await harness.create()
    harness.clock.advance(minutes=15)
    assert (await harness.ask_links(other)).status_code == 410


@pytest.mark.parametrize(
    ("end", "kept"),
    [
        ("COMPLETED", [(6.9, {"uploads", "inputs", "outputs"}), (7, {"outputs"}), (29.9, {"outputs"}), (30, set())]),
        ("FAILED", [(6.9, {"uploads", "inputs", "outputs"}), (7, set())]),
        ("CANCELLED", [(6.9, {"uploads", "inputs", "outputs"}), (7, set())]),
    ],
)
async def test_files_are_kept_as_long_as_their_class_says(
    harness: Harness, end: str, kept: list[tuple[float, set[str]]]
) -> None:
    if end == "COMPLETED":
        task = await harness.completed()
    else:
        task = await harness.queued(["size", "lines"], lines={"fails": "fatal"} if end == "FAILED" else {"mark": "x"})
        if end == "FAILED":
            harness.work()
        else:
            await put_output(harness, task)
            await harness.cancel(task)
    assert (await harness.read(task))["status"] == end
    began = harness.clock.now()
    for days, left in kept:
        harness.clock.set(began)
        harness.clock.advance(days=days)
        await harness.clean()
        assert set(await harness.files_of(task)) == left, days
    assert (await harness.read(task))["s3_cleaned"]


async def put_output(harness: Harness, task: str) -> None:
    """Something an agent left behind."""
    folder = f"users/~local/tasks/{task}"
    path = Path(__file__)
    await harness.objects.put(f"{folder}/outputs/size/x/size.json", path, content_type="application/json")


async def test_an_expired_task_leaves_nothing_and_late_uploads_go_too(harness: Harness) -> None:
    task = await harness.create()
    links = await harness.links(task, primary={}, baseline={})
    await harness.put(links["primary"])
    harness.clock.advance(minutes=15)
    await harness.sweep()
    await harness.clean()
    assert await harness.files_of(task) == []
    harness.clock.advance(minutes=-1)  # an upload that began in time, and ends now
    assert (await harness.put(links["baseline"])).status_code == 200
    harness.clock.advance(minutes=1)
    assert await harness.files_of(task) == ["uploads"]
    assert not (await harness.read(task))["s3_cleaned"]
    harness.clock.advance(days=1)
    await harness.clean()
    assert await harness.files_of(task) == []
    assert (await harness.read(task))["s3_cleaned"]


async def test_one_store_error_does_not_stop_the_cleaning_of_others(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [await harness.uploaded() for _ in range(3)]
    folders = [f"users/~local/tasks/{task}" for task in tasks]
    harness.clock.advance(minutes=15)
    await harness.sweep()
    delete = harness.objects.delete

    async def delete_but_one(prefix: str) -> int:
        if prefix == folders[1]:
            raise ObjectsUnreachable("the disk is on fire")
        return await delete(prefix)

    monkeypatch.setattr(harness.objects, "delete", delete_but_one)
    await harness.clean()
    assert [await harness.files_of(task) for task in tasks] == [[], ["uploads"], []]
    monkeypatch.undo()
    harness.clock.advance(minutes=1)
    await harness.clean()
    assert await harness.files_of(tasks[1]) == []


async def test_downloads_end_with_the_files(harness: Harness) -> None:
    task = await harness.completed()
    harness.clock.advance(days=30, seconds=-1)
    assert len(await harness.downloads(task)) == 3
    links = (await harness.http.get(f"/tasks/{task}/downloads")).json()["downloads"]
    assert {datetime.fromisoformat(one["expires_at"]) for one in links} == {harness.clock.now() + timedelta(seconds=1)}
    harness.clock.advance(seconds=1)
    answer = await harness.http.get(f"/tasks/{task}/downloads")
    assert (answer.status_code, answer.json()["code"]) == (410, "task-expired")


async def test_a_surprise_does_not_end_the_cleaning(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    task = await harness.uploaded()
    harness.clock.advance(minutes=15)
    await harness.sweep()

    async def surprise(prefix: str) -> int:
        raise ZeroDivisionError(prefix)

    monkeypatch.setattr(harness.objects, "delete", surprise)
    await harness.clean()
    monkeypatch.undo()
    harness.clock.advance(minutes=1)
    await harness.clean()
    assert await harness.files_of(task) == []


async def test_a_folder_that_has_gone_does_not_pass_for_cleaned(harness: Harness, tmp_path: Path) -> None:
    task = await harness.uploaded()
    harness.clock.advance(minutes=15)
    await harness.sweep()
    (tmp_path / "objects").rename(tmp_path / "elsewhere")
    await harness.clean()
    assert not (await harness.read(task))["s3_cleaned"]
    (tmp_path / "elsewhere").rename(tmp_path / "objects")
    harness.clock.advance(days=1)
    await harness.clean()
    assert await harness.files_of(task) == []
    assert (await harness.read(task))["s3_cleaned"]


async def test_what_was_completed_before_a_failure_can_be_downloaded(harness: Harness) -> None:
    task = await harness.queued(["size", "lines"], lines={"fails": "fatal"})
    harness.work()
    assert (await harness.read(task))["status"] == "FAILED"
    assert set(await harness.downloads(task)) == {"size/size.json", "size/more/name.json"}


async def test_a_worker_that_stops_costs_the_task_nothing(harness: Harness) -> None:
    task, lease = await harness.processing()
    await harness.store.release_leases("a test")
    assert (await harness.read(task))["status"] == "PROCESSING"
    harness.work()
    assert (await harness.read(task))["status"] == "COMPLETED"
    assert lease.attempt == (await harness.store.read(task))["attempt"]
