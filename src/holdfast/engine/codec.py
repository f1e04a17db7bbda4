"""Leases, proofs and outcomes as JSON: between supervisor and runner, and between a worker and a server.

Written by field names, so that a field more on either side does no harm: `encode.from_json` leaves out what it does not
know.
"""

from typing import Any

from holdfast.engine.store import encode
from holdfast.engine.task import Failed, Json, Later, Lease, Outcome, Proof

LEASE_TIMES = ("expires_at", "due_at", "deadline")


def dump_lease(lease: Lease) -> dict[str, Any]:
    """A lease as JSON carries it."""
    found = dict(vars(lease))
    found["task_id"], found["token"] = lease.task_id.hex, lease.token.hex
    for name in LEASE_TIMES:
        found[name] = found[name] and found[name].isoformat()
    return found


def dump_proof(proof: Proof) -> dict[str, Any]:
    """What proves a lease, as the routes for workers take it."""
    return {"task_id": proof.task_id.hex, "attempt": proof.attempt, "lease_token": proof.token.hex}


def dump_outcome(outcome: Outcome) -> dict[str, dict[str, Json]]:
    """How an attempt ended, under its name. A failure must be settled, whatever its message holds."""
    found = dict(vars(outcome))
    if isinstance(outcome, (Failed, Later)):
        for name in ("message", "code", "budget"):
            if found.get(name):
                found[name] = encode.readable(found[name])
    return {type(outcome).__name__.lower(): found}
