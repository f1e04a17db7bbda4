"""Vendors' answers, read with care: values that may be missing or of another kind, and jobs that are not shown yet."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.engine.task import Json
from holdfast.errors import Transient
from holdfast.lifecycles.batch.provider import Ended, Job, Running
from holdfast.remote.http_errors import as_json

shown_within = timedelta(minutes=5)  # two clocks are compared, hence the wide margin


def as_object(value: Json) -> dict[str, Any]:
    """The object, also if it comes as a text of JSON; an empty one for anything else."""
    value = as_json(value) if isinstance(value, str) else value
    return value if isinstance(value, dict) else {}


def as_int(value: Json) -> int:
    """The number, also if it comes as a text; 0 for anything else."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0


def id_in(answer: Mapping[str, Any], done: str) -> str:
    """The id of what was made. Raises Transient if the answer holds none: then it was made all the same."""
    found = answer.get("id")
    if not isinstance(found, str) or not found:
        raise Transient(f"{done}, but does not say which.")
    return found


def is_new(job: Job) -> bool:
    """Whether the vendor may have taken it and not show it yet: some answer from a copy."""
    return job.intended_at is not None and datetime.now(UTC) - job.intended_at < shown_within


def unknown_job(job: Job, reason: str) -> Running | Ended:
    """How a job stands that the vendor does not know: for this reason, unless it is new."""
    if is_new(job):
        return Running("not shown yet")
    return Ended("gone", "expired", reason, "Fatal", has_results=False)
