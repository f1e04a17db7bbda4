"""The status that a client reads: the fields, codes, categories and entries of the contract."""

from datetime import datetime
from typing import Any

import pytest

from holdfast.engine.task import Failed
from holdfast.lifecycles.analysis.declaration import ANALYSIS
from holdfast.lifecycles.analysis.status import ERRORS
from tests.lifecycles.analysis.harness import Harness, lasting
from tests.lifecycles.analysis.test_matrix import AT

DISPLAY = {
    "CREATED": ("Initializing", "gray", "clock", "Preparing your analysis..."),
    "UPLOADING": ("Uploading", "blue", "upload", "Please upload your files and parameters"),
    "UPLOAD_FAILED": ("Upload Failed", "red", "error", "File upload failed. Please try again."),
    "QUEUED": ("Ready", "yellow", "queue", "Files received, starting analysis..."),
    "PROCESSING": ("Processing", "blue", "spinner", "Analysis in progress..."),
    "COMPLETED": ("Complete", "green", "check", "Analysis completed successfully!"),
    "FAILED": ("Failed", "red", "error", "Analysis failed. See details below."),
    "CANCELLED": ("Cancelled", "gray", "cancel", "Analysis was cancelled."),
    "EXPIRED": ("Expired", "gray", "clock", "Task expired. Please create a new analysis."),
}
#            category, progress, poll, actions, timestamp of the state
STATUS: dict[str, tuple[str, int, int | None, list[str], str]] = {
    "CREATED": ("Pending", 0, 3000, ["upload-urls", "cancel"], "created_at"),
    "UPLOADING": ("Pending", 10, 2000, ["upload-urls", "process", "cancel"], "upload_started_at"),
    "UPLOAD_FAILED": ("Pending", 10, None, ["upload-urls", "cancel"], "updated_at"),
    "QUEUED": ("Ready", 15, 1000, ["cancel"], "updated_at"),
    "PROCESSING": ("Active", 15, 3000, ["cancel"], "processing_started_at"),
    "COMPLETED": ("Terminal", 100, None, ["downloads"], "completed_at"),
    "FAILED": ("Terminal", 15, None, ["downloads"], "failed_at"),
    "CANCELLED": ("Terminal", 0, None, ["downloads"], "cancelled_at"),
    "EXPIRED": ("Terminal", 0, None, [], "expired_at"),
}


@pytest.mark.parametrize("state", STATUS)
async def test_each_status_is_answered_with_all_that_belongs_to_it(harness: Harness, state: str) -> None:
    task = await AT[state](harness)
    status = await harness.read(task)
    category, progress, poll, actions, stamp = STATUS[state]
    assert (status["status"], status["category"], status["progress"]) == (state, category, progress)
    assert (status["poll_after_ms"], status["actions"]) == (poll, actions)
    assert status["display"] == dict(zip(("label", "color", "icon", "message"), DISPLAY[state], strict=True))
    assert datetime.fromisoformat(status[stamp]) <= harness.clock.now()
    assert status["user_id"] == ""
    assert (status["tool_id"], status["agents"]) == ("count", ["lines", "size"])
    entered = {"processing_started_at", "completed_at", "failed_at", "cancelled_at", "expired_at"}
    visited = {one.to_state for one in await harness.store.events(task)}
    expected = {name for name in entered if name.removesuffix("_started_at").removesuffix("_at").upper() in visited}
    assert {name for name in entered if status[name]} == expected


@pytest.mark.parametrize(
    ("fails", "code", "category", "message", "recovery"),
    [
        ("format", "FILE_FORMAT_ERROR", "SchemaInvalid", "Invalid file format: line 3 has 2 fields, the header has 3",
         "Fix file format, create new task"),
        ("read", "FILE_READ_ERROR", "SchemaInvalid", "Could not read input file: it ends in the middle",
         "Fix file, create new task"),
        ("fatal", "AGENT_ERROR", "Fatal", "Agent execution failed: lines: this cannot be counted",
         "Review error, fix data, create new task"),
        ("bug", "AGENT_ERROR", "Fatal", "Agent execution failed: lines", "Review error, fix data, create new task"),
        ("transient", "AGENT_ERROR", "Fatal", "Agent execution failed: lines",
         "Review error, fix data, create new task"),
    ],
)  # fmt: skip
async def test_each_failure_of_an_agent_has_its_code(
    harness: Harness, fails: str, code: str, category: str, message: str, recovery: str
) -> None:
    task = await harness.queued(["size", "lines"], lines={"fails": fails})
    harness.engine.drain()
    status = await harness.read(task)
    assert status["status"] == "FAILED"
    assert (status["error_code"], status["error_category"], status["error_message"]) == (code, category, message)
    assert (status["recovery_action"], status["recoverable"]) == (recovery, False)
    assert status["progress"] == 55
    assert status["progress_detail"] == {
        "current_stage": "failed", "current_agent": None, "agents_total": 2, "agents_completed": 1,
    }  # fmt: skip


@pytest.mark.parametrize("code", ["BILLING_INSUFFICIENT_CREDITS", "BILLING_WALLET_NOT_FOUND"])
async def test_a_failure_for_want_of_credits_says_how_to_go_on(harness: Harness, code: str) -> None:
    task, lease = await harness.processing()
    await harness.store.finish(lease, Failed("Fatal", "", code=code))
    status = await harness.read(task)
    assert (status["error_code"], status["error_message"]) == (code, ERRORS[code].message)
    assert (status["recovery_action"], status["recoverable"]) == ("Add credits, create new task", True)


async def test_a_task_whose_workers_die_is_an_internal_error(harness: Harness) -> None:
    task, lease = await harness.processing()
    for _ in range(3):
        await harness.store.mark_lost([lease])
        harness.clock.advance(minutes=1)
        for lease in await harness.store.claim_these([task], lasting=lasting, worker="a test"):  # noqa: B007
            pass
    status = await harness.read(task)
    assert (status["status"], status["error_code"]) == ("FAILED", "INTERNAL_ERROR")
    assert status["error_message"] == "Internal server error"


def test_the_seven_codes_have_each_a_text_and_one_of_the_categories() -> None:
    assert {code: error.message for code, error in ERRORS.items()} == {
        "AGENT_ERROR": "Agent execution failed",
        "BILLING_INSUFFICIENT_CREDITS": "Insufficient credits",
        "BILLING_WALLET_NOT_FOUND": "Wallet not found",
        "FILE_READ_ERROR": "Could not read input file",
        "FILE_FORMAT_ERROR": "Invalid file format",
        "TIMEOUT_ERROR": "Processing timeout exceeded",
        "INTERNAL_ERROR": "Internal server error",
    }
    assert {error.category for error in ERRORS.values()} <= {"RateLimited", "Transient", "SchemaInvalid", "Fatal"}


@pytest.mark.parametrize(
    ("state", "recovery", "recoverable"),
    [
        ("UPLOAD_FAILED", "Request new upload URLs, retry upload", True),
        ("EXPIRED", "Create new task", True),
        ("COMPLETED", None, False),
    ],
)
async def test_a_status_says_how_to_recover(harness: Harness, state: str, recovery: str, recoverable: bool) -> None:
    status = await harness.read(await AT[state](harness))
    assert (status["recovery_action"], status["recoverable"]) == (recovery, recoverable)


async def test_progress_goes_agent_by_agent(harness: Harness) -> None:
    task, lease = await harness.processing(["lines", "size", "free"])
    seen: list[tuple[int, Any, str]] = []

    async def look() -> None:
        status = await harness.read(task)
        detail = status["progress_detail"]
        assert detail["agents_total"] == 3
        assert detail["current_agent"] == status["current_agent"]
        assert detail["agents_completed"] == status["agents_completed_count"] == len(seen)
        seen.append((status["progress"], detail["current_agent"], detail["current_stage"]))

    await look()
    for agent in ("lines", "size", "free"):
        await harness.store.keep(lease, agent, [])
        await look()
    assert seen == [
        (15, "lines", "agent_execution"), (41, "size", "agent_execution"), (68, "free", "agent_execution"),
        (95, None, "finalizing"),
    ]  # fmt: skip


async def test_a_cancelled_task_stays_where_it_was(harness: Harness) -> None:
    task, lease = await harness.processing()
    await harness.store.keep(lease, "lines", [])
    await harness.cancel(task)
    await harness.store.release_leases("a test")
    status = await harness.read(task)
    assert (status["status"], status["progress"]) == ("CANCELLED", 55)


def test_the_states_are_the_nine() -> None:
    assert [state.name for state in ANALYSIS.states] == list(DISPLAY)
