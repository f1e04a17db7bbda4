"""Limits to the second, and how long files are kept."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from holdfast.errors import ObjectsUnreachable
from tests.lifecycles.analysis.desk import Desk
from tests.lifecycles.analysis.test_matrix import AT

LIMITS = [
    ("CREATED", 15, "EXPIRED"),
    ("UPLOADING", 15, "EXPIRED"),
    ("UPLOAD_FAILED", 60, "EXPIRED"),
    ("QUEUED", 60, "EXPIRED"),
    ("PROCESSING", 30, "FAILED"),
]


@pytest.mark.parametrize(("state", "minutes", "end"), LIMITS)
async def test_a_limit_ends_the_task_to_the_second(desk: Desk, state: str, minutes: int, end: str) -> None:
    task = await AT[state](desk)
    desk.clock.advance(minutes=minutes, seconds=-1)
    await desk.sweep()
    assert (await desk.read(task))["status"] == state
    desk.clock.advance(seconds=1)
    await desk.sweep()
    status = await desk.read(task)
    assert status["status"] == end
    assert status["expired_at" if end == "EXPIRED" else "failed_at"] == desk.clock.now().isoformat()
    if end == "FAILED":
        assert (status["error_code"], status["error_message"]) == ("TIMEOUT_ERROR", "Processing timeout exceeded")
        assert status["error_category"] == "Transient"


async def test_new_links_give_new_time_but_an_hour_at_most(desk: Desk) -> None:
    task = await desk.create()
    await desk.links(task)
    for _ in range(4):
        desk.clock.advance(minutes=14)
        links = await desk.links(task)
    started = desk.clock.now()
    assert (await desk.read(task))["status"] == "UPLOADING"
    desk.clock.advance(minutes=4, seconds=-1)
    await desk.sweep()
    assert (await desk.read(task))["status"] == "UPLOADING"
    desk.clock.advance(seconds=1)
    await desk.sweep()
    assert (await desk.read(task))["status"] == "EXPIRED"
    assert datetime.fromisoformat(links["primary"]["expires_at"]) == started + timedelta(minutes=4)


async def test_a_call_that_comes_too_late_is_told_so_even_before_the_sweep(desk: Desk) -> None:
    task = await desk.uploaded()
    desk.clock.advance(minutes=15)
    answer = await desk.process(task)
    assert (answer.status_code, answer.json()["code"]) == (410, "task-expired")
    assert (await desk.read(task))["status"] == "EXPIRED"
    other = await desk.create()
    desk.clock.advance(minutes=15)
    assert (await desk.ask_links(other)).status_code == 410


@pytest.mark.parametrize(
    ("end", "kept"),
    [
        ("COMPLETED", [(6.9, {"uploads", "inputs", "outputs"}), (7, {"outputs"}), (29.9, {"outputs"}), (30, set())]),
        ("FAILED", [(6.9, {"uploads", "inputs", "outputs"}), (7, set())]),
        ("CANCELLED", [(6.9, {"uploads", "inputs", "outputs"}), (7, set())]),
    ],
)
async def test_files_are_kept_as_long_as_their_class_says(
    desk: Desk, end: str, kept: list[tuple[float, set[str]]]
) -> None:
    if end == "COMPLETED":
        task = await desk.completed()
    else:
        task = await desk.queued(["size", "lines"], lines={"fails": "fatal"} if end == "FAILED" else {"word": "x"})
        if end == "FAILED":
            desk.work()
        else:
            await put_output(desk, task)
            await desk.cancel(task)
    assert (await desk.read(task))["status"] == end
    began = desk.clock.now()
    for days, left in kept:
        desk.clock.set(began)
        desk.clock.advance(days=days)
        await desk.clean()
        assert set(await desk.files_of(task)) == left, days
    assert (await desk.read(task))["s3_cleaned"]


async def put_output(desk: Desk, task: str) -> None:
    """Something an agent left behind."""
    folder = f"users/~local/tasks/{task}"
    path = Path(__file__)
    await desk.objects.put(f"{folder}/outputs/size/x/size.json", path, content_type="application/json")


async def test_an_expired_task_leaves_nothing_and_late_uploads_go_too(desk: Desk) -> None:
    task = await desk.create()
    links = await desk.links(task, primary={}, baseline={})
    await desk.put(links["primary"])
    desk.clock.advance(minutes=15)
    await desk.sweep()
    await desk.clean()
    assert await desk.files_of(task) == []
    desk.clock.advance(minutes=-1)  # an upload that began in time, and ends now
    assert (await desk.put(links["baseline"])).status_code == 200
    desk.clock.advance(minutes=1)
    assert await desk.files_of(task) == ["uploads"]
    assert not (await desk.read(task))["s3_cleaned"]
    desk.clock.advance(days=1)
    await desk.clean()
    assert await desk.files_of(task) == []
    assert (await desk.read(task))["s3_cleaned"]


async def test_one_store_error_does_not_stop_the_cleaning_of_others(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [await desk.uploaded() for _ in range(3)]
    folders = [f"users/~local/tasks/{task}" for task in tasks]
    desk.clock.advance(minutes=15)
    await desk.sweep()
    delete = desk.objects.delete

    async def delete_but_one(prefix: str) -> int:
        if prefix == folders[1]:
            raise ObjectsUnreachable("the disk is on fire")
        return await delete(prefix)

    monkeypatch.setattr(desk.objects, "delete", delete_but_one)
    await desk.clean()
    assert [await desk.files_of(task) for task in tasks] == [[], ["uploads"], []]
    monkeypatch.undo()
    desk.clock.advance(minutes=1)
    await desk.clean()
    assert await desk.files_of(tasks[1]) == []


async def test_downloads_end_with_the_files(desk: Desk) -> None:
    task = await desk.completed()
    desk.clock.advance(days=30, seconds=-1)
    assert len(await desk.downloads(task)) == 3
    links = (await desk.http.get(f"/tasks/{task}/downloads")).json()["downloads"]
    assert {datetime.fromisoformat(one["expires_at"]) for one in links} == {desk.clock.now() + timedelta(seconds=1)}
    desk.clock.advance(seconds=1)
    answer = await desk.http.get(f"/tasks/{task}/downloads")
    assert (answer.status_code, answer.json()["code"]) == (410, "task-expired")


async def test_a_surprise_does_not_end_the_cleaning(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    task = await desk.uploaded()
    desk.clock.advance(minutes=15)
    await desk.sweep()

    async def surprise(prefix: str) -> int:
        raise ZeroDivisionError(prefix)

    monkeypatch.setattr(desk.objects, "delete", surprise)
    await desk.clean()
    monkeypatch.undo()
    desk.clock.advance(minutes=1)
    await desk.clean()
    assert await desk.files_of(task) == []


async def test_a_folder_that_has_gone_does_not_pass_for_cleaned(desk: Desk, tmp_path: Path) -> None:
    task = await desk.uploaded()
    desk.clock.advance(minutes=15)
    await desk.sweep()
    (tmp_path / "objects").rename(tmp_path / "elsewhere")
    await desk.clean()
    assert not (await desk.read(task))["s3_cleaned"]
    (tmp_path / "elsewhere").rename(tmp_path / "objects")
    desk.clock.advance(days=1)
    await desk.clean()
    assert await desk.files_of(task) == []
    assert (await desk.read(task))["s3_cleaned"]


async def test_what_was_completed_before_a_failure_can_be_downloaded(desk: Desk) -> None:
    task = await desk.queued(["size", "lines"], lines={"fails": "fatal"})
    desk.work()
    assert (await desk.read(task))["status"] == "FAILED"
    assert set(await desk.downloads(task)) == {"size/size.json", "size/more/name.json"}


async def test_a_worker_that_stops_costs_the_task_nothing(desk: Desk) -> None:
    task, lease = await desk.processing()
    await desk.store.hand_back("a test")
    assert (await desk.read(task))["status"] == "PROCESSING"
    desk.work()
    assert (await desk.read(task))["status"] == "COMPLETED"
    assert lease.attempt == (await desk.store.read(task))["attempt"]
