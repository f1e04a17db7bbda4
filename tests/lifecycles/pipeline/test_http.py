"""Pipelines over HTTP: a job is made, answer of stage by stage, cancelled, retried; its files are fetched."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.sdk.client import override_settings
from holdfast.settings import Settings
from holdfast.testing.engine import Engine
from tests.http.conftest import client
from tests.lifecycles.pipeline import app
from tests.lifecycles.pipeline.harness import Harness, harness_at, statuses
from tests.promises.stage import submit

MISSING = "01b8dac5-b400-730f-8c80-71bbed710aed"


@pytest.fixture
async def harness(holdfast: Engine, tmp_path: Path) -> AsyncIterator[Harness]:
    settings = Settings(url=holdfast.database.url, home=tmp_path / "home")
    app.RAN.clear()
    with override_settings(settings):
        async with harness_at(holdfast, settings) as harness:
            yield harness


async def test_a_job_is_made_and_read_and_its_files_are_fetched(harness: Harness) -> None:
    body = {"pipeline": "press", "enable_evaluation": True, "params": {"articles": 3}}
    made = await harness.post("/pipeline/jobs", body, status=201)
    assert (made["status"], made["cancel_requested"], made["poll_after_ms"]) == ("PENDING", False, 2000)
    assert made["params"] == {"articles": 3, "enable_evaluation": True}
    assert [one["name"] for one in made["stages"]] == list(app.NAMES)
    assert set(statuses(made).values()) == {"pending"}
    harness.work()
    done = await harness.job(made["job_id"])
    assert (done["status"], done["summary"], done["error"], done["poll_after_ms"]) == (
        "COMPLETED", {"articles": 3}, None, None,
    )  # fmt: skip
    assert statuses(done) == {**dict.fromkeys(app.NAMES, "completed"), "OPTIMIZATION": "skipped"}
    assert done["stages"][-1]["reason"] == "enable_auto_optimize is off."
    assert done["stages"][3]["outputs"] == [
        {"name": "brief.md", "bytes": 22, "content_type": "text/markdown; charset=utf-8"}
    ]
    assert done["created_at"] <= done["started_at"] <= done["stages"][0]["started_at"] <= done["finished_at"]
    (file,) = (await harness.get(f"/pipeline/jobs/{made['job_id']}/outputs"))["outputs"]
    assert (file["name"], file["stage"], file["bytes"]) == ("brief.md", "BRIEF", 22)
    fetched = await harness.http.get(file["url"])
    assert (fetched.text, fetched.headers["content-type"]) == ("3 articles, 3 softened", file["content_type"])


async def test_what_went_wrong_stands_with_its_stage(harness: Harness) -> None:
    some = await harness.run({"CLASSIFY": "fatal", "INGEST": "partial"})
    assert (some["status"], some["summary"]) == ("PARTIAL", None)
    first, second, third, *_ = some["stages"]
    assert (first["status"], first["errors"]) == ("partial", ["INGEST: one of two was lost."])
    assert (second["status"], second["errors"]) == ("failed", ["CLASSIFY is broken."])
    assert (third["status"], third["reason"]) == ("skipped", "It needs CLASSIFY, which failed.")
    none = await harness.run({"INGEST": "fatal"})
    assert (none["status"], none["error"]) == ("FAILED", "INGEST: INGEST is broken.")


async def test_the_same_key_makes_one_job_and_other_parameters_are_refused(harness: Harness) -> None:
    headers = {"Idempotency-Key": "morning"}
    body = {"pipeline": "press", "enable_evaluation": False}
    first, again = [await harness.http.post("/pipeline/jobs", json=body, headers=headers) for _ in range(2)]
    assert [one.headers.get("Idempotency-Replayed") for one in (first, again)] == [None, "true"]
    assert (again.status_code, again.json()) == (201, first.json())
    other = await harness.http.post("/pipeline/jobs", json={**body, "enable_evaluation": True}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "key-conflict")
    assert len((await harness.get("/pipeline/jobs"))["items"]) == 1


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"pipeline": "pres"}, "There is no pipeline 'pres'. There are: "),
    ({"params": {"article": 3}}, "'article' is not a parameter of press. press takes: articles, enable_auto_optimize"),
    ({"params": {"articles": "3"}}, "articles is a string, and not integer. press takes: articles"),
    (
        {"enable_evaluation": True, "params": {"enable_evaluation": False}},
        "enable_evaluation is True here, and False among the parameters. Name it once.",
    ),
]


async def test_what_no_stage_takes_is_refused_with_what_it_takes(harness: Harness) -> None:
    for body, says in REFUSED:
        refused = await harness.http.post("/pipeline/jobs", json={"pipeline": "press", **body})
        assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")
        assert says in " ".join(refused.json()["detail"].split())
    assert (await harness.get("/pipeline/jobs"))["items"] == []
    agreeing = {"pipeline": "press", "enable_evaluation": True, "params": {"enable_evaluation": True}}
    assert (await harness.post("/pipeline/jobs", agreeing, status=201))["params"] == {"enable_evaluation": True}


async def test_a_flag_is_a_boolean_and_an_unknown_field_is_no_parameter(harness: Harness) -> None:
    for wrong in ({"enable_evaluation": "yes"}, {"enable_evaluation": 1}, {"articles": 3}):
        refused = await harness.http.post("/pipeline/jobs", json={"pipeline": "press", **wrong})
        assert (refused.status_code, refused.json()["errors"][0]["loc"]) == (422, ["body", *wrong])


async def test_a_cancel_says_whether_it_took_effect(harness: Harness) -> None:
    waits = await harness.begin()
    answer = await harness.post(f"/pipeline/jobs/{waits}/cancel", {"reason": "too early"})
    assert answer == {"job_id": waits, "status": "CANCELLED", "effect": "cancelled"}
    job = await harness.job(waits)
    assert (job["error"], job["finished_at"] is None) == ("too early", False)
    assert {one["reason"] for one in job["stages"]} == {"The job was cancelled before it."}
    assert (await harness.post(f"/pipeline/jobs/{waits}/cancel"))["effect"] == "too_late"
    held = await harness.begin()
    await harness.take()
    answer = await harness.post(f"/pipeline/jobs/{held}/cancel")
    assert (answer["status"], answer["effect"]) == ("RUNNING", "requested")
    assert (await harness.job(held))["cancel_requested"] is True


async def test_a_retry_keeps_what_is_done_and_begins_at_the_stage_that_is_named(harness: Harness) -> None:
    first = await harness.run({"BRIEF": ["fatal", None]})
    assert first["status"] == "PARTIAL"
    made = await harness.post(f"/pipeline/jobs/{first['job_id']}/retry")
    assert (made["status"], made["retry_of"]) == ("PENDING", first["job_id"])
    harness.work()
    second = await harness.job(made["job_id"])
    assert (second["status"], second["retry_of"]) == ("COMPLETED", first["job_id"])
    assert (app.RAN["CLASSIFY"], app.RAN["BRIEF"]) == (1, 2)
    third = await harness.post(f"/pipeline/jobs/{second['job_id']}/retry", {"from_stage": "classify"})
    harness.work()
    assert (app.RAN["INGEST"], app.RAN["CLASSIFY"], app.RAN["BRIEF"]) == (1, 2, 3)
    wrong = await harness.http.post(f"/pipeline/jobs/{third['job_id']}/retry", json={"from_stage": "PRINT"})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "step-unknown")
    assert "Its stages are: INGEST, CLASSIFY," in wrong.json()["detail"]
    runs = await harness.begin()
    assert (await harness.post(f"/pipeline/jobs/{runs}/retry", status=409))["code"] == "move-refused"


async def test_links_last_an_hour_and_files_thirty_days(harness: Harness) -> None:
    job = (await harness.run())["job_id"]
    outputs = f"/pipeline/jobs/{job}/outputs"
    (file,) = (await harness.get(outputs))["outputs"]
    lasting = datetime.fromisoformat(file["expires_at"]) - harness.clock.now().astimezone(UTC)
    assert lasting == timedelta(hours=1)
    harness.clock.advance(days=29, hours=23, minutes=30)
    (file,) = (await harness.get(outputs))["outputs"]
    lasting = datetime.fromisoformat(file["expires_at"]) - harness.clock.now().astimezone(UTC)
    assert lasting == timedelta(minutes=30)
    harness.clock.advance(minutes=30)
    gone = await harness.http.get(outputs)
    assert (gone.status_code, "its files were kept until" in gone.json()["detail"]) == (410, True)
    assert (await harness.job(job))["status"] == "COMPLETED"


async def test_a_job_without_files_and_one_that_waits_have_no_links(harness: Harness) -> None:
    waits = await harness.begin({"INGEST": "fatal"})
    assert (await harness.get(f"/pipeline/jobs/{waits}/outputs"))["outputs"] == []
    harness.work()
    assert await harness.get(f"/pipeline/jobs/{waits}/outputs") == {"job_id": waits, "status": "FAILED", "outputs": []}


async def test_jobs_are_listed_by_pipeline_and_state_page_by_page(harness: Harness) -> None:
    done = []
    for _ in range(2):
        done.append((await harness.run())["job_id"])
        harness.clock.advance(seconds=1)
    waits = await harness.begin()
    await submit(harness.store)
    page = await harness.get("/pipeline/jobs", limit=2)
    assert [one["job_id"] for one in page["items"]] == [waits, done[1]]
    assert (page["approx_count"], page["capped"]) == (3, False)
    last = await harness.get("/pipeline/jobs", cursor=page["next"])
    assert ([one["job_id"] for one in last["items"]], last["next"]) == ([done[0]], None)
    found = await harness.get("/pipeline/jobs", status="COMPLETED", pipeline="press")
    assert {one["job_id"] for one in found["items"]} == set(done)
    assert (await harness.get("/pipeline/jobs", pipeline="newsroom"))["items"] == []


async def test_a_running_stage_shows_how_far_it_is(harness: Harness) -> None:
    job = await harness.begin()
    assert (await harness.job(job))["progress"] is None
    lease = await harness.take()
    progress = {"done": 0.5, "total": 7, "note": "two feeds read", "step": "INGEST"}
    await harness.store.heartbeat([lease], lasting=timedelta(minutes=1), progress={lease.task_id: progress})
    now = await harness.job(job)
    assert (now["status"], now["progress"], now["poll_after_ms"]) == ("RUNNING", progress, 1000)


async def test_pipelines_say_what_they_take_and_whether_they_are_ready(harness: Harness) -> None:
    press = await pressed(harness)
    assert (press["name"], press["ready"], press["settings"]) == ("press", False, {})
    assert [one["name"] for one in press["stages"]] == list(app.NAMES)
    assert press["params"]["articles"] == {"kinds": ["integer"], "default": 2}
    await harness.store.hello("w", label="here", queues=["pipeline"], names=["press"], slots=1)
    assert (await pressed(harness))["ready"] is True


async def pressed(harness: Harness) -> dict[str, Any]:
    items: list[dict[str, Any]] = (await harness.get("/pipeline/pipelines"))["items"]
    return next(one for one in items if one["name"] == "press")


async def test_settings_are_for_jobs_to_come_and_null_takes_one_away(harness: Harness) -> None:
    place = "/pipeline/pipelines/press/settings"
    before = await harness.begin()
    answer = await harness.http.put(place, json={"settings": {"articles": 5}})
    assert (answer.status_code, answer.json()) == (200, {"name": "press", "settings": {"articles": 5}})
    after = await harness.begin()
    assert [(await harness.job(one))["settings"] for one in (before, after)] == [{}, {"articles": 5}]
    harness.work()
    assert [(await harness.job(one))["summary"] for one in (before, after)] == [{"articles": 2}, {"articles": 5}]
    assert (await harness.http.put(place, json={"settings": {"articles": None}})).json()["settings"] == {}
    for wrong in ({"articles": "many"}, {"pages": 3}):
        refused = await harness.http.put(place, json={"settings": wrong})
        assert (refused.status_code, "press takes: articles" in refused.json()["detail"]) == (422, True)
    unknown = await harness.http.put("/pipeline/pipelines/pres/settings", json={"settings": {}})
    assert (unknown.status_code, "There is no pipeline 'pres'." in unknown.json()["detail"]) == (404, True)


async def test_what_is_no_job_is_not_found_and_other_tasks_are_none(harness: Harness) -> None:
    other = await submit(harness.store)
    for job in (MISSING, other):
        for method, path in (("GET", ""), ("POST", "/cancel"), ("POST", "/retry"), ("GET", "/outputs")):
            answer = await harness.http.request(method, f"/pipeline/jobs/{job}{path}")
            assert (answer.status_code, answer.json()["code"]) == (404, "task-not-found")
    assert (await harness.store.read(other))["state"] == "Queued"


async def test_below_admin_it_is_the_same_and_only_operators_come_in(harness: Harness) -> None:
    user, operator = [(await harness.store.keys.make(f"a {role}", [role])).secret for role in ("user", "operator")]
    async with client(harness.app, user) as theirs, client(harness.app, operator) as http:
        made = (await http.post("/admin/pipeline/jobs", json={"pipeline": "press"})).json()
        assert (await http.get(f"/pipeline/jobs/{made['job_id']}")).json() == made
        assert (await http.get("/admin/pipeline/jobs")).json()["items"] == [made]
        for prefix in ("", "/admin"):
            refused = await theirs.get(f"{prefix}/pipeline/jobs/{made['job_id']}")
            assert (refused.status_code, refused.json()["code"]) == (403, "role-missing")
        paths = (await http.get("/api/openapi.json")).json()["paths"]
    assert "/pipeline/jobs" in paths
    assert not [path for path in paths if path.startswith("/admin")]
