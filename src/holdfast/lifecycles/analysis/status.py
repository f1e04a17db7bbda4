"""The status of a user task, as GET /tasks/{id} answers: rendered from the database's record, and from nothing else.

Labels and progress of a state come from the declaration. The rest is the contract with clients: error codes,
categories, how soon to ask again, what to do about a failure.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from holdfast.http.parts import Part, PartStatus
from holdfast.lifecycles.analysis.declaration import ANALYSIS
from holdfast.lifecycles.analysis.store import Analysis

ERROR_CODES: Mapping[str, str] = {
    "AGENT_ERROR": "Agent execution failed",
    "BILLING_INSUFFICIENT_CREDITS": "Insufficient credits",
    "BILLING_WALLET_NOT_FOUND": "Wallet not found",
    "FILE_READ_ERROR": "Could not read input file",
    "FILE_FORMAT_ERROR": "Invalid file format",
    "TIMEOUT_ERROR": "Processing timeout exceeded",
    "INTERNAL_ERROR": "Internal server error",
}
ERROR_CATEGORIES: Mapping[str, str] = {
    "AGENT_ERROR": "Fatal",
    "BILLING_INSUFFICIENT_CREDITS": "Fatal",
    "BILLING_WALLET_NOT_FOUND": "Fatal",
    "FILE_READ_ERROR": "SchemaInvalid",
    "FILE_FORMAT_ERROR": "SchemaInvalid",
    "TIMEOUT_ERROR": "Transient",
    "INTERNAL_ERROR": "Transient",
}
RECOVERY: Mapping[str, str] = {
    "UPLOAD_FAILED": "Request new upload URLs, retry upload",
    "EXPIRED": "Create new task",
    "AGENT_ERROR": "Review error, fix data, create new task",
    "BILLING_INSUFFICIENT_CREDITS": "Add credits, create new task",
    "BILLING_WALLET_NOT_FOUND": "Add credits, create new task",
    "FILE_READ_ERROR": "Fix file, create new task",
    "FILE_FORMAT_ERROR": "Fix file format, create new task",
    "TIMEOUT_ERROR": "Send less data or fewer agents, create new task",
    "INTERNAL_ERROR": "Create new task",
}
RECOVERABLE = frozenset({"UPLOAD_FAILED", "EXPIRED", "BILLING_INSUFFICIENT_CREDITS", "BILLING_WALLET_NOT_FOUND"})
CATEGORIES: Mapping[str, str] = {
    "CREATED": "Pending", "UPLOADING": "Pending", "UPLOAD_FAILED": "Pending",
    "QUEUED": "Ready", "PROCESSING": "Active",
    "COMPLETED": "Terminal", "FAILED": "Terminal", "CANCELLED": "Terminal", "EXPIRED": "Terminal",
}  # fmt: skip
ACTIONS: Mapping[str, Sequence[str]] = {
    "CREATED": ("upload-urls", "cancel"),
    "UPLOADING": ("upload-urls", "process", "cancel"),
    "UPLOAD_FAILED": ("upload-urls", "cancel"),
    "QUEUED": ("cancel",),
    "PROCESSING": ("cancel",),
    "COMPLETED": ("downloads",),
    "FAILED": ("downloads",),
    "CANCELLED": ("downloads",),
    "EXPIRED": (),
}
POLL_AFTER_MS: Mapping[str, int] = {"CREATED": 3000, "UPLOADING": 2000, "QUEUED": 1000, "PROCESSING": 3000}
STAGES: Mapping[str, str] = {
    "CREATED": "created", "UPLOADING": "upload", "UPLOAD_FAILED": "upload", "QUEUED": "queued",
    "PROCESSING": "agent_execution", "COMPLETED": "completed", "FAILED": "failed", "CANCELLED": "cancelled",
    "EXPIRED": "expired",
}  # fmt: skip
ENTERED: Mapping[str, str] = {
    "processing_started_at": "PROCESSING", "completed_at": "COMPLETED", "failed_at": "FAILED",
    "cancelled_at": "CANCELLED", "expired_at": "EXPIRED",
}  # fmt: skip


def render(task: Analysis) -> dict[str, Any]:
    """The status of this task."""
    state, done, current = task.state, task.completed_agents, task.current_agent
    code, message = error_of(task)
    updated = [task.transitions[-1].at, *(one.at for one in task.steps), *([task.linked_at] if task.linked_at else [])]
    return {
        "task_id": task.task_id,
        "user_id": task.owner,
        "tool_id": task.tool_id,
        "agents": task.agents,
        "parts": [part_of(agent, task) for agent in task.agents],
        "status": state,
        "category": CATEGORIES[state],
        "progress": progress_of(task),
        "progress_detail": {
            "current_stage": "finalizing" if state == "PROCESSING" and current is None else STAGES[state],
            "current_agent": current,
            "agents_total": len(task.agents),
            "agents_completed": len(done),
        },
        "current_agent": current,
        "agents_completed_count": len(done),
        "error_code": code,
        "error_message": message,
        "error_category": ERROR_CATEGORIES[code] if code else None,
        "recovery_action": RECOVERY.get(code or state),
        "recoverable": (code or state) in RECOVERABLE,
        "missing": task.missing,
        "created_at": moment(task.created_at),
        "updated_at": moment(max(updated)),
        "upload_started_at": moment(task.linked_at),
        **{name: moment(last_entered(task, entered)) for name, entered in ENTERED.items()},
        "expires_at": moment(task.deadline),
        "cancel_requested": task.cancel_requested,
        "credits": {"price": sum(task.prices.values()), "charged": task.charged, "reserved": task.reserved},
        "s3_cleaned": task.cleaned,
        "outputs_kept_until": moment(task.outputs_kept_until),
        "display": display_of(state),
        "actions": list(ACTIONS[state]),
        "poll_after_ms": POLL_AFTER_MS.get(state),
    }


def moment(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def part_of(agent: str, task: Analysis) -> dict[str, Any]:
    """An agent as a part of its task."""
    status: PartStatus = "waiting"
    if agent in task.completed_agents:
        status = "completed"
    elif agent == task.current_agent:
        status = "running"
    elif task.state == "FAILED":
        status = "failed" if (task.note or {}).get("step") == agent else "skipped"
    elif task.state == "CANCELLED":
        status = "cancelled"
    return Part(name=agent, status=status).model_dump()


def display_of(state: str) -> dict[str, str]:
    """How a page displays the state."""
    display = ANALYSIS[state].display
    assert display is not None  # noqa: S101
    return {"label": display.label, "color": display.colour, "icon": display.icon, "message": display.message}


def error_of(task: Analysis) -> tuple[str | None, str | None]:
    """The error code and its message. Of an unexpected error in an agent's code users read where it was, not what."""
    note = task.note or {}
    if task.state == "UPLOAD_FAILED":
        return None, "Required files not found in storage"
    if task.state != "FAILED":
        return None, None
    if note.get("kind") == "time_limit":
        return "TIMEOUT_ERROR", ERROR_CODES["TIMEOUT_ERROR"]
    code, step = str(note.get("code")), note.get("step")
    if code in ERROR_CODES:
        return code, f"{ERROR_CODES[code]}: {note.get('message', '')}".removesuffix(": ")
    if step is None:
        return "INTERNAL_ERROR", ERROR_CODES["INTERNAL_ERROR"]
    if "code" not in note and note.get("category") in ("SchemaInvalid", "Fatal"):  # the agent's own message
        return "AGENT_ERROR", f"{ERROR_CODES['AGENT_ERROR']}: {step}: {note.get('message', '')}"
    return "AGENT_ERROR", f"{ERROR_CODES['AGENT_ERROR']}: {step}"


def progress_of(task: Analysis) -> int:
    """In percent. A task that ended early stays where it was."""
    visited = [task.state, *(one.from_state for one in reversed(task.transitions))]
    progress = next(ANALYSIS[state].progress for state in visited if state and ANALYSIS[state].progress is not None)
    if isinstance(progress, tuple):
        first, last = progress
        return first + (last - first) * len(task.completed_agents) // len(task.agents)
    assert progress is not None  # noqa: S101
    return progress


def last_entered(task: Analysis, state: str) -> datetime | None:
    """When it last came into this state."""
    return next((one.at for one in reversed(task.transitions) if one.to_state == state), None)
