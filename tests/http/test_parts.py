"""Parts: batches, ingest runs, jobs of pipelines, graphs and user tasks say in one form how far they are."""

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.engine.progress import read_progress
from holdfast.http.parts import Part
from holdfast.lifecycles.analysis.status import part_of as agent_part
from holdfast.lifecycles.batch.routes import part_of as job_part
from holdfast.lifecycles.batch.store import Job
from holdfast.lifecycles.dispatch.graph_routes import part_of as node_part
from holdfast.lifecycles.ingest.routes import parts_of as run_parts
from holdfast.lifecycles.ingest.store import RunRecord
from holdfast.lifecycles.pipeline.routes import part_of as stage_part
from holdfast.lifecycles.pipeline.store import StageRecord


@pytest.mark.parametrize(
    ("job", "part"),
    [
        ({"status": "PLANNED"}, Part(name="job 1", status="waiting", done=1, total=2, note="not sent yet")),
        (
            {"status": "SUBMITTED", "provider_status": "half way", "model": "m1"},
            Part(name="job 1 m1", status="running", done=1, total=2, note="half way"),
        ),
        (
            {"status": "PARKED", "error": "who knows"},
            Part(name="job 1", status="waiting", done=1, total=2, note="waits for a person", error="who knows"),
        ),
        (
            {"status": "PARTIAL_COMPLETE", "finished_at": "2030-01-01T00:00:00Z", "done": 2, "ok": 1},
            Part(name="job 1", status="partial", done=2, total=2, note="1 of 2 ok"),
        ),
    ],
)
def test_a_job_of_a_batch_is_a_part(job: dict[str, Any], part: Part) -> None:
    known = {"number": 1, "model": None, "provider_status": None, "inputs": 2, "done": 1, "ok": 0, "error": None}
    assert job_part(Job.model_construct(**{**known, "finished_at": None, **job})) == part


@pytest.mark.parametrize(
    ("stage", "progress", "part"),
    [
        ({"status": "pending"}, None, Part(name="read", status="waiting")),
        (
            {"status": "running"},
            {"stage": "read", "done": 1, "total": 4, "note": "page 3"},
            Part(name="read", status="running", note="page 3"),
        ),
        (
            {"status": "running"},
            {"stage": "read", "note": "read", "step": "split"},
            Part(name="read", status="running", note="split"),
        ),
        ({"status": "running"}, {"stage": "before", "note": "old"}, Part(name="read", status="running")),
        ({"status": "skipped", "reason": "idle"}, None, Part(name="read", status="skipped", note="idle")),
        ({"status": "failed", "errors": ["a", "b"]}, None, Part(name="read", status="failed", error="a (and 1 more)")),
    ],
)
def test_a_stage_of_a_job_is_a_part(stage: dict[str, Any], progress: Any, part: Part) -> None:
    known = {"name": "read", "reason": None, "errors": [], "started_at": None, **stage}
    assert stage_part(StageRecord.model_construct(**known), progress) == part


@pytest.mark.parametrize(
    ("node", "part"),
    [
        ({"state": "Blocked"}, Part(name="load", status="waiting")),
        ({"state": "Dead", "outcome": "failed", "error": "no"}, Part(name="load", status="failed", error="no")),
        (
            {"state": "Running", "attempt": 2, "progress": {"done": 1, "total": 3, "note": "rows"}},
            Part(name="load", status="running", done=1, total=3, note="attempt 2 of 3, rows"),
        ),
    ],
)
def test_a_node_of_a_graph_is_a_part(node: dict[str, Any], part: Part) -> None:
    known = {
        "name": "load",
        "outcome": None,
        "attempt": 1,
        "max_attempts": 3,
        "progress": None,
        "error": None,
        "started_at": None,
    }
    assert node_part({**known, **node}) == part


def test_a_step_of_an_ingest_run_is_a_part_of_all_its_documents() -> None:
    def parts_of(status: str, finished_at: str | None = None) -> dict[str, Part]:
        steps = {"FETCHED": 3, "CHUNKED": 1, "TAGGED": 0}
        run: dict[str, Any] = {"status": status, "finished_at": finished_at, "item_count_total": 3, "steps": steps}
        return {one.name: one for one in run_parts(RunRecord.model_construct(**run))}

    parts = parts_of("RUNNING")
    assert list(parts)[-3:] == ["TAGGED", "PERSISTED", "INDEXED"]  # a step of one's own comes before PERSISTED
    assert [parts[name].status for name in ("FETCHED", "CHUNKED", "INDEXED")] == ["completed", "running", "waiting"]
    ended = parts_of("PARTIAL", "2030-01-01")
    assert (ended["CHUNKED"].status, ended["INDEXED"].status) == ("partial", "skipped")
    assert {one.status for one in parts_of("COMPLETED", "2030-01-01").values()} == {"completed"}
    # What has not changed skips steps, and is done all the same.


def test_an_agent_of_a_user_task_is_a_part() -> None:
    def statuses(state: str, note: Any = None) -> list[str]:
        current = "b" if state == "PROCESSING" else None
        task: Any = SimpleNamespace(state=state, note=note, completed_agents=["a"], current_agent=current)
        return [agent_part(agent, task)["status"] for agent in ("a", "b", "c")]

    assert statuses("PROCESSING") == ["completed", "running", "waiting"]
    assert statuses("FAILED", {"step": "b"}) == ["completed", "failed", "skipped"]
    assert statuses("CANCELLED") == ["completed", "cancelled", "cancelled"]


@pytest.mark.parametrize(
    ("reported", "read"),
    [
        ({"done": 3, "total": 4, "note": "rows"}, "3/4 rows"),
        ({"done": 3, "step": "load"}, "3 load"),
        ({"done": True, "total": "x"}, ""),
        (["odd"], ""),
    ],
)
def test_progress_that_makes_no_sense_is_left_out(reported: Any, read: str) -> None:
    assert str(read_progress(reported)) == read
