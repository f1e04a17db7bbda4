"""A user task as its user sees it: rendered from what the database tells, and from nothing else.

What can be read off the declaration (labels, progress of a state) is read there. The rest is the contract with clients:
error codes, categories, how soon to ask again, what to do about a failure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.http.parts import Part, PartStatus
from holdfast.lifecycles.analysis.declaration import ANALYSIS

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


def render(found: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to GET /tasks/{id}, of what `Analyses.read` has found."""
    state, agents = found["state"], found["agents"]
    done = [one["name"] for one in found["steps"] if one["name"] in agents]
    code, message = error_of(found)
    current = current_agent(found, done)
    return {
        "task_id": found["task_id"],
        "user_id": found["owner"],
        "tool_id": found["tool_id"],
        "agents": agents,
        "parts": [part_of(agent, found, done, current) for agent in agents],
        "status": state,
        "category": CATEGORIES[state],
        "progress": progress_of(found, len(done)),
        "progress_detail": {
            "current_stage": stage_of(state, current),
            "current_agent": current,
            "agents_total": len(agents),
            "agents_completed": len(done),
        },
        "current_agent": current,
        "agents_completed_count": len(done),
        "error_code": code,
        "error_message": message,
        "error_category": ERROR_CATEGORIES[code] if code else None,
        "recovery_action": RECOVERY.get(code or state),
        "recoverable": (code or state) in RECOVERABLE,
        "missing": (found["note"] or {}).get("missing", []) if state == "UPLOAD_FAILED" else [],
        "created_at": found["created_at"],
        "updated_at": max([found["moves"][-1]["at"], found["linked_at"] or "", *(one["at"] for one in found["steps"])]),
        "upload_started_at": found["linked_at"],
        **{name: last_at(found, entered) for name, entered in ENTERED.items()},
        "expires_at": found["deadline"],
        "cancel_requested": found["cancel_requested"],
        "credits": {"price": sum(found["prices"].values()), "charged": found["charged"], "reserved": found["reserved"]},
        "s3_cleaned": found["cleaned"],
        "outputs_kept_until": found["outputs_kept_until"],
        "display": display_of(state),
        "actions": list(ACTIONS[state]),
        "poll_after_ms": POLL_AFTER_MS.get(state),
    }


def part_of(agent: str, found: Mapping[str, Any], done: Sequence[str], current: str | None) -> dict[str, Any]:
    """An agent as a part of its task."""
    status: PartStatus = "waiting"
    if agent in done:
        status = "completed"
    elif agent == current:
        status = "running"
    elif found["state"] == "FAILED":
        status = "failed" if (found["note"] or {}).get("step") == agent else "skipped"
    elif found["state"] == "CANCELLED":
        status = "cancelled"
    return Part(name=agent, status=status).model_dump()


def display_of(state: str) -> dict[str, str]:
    """How the state is shown to people."""
    shown = ANALYSIS[state].display
    assert shown is not None  # noqa: S101
    return {"label": shown.label, "color": shown.colour, "icon": shown.icon, "message": shown.message}


def error_of(found: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The error code and what to say about it. Of a surprise in an agent's code users hear where, not what."""
    note = found["note"] or {}
    if found["state"] == "UPLOAD_FAILED":
        return None, "Required files not found in storage"
    if found["state"] != "FAILED":
        return None, None
    if note.get("kind") == "time_limit":
        return "TIMEOUT_ERROR", ERROR_CODES["TIMEOUT_ERROR"]
    code, step = str(note.get("code")), note.get("step")
    if code in ERROR_CODES:
        return code, f"{ERROR_CODES[code]}: {note.get('message', '')}".removesuffix(": ")
    if step is None:
        return "INTERNAL_ERROR", ERROR_CODES["INTERNAL_ERROR"]
    if "code" not in note and note.get("category") in ("SchemaInvalid", "Fatal"):  # the agent's own words
        return "AGENT_ERROR", f"{ERROR_CODES['AGENT_ERROR']}: {step}: {note.get('message', '')}"
    return "AGENT_ERROR", f"{ERROR_CODES['AGENT_ERROR']}: {step}"


def progress_of(found: Mapping[str, Any], done: int) -> int:
    """In percent. A task that ended early stays where it was."""
    visited = [found["state"], *(one["from"] for one in reversed(found["moves"]))]
    shown = next(ANALYSIS[state].progress for state in visited if state and ANALYSIS[state].progress is not None)
    if isinstance(shown, tuple):
        first, last = shown
        return first + (last - first) * done // len(found["agents"])
    assert shown is not None  # noqa: S101
    return shown


def current_agent(found: Mapping[str, Any], done: Sequence[str]) -> str | None:
    """The agent that runs, by its worker's last word; before that, the one whose turn it is."""
    if found["state"] != "PROCESSING":
        return None
    if found["current_step"] in found["agents"] and found["current_step"] not in done:
        return str(found["current_step"])
    return next((agent for agent in found["agents"] if agent not in done), None)


def stage_of(state: str, current: str | None) -> str:
    return "finalizing" if state == "PROCESSING" and current is None else STAGES[state]


def last_at(found: Mapping[str, Any], state: str) -> str | None:
    """When it last came into this state."""
    times = [one["at"] for one in found["moves"] if one["to"] == state]
    return times[-1] if times else None
