"""The simulation is worth its time only if it notices: each of these bugs, put into one function, breaks a history."""

from collections import Counter
from typing import Any

import pytest

from holdfast.testing import Ground
from tests.machine.opening import opened
from tests.simulation.simulation import Broken, play

OPERATIONS = 5000
SEEDS = 4

ENDS = "t.attempt = i.number and t.lease_token = i.held"
TOKEN = "t.lease_token = i.token and t.attempt = i.attempt"

BUGS = {
    "a settle without the right token": ("settle_each", TOKEN, "t.lease_token is not null and t.attempt = i.attempt"),
    "a settle of another attempt": ("settle_each", TOKEN, "t.lease_token = i.token"),
    "an end without the right token": ("end_tasks", ENDS, "t.attempt = i.number"),
    "an end of another attempt": ("end_tasks", ENDS, "t.lease_token = i.held"),
    "a heartbeat without the right token": ("heartbeat", TOKEN, "t.lease_token is not null and t.attempt = i.attempt"),
    "a checkpoint of another attempt": ("checkpoint", TOKEN, "t.lease_token = i.token"),
    "a death reported by another attempt": ("mark_lost", TOKEN, "t.lease_token = i.token"),
    "leases end a moment early": ("reap", "t.lease_expires_at < v_now", "t.lease_expires_at <= v_now"),
    "live leases are reaped": ("reap", "t.lease_expires_at < v_now", "true"),
    "a heartbeat keeps nothing": ("heartbeat", "expires_at = excluded.expires_at", "expires_at = b.expires_at"),
    "limits end a moment late": ("expire", "t.deadline <= holdfast.now()", "t.deadline < holdfast.now()"),
    "waits end a moment late": ("claim", "t.due_at <= holdfast.now()", "t.due_at < holdfast.now()"),
    "what is past its limit is claimed": ("claim_these", "t.deadline > holdfast.now()", "true"),
    "attempts begin anew": ("apply_moves", "attempt = t.attempt + m.bump", "attempt = t.attempt"),
    "failures are not counted": ("apply_moves", "failures = t.failures + ", "failures = 0 * "),
    "crashes are not counted": ("apply_moves", "crashes = t.crashes + ", "crashes = 0 * "),
    "a move without its event": (
        "record_moves", "get diagnostics v_written = row_count;", """get diagnostics v_written = row_count;
          delete from holdfast.event e using moved n
          where e.task_id = n.id and e.version = n.version and n.verb = 'later';""",
    ),
    "a move without its effects": (
        "record_moves", "where x.effects is not null", "where x.effects is not null and n.verb <> 'done'",
    ),
    "effects run twice": (
        "record_moves", "n.lifecycle offset 0) l", "n.lifecycle offset 0) l cross join generate_series(1, 2)",
    ),
    "a step is written twice": ("checkpoint", "where not s.done", "where true"),
    "dependents are not looked at again": ("find_cascade", "where d.upstream = any (p_ended)", "where false"),
    "one dependency is enough": ("resolve_blocked", "d.policy <> 'gather' and d.outcome is null", "false"),
    "children outlive their parents": ("end_tasks", "in ('failed', 'cancelled')", "in ('failed')"),
    "a budget is charged twice": ("spend", "v_tokens - amount", "greatest(v_tokens - 2 * amount, 0)"),
    "a key is taken twice": (
        "reserve_keys", "on conflict do nothing", "on conflict (owner, key) do update set task_id = excluded.task_id",
    ),
    "one more than allowed": ("admit", "select v_free - count(*)", "select v_free + 1 - count(*)"),
    "a place is not given on": ("cascade", "if p_limits is not null and p_admit then", "if false then"),
    "a paused queue is claimed from": ("claim", "and o.paused_at is null", ""),
    "the least urgent goes first": ("claim", "generate_series(9, 0, -1)", "generate_series(0, 9)"),
    "a wish to cancel is forgotten": ("apply_moves", "t.cancel_requested or m.move = 'ask_cancel'", "false"),
    "a failure without an inbox entry": ("end_tasks", "m.to_outcome = 'failed' and m.actor = 'worker'", "false"),
    "no repeat is recognised": ("settle_each", "d.token = i.token and d.attempt = i.attempt", "false"),
    "another result is taken for a repeat": ("settle_each", "d.result is not distinct from i.body", "true"),
    "another outcome is taken for a repeat": (
        "settle_each", "else d.body_hash = ", "else d.body_hash is distinct from ",
    ),
}  # fmt: skip


QUICK = {"a place is not given on", "waits end a moment late", "effects run twice"}
"""Enough for the first tier: what is tested here are the tests."""

# These come to light only after thousands of operations.
SLOW = {
    "a heartbeat keeps nothing",
    "children outlive their parents",
    "limits end a moment late",
    "what is past its limit is claimed",
    "another result is taken for a repeat",
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("function", "was", "is_now"),
    [
        pytest.param(
            *bug, id=name, marks=[pytest.mark.deep] * (name not in QUICK) + [pytest.mark.long] * (name in SLOW)
        )
        for name, bug in BUGS.items()
    ],
)
def test_a_bug_breaks_a_history(ground: Ground, function: str, was: str, is_now: str) -> None:
    with opened(ground, Counter()) as stage:
        stage[0].break_function(function, was, is_now)
        with pytest.raises(Broken, match=r"(?s)seed \d, history \d+, operation \d+.*Play it again"):
            play_all(stage)


def play_all(stage: Any) -> None:
    """Several seeds: what one of them finds is a matter of luck."""
    for seed in range(SEEDS):
        play(stage, seed, OPERATIONS)
