"""What others may try with links, names and ids; each is refused and changes nothing."""

import asyncio
import gzip
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast.errors import MoveRefused
from holdfast.lifecycles.analysis.intake import Intake
from tests.lifecycles.analysis.harness import TABLE, Harness, harness_of, sha256


async def test_the_task_of_another_user_is_not_there(harness: Harness) -> None:
    async with harness_of(harness, "ada", 100) as ada, harness_of(harness, "eve", 100) as eve:
        task = await ada.completed()
        for method, path, body in [
            ("GET", "", None),
            ("POST", "/upload-urls", {"files": {"primary": {"filename": "a.csv", "content_type": "text/csv"}}}),
            ("POST", "/process", None),
            ("POST", "/cancel", None),
            ("GET", "/downloads", None),
        ]:
            theirs = await eve.http.request(method, f"/tasks/{task}{path}", json=body)
            nobodys = await eve.http.request(method, f"/tasks/{uuid4()}{path}", json=body)
            assert (theirs.status_code, theirs.json().get("code")) == (404, "task-not-found")
            assert shape(theirs.json()) == shape(nobodys.json())
        assert (await ada.read(task))["status"] == "COMPLETED"


def shape(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in ("request_id", "instance", "detail")}


async def test_the_same_key_of_two_users_is_two_tasks(harness: Harness) -> None:
    body, key = {"tool_id": "count", "agents": ["lines"]}, {"Idempotency-Key": "mine"}
    async with harness_of(harness, "ada") as ada, harness_of(harness, "eve") as eve:
        first, second = [(await one.http.post("/tasks", json=body, headers=key)).json() for one in (ada, eve)]
    assert first["task_id"] != second["task_id"]


@pytest.mark.parametrize(
    "filename", ["../../etc/passwd", "..\\x.csv", "/etc/passwd", "a/b.csv", "a\0.csv", "a\nb.csv", "", "x" * 256]
)
async def test_a_name_that_is_a_path_is_refused(harness: Harness, filename: str) -> None:
    task = await harness.create()
    answer = await harness.ask_links(task, primary={"filename": filename})
    assert (answer.status_code, answer.json()["code"]) == (422, "request-invalid")
    assert (await harness.read(task))["status"] == "CREATED"


@pytest.mark.parametrize("filename", ["..", "~root", "%2e%2e%2fx", "CON", "名前.csv", "a' \"b.csv", "-rf"])
async def test_an_odd_name_names_no_place(harness: Harness, filename: str) -> None:
    task = await harness.create(["size"])
    links = await harness.links(task, primary={"filename": filename})
    await harness.put(links["primary"])
    await harness.process(task)
    harness.work()
    assert (await harness.downloads(task))["size/more/name.json"] == {"name": filename}
    folder = f"users/~local/tasks/{task}/"
    assert all(one.key.startswith(folder) for one in await harness.objects.keys("users"))


@pytest.mark.parametrize("owner", ["../../x", "a/b", "..", ".", "ü", "x" * 200, "a b"])
async def test_an_odd_user_has_a_folder_like_any_other(harness: Harness, owner: str) -> None:
    async with harness_of(harness, owner, 100) as user:
        task = await user.completed()
        assert len(await user.downloads(task)) == 3
    (folder,) = {one.key.split("/tasks/")[0] for one in await harness.objects.keys("users")}
    assert folder.startswith("users/~")


async def test_a_forged_link_is_refused(harness: Harness) -> None:
    task = await harness.create()
    link = (await harness.links(task))["primary"]
    server, _, token = link["url"].rpartition("/")
    for at in (0, len(token) // 4, len(token) // 2, len(token) - 2):
        forged = f"{token[:at]}{'A' if token[at] != 'A' else 'B'}{token[at + 1 :]}"
        answer = await harness.put({**link, "url": f"{server}/{forged}"})
        assert (answer.status_code, answer.json()["code"]) == (403, "url-refused")
    assert await harness.files_of(task) == []


async def test_an_expired_link_is_refused(harness: Harness) -> None:
    task = await harness.create()
    link = (await harness.links(task))["primary"]
    harness.clock.advance(minutes=15, seconds=1)
    answer = await harness.put(link)
    assert (answer.status_code, answer.json()["code"]) == (403, "url-refused")
    assert await harness.files_of(task) == []


async def test_a_link_is_good_for_one_upload(harness: Harness) -> None:
    task = await harness.create(["lines"])
    link = (await harness.links(task))["primary"]
    assert (await harness.put(link, b"a\n1\n")).status_code == 200
    answer = await harness.put(link, b"a\n1\n2\n3\n4\n")
    assert (answer.status_code, answer.json()["code"]) == (403, "url-refused")
    await harness.process(task)
    harness.work()
    assert (await harness.downloads(task))["lines/lines.json"]["lines"] == 2


async def test_a_link_for_one_file_takes_no_other(harness: Harness) -> None:
    task = await harness.create()
    links = await harness.links(task, parameters=True)
    assert (await harness.put({**links["parameters"], "headers": {"Content-Type": "text/csv"}})).status_code == 415
    assert (await harness.http.get(links["primary"]["url"])).status_code in (403, 405)


@pytest.mark.parametrize(
    ("promised", "sent", "status"),
    [
        ({"size": 5}, b"123456", 413),
        ({"size": 5}, b"1234", 422),
        ({"sha256": sha256(b"other")}, b"1234", 422),
        ({"size": 4, "sha256": sha256(b"1234")}, b"1234", 200),
    ],
)
async def test_a_file_that_is_not_what_was_promised_is_refused(
    harness: Harness, promised: dict[str, Any], sent: bytes, status: int
) -> None:
    task = await harness.create()
    links = await harness.links(task, primary=promised)
    assert (await harness.put(links["primary"], sent)).status_code == status
    assert await harness.files_of(task) == (["uploads"] if status == 200 else [])


async def test_parameters_have_a_size(harness: Harness) -> None:
    task = await harness.create()
    links = await harness.links(task, parameters=True)
    assert (await harness.put(links["parameters"], b" " * (1024 * 1024 + 1))).status_code == 413


async def test_another_type_than_promised_is_refused(harness: Harness) -> None:
    task = await harness.create()
    link = (await harness.links(task))["primary"]
    assert (await harness.put({**link, "headers": {"Content-Type": "text/html"}})).status_code == 415
    assert await harness.files_of(task) == []


@pytest.mark.parametrize("content_type", ["text", "text/csv\r\nX: y", "text/csv; boundary=x", "", "a" * 300])
async def test_what_is_no_content_type_is_refused(harness: Harness, content_type: str) -> None:
    task = await harness.create()
    assert (await harness.ask_links(task, primary={"content_type": content_type})).status_code == 422


async def test_a_late_upload_changes_nothing_that_a_worker_reads(harness: Harness) -> None:
    """Neither by another link that is still good, nor where a bucket lets the same one write twice."""
    task = await harness.create(["lines", "size"])
    early = (await harness.links(task, primary={"filename": "old.csv"}))["primary"]
    link = (await harness.links(task))["primary"]
    await harness.put(link, TABLE)
    await harness.process(task)
    await harness.put(early, b"a\n" * 1000)
    folder = f"users/~local/tasks/{task}"
    for one in await harness.objects.keys(f"{folder}/uploads"):  # as a bucket would: the very object is replaced
        await harness.objects.put(one.key, Path(__file__), content_type="text/csv")
    harness.work()
    assert (await harness.downloads(task)).get("size/size.json") == {"bytes": len(TABLE)}


async def test_an_upload_by_an_older_link_for_another_file_does_not_count(harness: Harness) -> None:
    task = await harness.create(["lines"])
    early = (await harness.links(task, primary={"filename": "old.csv"}))["primary"]
    await harness.links(task, primary={"filename": "new.csv"})
    assert (await harness.put(early)).status_code == 200
    answer = await harness.process(task)
    assert (answer.status_code, answer.json()["code"], answer.json()["missing"]) == (409, "files-missing", ["primary"])


async def test_links_can_be_renewed_while_an_upload_is_under_way(harness: Harness) -> None:
    task = await harness.create(["lines"])
    early = (await harness.links(task))["primary"]
    harness.clock.advance(minutes=14)
    renewed = (await harness.links(task))["primary"]
    assert not renewed["uploaded"]
    assert (await harness.put(early)).status_code == 200  # it had begun before
    harness.clock.advance(minutes=14)
    assert (await harness.process(task)).status_code == 202


async def test_what_was_uploaded_with_its_checksum_need_not_be_uploaded_again(harness: Harness) -> None:
    task = await harness.create(["lines"])
    for uploaded in (False, True):
        link = (await harness.links(task, primary={"sha256": sha256(TABLE)}))["primary"]
        assert link["uploaded"] == uploaded
        await harness.put(link)
    assert (await harness.process(task)).status_code == 202


async def test_a_wrong_upload_can_be_replaced_by_a_new_link(harness: Harness) -> None:
    task = await harness.create(["lines"])
    for body in (b"wrong\n", TABLE):
        assert (await harness.put((await harness.links(task))["primary"], body)).status_code == 200
    await harness.process(task)
    harness.work()
    assert (await harness.downloads(task))["lines/lines.json"]["lines"] == 3


@pytest.mark.deep
async def test_a_bomb_is_a_file_of_the_wrong_format(harness: Harness) -> None:
    bomb = gzip.compress(b"a,b\n" + b"1,2\n" * 50_000_000, 9)
    task = await harness.create(["unified-profiler"], tool="profile-my-data")
    links = await harness.links(task, primary={"filename": "data.csv.gz", "content_type": "application/gzip"})
    await harness.put(links["primary"], bomb)
    await harness.process(task)
    harness.work()
    status = await harness.read(task)
    assert (status["status"], status["error_code"]) == ("FAILED", "FILE_FORMAT_ERROR")


async def test_a_file_that_was_promised_must_be_there(harness: Harness) -> None:
    task = await harness.create()
    links = await harness.links(task, parameters=True, primary={}, baseline={})
    await harness.put(links["primary"])
    answer = await harness.process(task)
    assert (answer.status_code, answer.json()["code"]) == (409, "files-missing")
    assert sorted(answer.json()["missing"]) == ["baseline", "parameters"]
    status = await harness.read(task)
    assert (status["status"], status["error_message"]) == ("UPLOAD_FAILED", "Required files not found in storage")
    assert sorted(status["missing"]) == ["baseline", "parameters"]
    assert (await harness.http.get(f"/api/v1/tasks/{task}/why")).json()["reason"] == "files_missing"
    links = await harness.links(task)
    await harness.put(links["primary"])
    assert (await harness.process(task)).status_code == 202


@pytest.mark.parametrize(
    ("promised", "says"),
    [
        ({"size": 5}, "primary has 12 bytes instead of 5."),
        ({"sha256": sha256(b"other")}, "primary has another sha256 than was promised."),
    ],
)
async def test_what_a_bucket_lets_through_is_found_when_it_is_processed(
    harness: Harness, tmp_path: Path, promised: dict[str, Any], says: str
) -> None:
    task = await harness.create()
    await harness.links(task, primary=promised)
    await put_at(harness, task, "primary", TABLE, tmp_path)
    answer = await harness.process(task)
    assert (answer.status_code, answer.json()["code"], answer.json()["missing"]) == (409, "files-missing", ["primary"])
    assert says in answer.json()["detail"]
    assert await harness.files_of(task) == ["uploads"]


async def test_parameters_that_are_too_long_are_found_too(harness: Harness, tmp_path: Path) -> None:
    task = await harness.create()
    await harness.put((await harness.links(task, parameters=True))["primary"])
    await put_at(harness, task, "parameters", b" " * (1024 * 1024 + 1), tmp_path)
    answer = await harness.process(task)
    assert (answer.status_code, answer.json()["missing"]) == (409, ["parameters"])


async def put_at(harness: Harness, task: str, role: str, body: bytes, folder: Path) -> None:
    """Put a file where its link leads, without the link."""
    (folder / "file").write_bytes(body)
    (key,) = [one.upload_key for one in (await harness.analyses.read(UUID(task))).files if one.role == role]
    await harness.objects.put(key, folder / "file", content_type="text/csv")


async def test_a_wrong_upload_has_a_new_place_the_next_time(harness: Harness, tmp_path: Path) -> None:
    task = await harness.create(["lines"])
    promise = {"sha256": sha256(TABLE), "size": len(TABLE)}
    await harness.links(task, primary=promise)
    await put_at(harness, task, "primary", TABLE.upper(), tmp_path)
    assert (await harness.process(task)).status_code == 409
    link = (await harness.links(task, primary=promise))["primary"]
    assert not link["uploaded"]
    assert (await harness.put(link)).status_code == 200
    assert (await harness.process(task)).status_code == 202


async def test_two_who_ask_for_links_at_once_have_links_that_count(harness: Harness) -> None:
    for _ in range(5):
        task = await harness.create(["free"])
        answers = await asyncio.gather(*(harness.ask_links(task) for _ in range(4)))
        links = [one.json()["uploads"]["primary"] for one in answers]
        assert (await harness.put(links[0])).status_code == 200
        assert (await harness.process(task)).status_code == 202


async def test_who_looked_where_nothing_is_to_be_any_more_says_nothing(harness: Harness) -> None:
    task = await harness.create(["free"])
    await harness.links(task, primary={"filename": "old.csv"})
    before = await harness.analyses.read(UUID(task))
    await harness.put((await harness.links(task, primary={"filename": "new.csv"}))["primary"])
    with pytest.raises(MoveRefused, match="New links were asked for"):
        await Intake(harness.store, harness.objects).process(before)
    assert (await harness.process(task)).status_code == 202


async def test_a_checksum_may_be_written_in_capitals(harness: Harness) -> None:
    task = await harness.create(["free"])
    await harness.put((await harness.links(task, primary={"sha256": sha256(TABLE).upper()}))["primary"])
    assert (await harness.process(task)).status_code == 202


async def test_without_credits_nothing_is_copied(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    async with harness_of(harness, "ada", 1) as ada:
        task = await ada.uploaded()
        monkeypatch.setattr(harness.objects, "copy", None)
        assert (await ada.process(task)).status_code == 402


async def test_links_that_are_asked_for_while_it_is_processed_win(harness: Harness) -> None:
    task = await harness.uploaded(["free"])
    before = await harness.analyses.read(UUID(task))
    await harness.links(task, primary={"filename": "another.csv"})
    with pytest.raises(MoveRefused, match="not verified: primary"):
        await Intake(harness.store, harness.objects).process(before)
    assert (await harness.read(task))["status"] == "UPLOADING"
    assert await harness.files_of(task) == ["uploads"]
