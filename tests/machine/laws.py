"""The laws that hold between any two calls, whatever happened before; each reads one moment and the model."""

from collections.abc import Mapping, Set
from datetime import timedelta
from uuid import UUID

from holdfast.engine.lifecycle.model import Lifecycle
from tests.machine.model import Model
from tests.machine.seen import Row, Seen

REASONS = {
    "dependency": {"dependency"},
    "owner": {"owner", "files_missing"},
    "held": {"leased", "cancel_pending"},
    "waiting": {"backoff", "scheduled", "rate_budget", "provider_poll"},
    "unknown": {"unknown_task", "limit_reached"},
    "overdue": {"scheduled"},
    "paused": {"queue_paused"},
    "limit": {"limit_reached"},
    "ready": {"no_worker", "unknown_task", "limit_reached"},
    "final": {"final"},
}


def check(model: Model, tasks: Set[UUID] | None = None) -> None:
    """All of them; for these tasks, or for every one."""
    seen = model.seen
    if tasks is None:
        tasks = model.lives.keys()
    for task in tasks & seen.live.keys():
        row = seen.live[task]
        check_costs(model, task, row)
        check_deadline(seen.machine(task), row, seen)
        assert row["lease_token"] or not row["cancel_requested"], f"{task} is free and still to be cancelled"
    for (task, name), row in seen.steps.items():
        if task in tasks and task in seen.live:
            assert row["failures"] == model.lives[task].failures[name], f"failures of step {name} of {task}"
    assert not seen.setbacks, "the effects of no lifecycle refuse anything here"
    edges = {edge: row for edge, row in seen.edges.items() if edge[0] in tasks or edge[1] in tasks}
    if edges:
        check_edges(seen, edges)
        check_gathering(seen, {downstream for (_, downstream), row in edges.items() if row["policy"] == "gather"})
    check_blocked(seen, tasks)
    check_inbox(seen, tasks)
    for key, task in seen.keys.items():
        assert task in model.lives, f"the key {key} leads to {task}, which does not exist"


def check_costs(model: Model, task: UUID, row: Row) -> None:
    """Attempts are paid for by failures and crashes, neither of which passes its budget in a task that goes on."""
    life = model.lives[task]
    assert row["crashes"] == life.crashes < life.machine.crash_budget
    assert all(number < row["max_attempts"] for number in life.failures.values())
    assert row["failures"] == life.failures[None]
    waits = life.machine[row["state"]].actor == "clock"
    assert row["attempt"] == 1 + life.crashes + life.failures.total() - waits, "the attempt is not what was paid for"
    assert row["limited_since"] == life.limited_since


def check_deadline(machine: Lifecycle, row: Row, seen: Seen) -> None:
    """Limits count from the entry into the state, or from when a new task may begin; who may renew them is declared."""
    limit = machine[row["state"]].limit
    if limit is None or (limit.to is None and row["timed_out"]):
        assert row["deadline"] is None
    elif limit.renewed_up_to:
        assert row["deadline"] - row["entered_at"] >= limit.after
        assert row["deadline"] <= min(row["entered_at"] + limit.renewed_up_to, seen.now + limit.after)
    else:
        lasting: timedelta = (limit.per_task and row["time_limit"]) or limit.after
        is_new = row["state"] == machine.start and machine[row["state"]].actor == "worker"
        assert row["deadline"] == (max(row["entered_at"], row["due_at"]) if is_new else row["entered_at"]) + lasting


def check_edges(seen: Seen, edges: Mapping[tuple[UUID, UUID], Row]) -> None:
    """Nobody runs before those it waits for have ended."""
    for (upstream, downstream), edge in edges.items():
        ended = seen.done.get(upstream)
        assert edge["outcome"] == (ended and ended["outcome"]), f"{edge} is not how {upstream} is"
        if edge["policy"] == "gather" or downstream not in seen.live:
            continue
        blocked = seen.live[downstream]["state"] == "Blocked"
        assert blocked or ended, f"{downstream} goes on before {upstream} has ended"
        badly = edge["policy"] in ("cancel", "skip") and edge["outcome"] in ("failed", "cancelled")
        assert not badly, f"{downstream} goes on although {upstream} ended badly"


def check_blocked(seen: Seen, tasks: Set[UUID]) -> None:
    """Nobody waits for what has ended."""
    for task in tasks & seen.live.keys():
        if seen.live[task]["state"] == "Blocked":
            assert any(
                downstream == task and edge["policy"] != "gather" and edge["outcome"] is None
                for (_, downstream), edge in seen.edges.items()
            ), f"{task} is left blocked"


def check_gathering(seen: Seen, parents: Set[UUID]) -> None:
    """A run ends when its last child does, as all, some or none of them; who ends badly takes its children along."""
    children: dict[UUID, list[UUID]] = {}
    for (upstream, downstream), edge in seen.edges.items():
        if edge["policy"] == "gather" and downstream in parents:
            children.setdefault(downstream, []).append(upstream)
            badly = downstream in seen.done and seen.done[downstream]["outcome"] in ("failed", "cancelled")
            if badly and upstream in seen.live:
                child = seen.live[upstream]
                assert child["cancel_requested"], f"{upstream} goes on although its parent {downstream} ended badly"
    for parent, found in children.items():
        row = seen.row(parent)
        if seen.machine(parent).name != "ingest":
            continue
        if parent in seen.live:
            assert any(child in seen.live for child in found), f"{parent} still gathers, but all have ended"
        elif row["outcome"] != "cancelled":
            outcomes = {seen.done[child]["outcome"] for child in found}
            well = outcomes & {"done", "partial"}
            expected = "done" if outcomes == {"done"} else "partial" if well else "failed"
            assert row["outcome"] == expected, f"{parent} ended as {row['outcome']} of {outcomes}"


def check_inbox(seen: Seen, tasks: Set[UUID]) -> None:
    """What failed in a worker's state waits for a person, once; nothing else does."""
    for task in tasks:
        row = seen.row(task)
        failed = task in seen.done and row["outcome"] == "failed"
        expected = failed and seen.machine(task)[row["from_state"]].actor == "worker"
        assert seen.inbox[task] == expected, f"{task} is in the inbox {seen.inbox[task]} times"


def check_swept(seen: Seen) -> None:
    """After a sweep nothing is left over that time alone decides."""
    for task, row in seen.live.items():
        assert not (row["lease_token"] and seen.expired(row)), f"{task} is held by a lost worker"
        assert row["deadline"] is None or row["deadline"] > seen.now, f"{task} is past its limit"
        assert row["actor"] != "clock" or row["due_at"] > seen.now, f"{task} is due"
    assert not seen.starving


def check_explained(seen: Seen, reasons: dict[UUID, str]) -> None:
    """Every task says why it is where it is, with a reason that fits."""
    assert reasons.keys() == seen.live.keys() | seen.done.keys()
    for task, reason in reasons.items():
        assert reason in REASONS[situation(seen, task)], f"{task} explains itself by {reason}"


def situation(seen: Seen, task: UUID) -> str:
    if task in seen.done:
        return "final"
    row = seen.live[task]
    if row["lease_token"] is None and row["deadline"] and row["deadline"] <= seen.now:
        return "overdue"
    if row["actor"] == "tasks":
        return "dependency"
    if row["actor"] == "owner":
        return "owner"
    if row["lease_token"]:
        return "held"
    if row["due_at"] > seen.now or row["actor"] == "clock":
        return "waiting"
    if row["queue"] in seen.paused and row["parked"] != "unknown":
        return "paused"
    return str(row["parked"] or "ready")
