"""What workers say and hear, as JSON: between keeper and runner, and between a worker and a server.

Written by field names, so that a field more on either side does no harm: what is not known here is left out.
"""

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from holdfast.engine.store import encode
from holdfast.engine.task import Failed, Json, Later, Lease, Outcome, Proof

T = TypeVar("T")

LEASE_FIELDS = tuple(one.name for one in fields(Lease))
LEASE_TIMES = ("expires_at", "due_at", "deadline")


def dump_lease(lease: Lease) -> dict[str, Any]:
    """A lease as JSON carries it."""
    said = dict(vars(lease))
    said["task_id"], said["token"] = lease.task_id.hex, lease.token.hex
    for name in LEASE_TIMES:
        said[name] = said[name] and said[name].isoformat()
    return said


def load_lease(said: Mapping[str, Any]) -> Lease:
    """The lease again."""
    given = {name: said[name] for name in LEASE_FIELDS if name in said}
    given["task_id"], given["token"] = UUID(said["task_id"]), UUID(said["token"])
    for name in LEASE_TIMES:
        given[name] = said[name] and datetime.fromisoformat(said[name])
    return Lease(**given)


def dump_proof(proof: Proof) -> dict[str, Any]:
    """What proves a lease, as the routes for workers take it."""
    return {"task_id": proof.task_id.hex, "attempt": proof.attempt, "lease_token": proof.token.hex}


def dump_outcome(outcome: Outcome) -> dict[str, dict[str, Json]]:
    """How an attempt ended, under its name. A failure must be settled, whatever its message holds."""
    said = dict(vars(outcome))
    if isinstance(outcome, (Failed, Later)):
        for name in ("message", "code", "budget"):
            if said.get(name):
                said[name] = encode.readable(said[name])
    return {type(outcome).__name__.lower(): said}


def load(kind: type[T], said: Mapping[str, Any], *, ids: tuple[str, ...] = (), times: tuple[str, ...] = ()) -> T:
    """One of the classes of task.py, with its ids and moments read."""
    given = {one.name: said[one.name] for one in fields(kind) if one.name in said}  # type: ignore[arg-type]
    given |= {name: UUID(given[name]) for name in ids}
    given |= {name: given[name] and datetime.fromisoformat(given[name]) for name in times}
    return kind(**given)
