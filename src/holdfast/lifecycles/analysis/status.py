"""The status of a user task, as GET /tasks/{id} answers: rendered from the database's record, and from nothing else.

Labels and progress of a state come from the declaration. The rest is the contract with clients: error codes,
categories, how soon to ask again, what to do about a failure.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from holdfast.http.parts import Part, PartStatus
from holdfast.lifecycles.analysis.declaration import ANALYSIS
from holdfast.lifecycles.analysis.store import Analysis

NEW_LINKS, NEW_TASK = "Request new upload URLs, retry upload", "Create new task"
ADD_CREDITS = "Add credits, create new task"


class View(NamedTuple):
    """What a client reads of a state."""

    category: str
    stage: str
    actions: Sequence[str]
    poll_after_ms: int | None = None
    recovery: str | None = None
    stamp: str | None = None
    """The field with the time at which it came into this state."""


class Error(NamedTuple):
    """What a client reads of an error."""

    message: str
    category: str
    recovery: str
    recoverable: bool = False


VIEWS: Mapping[str, View] = {
    "CREATED": View("Pending", "created", ("upload-urls", "cancel"), 3000),
    "UPLOADING": View("Pending", "upload", ("upload-urls", "process", "cancel"), 2000),
    "UPLOAD_FAILED": View("Pending", "upload", ("upload-urls", "cancel"), recovery=NEW_LINKS),
    "QUEUED": View("Ready", "queued", ("cancel",), 1000),
    "PROCESSING": View("Active", "agent_execution", ("cancel",), 3000, stamp="processing_started_at"),
    "COMPLETED": View("Terminal", "completed", ("downloads",), stamp="completed_at"),
    "FAILED": View("Terminal", "failed", ("downloads",), stamp="failed_at"),
    "CANCELLED": View("Terminal", "cancelled", ("downloads",), stamp="cancelled_at"),
    "EXPIRED": View("Terminal", "expired", (), recovery=NEW_TASK, stamp="expired_at"),
}
ERRORS: Mapping[str, Error] = {
    "AGENT_ERROR": Error("Agent execution failed", "Fatal", "Review error, fix data, create new task"),
    "BILLING_INSUFFICIENT_CREDITS": Error("Insufficient credits", "Fatal", ADD_CREDITS, recoverable=True),
    "BILLING_WALLET_NOT_FOUND": Error("Wallet not found", "Fatal", ADD_CREDITS, recoverable=True),
    "FILE_READ_ERROR": Error("Could not read input file", "SchemaInvalid", "Fix file, create new task"),
    "FILE_FORMAT_ERROR": Error("Invalid file format", "SchemaInvalid", "Fix file format, create new task"),
    "TIMEOUT_ERROR": Error(
        "Processing timeout exceeded", "Transient", "Send less data or fewer agents, create new task"
    ),
    "INTERNAL_ERROR": Error("Internal server error", "Transient", NEW_TASK),
}


def render(task: Analysis) -> dict[str, Any]:
    """The status of this task."""
    state, view, done, current = task.state, VIEWS[task.state], task.completed_agents, task.current_agent
    code, message = error_of(task)
    error = ERRORS[code] if code else None
    updated = [task.transitions[-1].at, *(one.at for one in task.steps), *([task.linked_at] if task.linked_at else [])]
    return {
        "task_id": task.task_id,
        "user_id": task.owner,
        "tool_id": task.tool_id,
        "agents": task.agents,
        "parts": [part_of(agent, task) for agent in task.agents],
        "status": state,
        "category": view.category,
        "progress": progress_of(task),
        "progress_detail": {
            "current_stage": "finalizing" if state == "PROCESSING" and current is None else view.stage,
            "current_agent": current,
            "agents_total": len(task.agents),
            "agents_completed": len(done),
        },
        "current_agent": current,
        "agents_completed_count": len(done),
        "error_code": code,
        "error_message": message,
        "error_category": error.category if error else None,
        "recovery_action": error.recovery if error else view.recovery,
        "recoverable": error.recoverable if error else view.recovery is not None,
        "missing": task.missing,
        "created_at": moment(task.created_at),
        "updated_at": moment(max(updated)),
        "upload_started_at": moment(task.linked_at),
        **{one.stamp: moment(last_entered(task, state)) for state, one in VIEWS.items() if one.stamp},
        "expires_at": moment(task.deadline),
        "cancel_requested": task.cancel_requested,
        "credits": {"price": sum(task.prices.values()), "charged": task.charged, "reserved": task.reserved},
        "s3_cleaned": task.cleaned,
        "outputs_kept_until": moment(task.outputs_kept_until),
        "display": display_of(state),
        "actions": list(view.actions),
        "poll_after_ms": view.poll_after_ms,
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
        return "TIMEOUT_ERROR", ERRORS["TIMEOUT_ERROR"].message
    code, step = str(note.get("code")), note.get("step")
    if code in ERRORS:
        return code, f"{ERRORS[code].message}: {note.get('message', '')}".removesuffix(": ")
    if step is None:
        return "INTERNAL_ERROR", ERRORS["INTERNAL_ERROR"].message
    if "code" not in note and note.get("category") in ("SchemaInvalid", "Fatal"):  # the agent's own message
        step = f"{step}: {note.get('message', '')}"
    return "AGENT_ERROR", f"{ERRORS['AGENT_ERROR'].message}: {step}"


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
