"""The checker believes a history that is good, and finds each kind of lie in one that is not."""

from collections.abc import Callable
from copy import deepcopy

import pytest

from tests.crash.checker import CHECKS, Violation, verdict, violations
from tests.crash.world import Row, World

LEASE = 2.0
MOVES = {
    (1, "", "submit"): ("Queued", 0), (1, "", "block"): ("Blocked", 0), (1, "Blocked", "unblock"): ("Queued", 0),
    (1, "Queued", "claim"): ("Running", 0), (1, "Queued", "cancel"): ("Canceled", 0),
    (1, "Running", "done"): ("Completed", 0), (1, "Running", "ask_cancel"): ("Running", 0),
    (1, "Running", "cancel"): ("Canceled", 0), (1, "Running", "lost"): ("Queued", 1),
    (1, "Running", "retry"): ("Queued", 1), (1, "Running", "fail"): ("Dead", 0),
}  # fmt: skip
OUTCOMES = {"Completed": "done", "Dead": "failed", "Canceled": "cancelled"}


class HistoryBuilder:
    """Builds a world, task by task, as its witnesses would tell it."""

    def __init__(self) -> None:
        self.world = World(
            moves=dict(MOVES), finals={(1, state) for state in OUTCOMES}, lease_seconds=LEASE, limits={"narrow": 1}
        )

    def say(self, at: float, who: str, op: str, kind: str, **more: object) -> None:
        self.world.lines.append({"t": at, "who": who, "op": op, "kind": kind, **more})

    def submit(self, at: float, *tasks: str, created: bool = True, again: bool = False, **more: object) -> None:
        call = f"c{len(self.world.lines)}"
        asked = [self.asked(one, **more) for one in tasks]
        self.say(at, "submit-1-1", "submit", "invoke", call=call, tasks=asked, again=again)
        self.say(at + 0.1, "submit-1-1", "submit", "ok", call=call, ids=list(tasks), created=[created] * len(tasks))

    def asked(self, task: str, **more: object) -> Row:
        return {"name": "work", "number": ord(task), "key": f"key-{task}", "after": [], "delay": 0, **more}

    def task(self, task: str, *moves: tuple[str, float], worker: str = "w1", **more: object) -> None:
        """A task that went these ways at these times."""
        state, attempt, last_claim = "", 1, 0
        events: list[Row] = []
        for version, (verb, at) in enumerate(moves):
            to, bump = MOVES[1, state, verb]
            attempt += bump
            cause = "lease_lost" if verb in ("lost", "fail") else None
            events.append(
                {"task": task, "version": version, "verb": verb, "from": state, "to": to, "attempt": attempt,
                 "worker": worker, "cause": cause, "at": at, "committed": at + 0.01}
            )  # fmt: skip
            state = to
            last_claim = version if verb == "claim" else last_claim
        done = state == "Completed"
        self.world.events[task] = events
        self.world.tasks[task] = {
            "id": task, "lifecycle": 1, "name": "work", "state": state, "version": len(events) - 1, "attempt": attempt,
            "max_attempts": 3, "limit_key": None, "outcome": OUTCOMES.get(state), "number": ord(task),
            "token": f"{task}{last_claim}" if done else None, "charges": False,
            "result": {"number": ord(task), "version": last_claim} if done else None, **more,
        }  # fmt: skip
        self.world.keys.append({"key": f"key-{task}", "task": task})

    def run(self, at: float, task: str, version: int, *kinds: str, attempt: int = 1, who: str = "handler-9-1") -> None:
        lease = self.lease(task, version, attempt)
        for number, kind in enumerate(kinds):
            happened, _, step = kind.partition(" ")
            self.say(at + number / 100, who, "run", happened, **lease, name="work", **({"step": step} if step else {}))

    def lease(self, task: str, version: int, attempt: int = 1) -> Row:
        return {"task": task, "version": version, "attempt": attempt, "token": f"{task}{version}"}


def good() -> World:
    history = HistoryBuilder()
    # a: by a raw worker that beats, keeps, settles, settles again, and tries to settle otherwise.
    history.submit(0, "a")
    history.submit(0, "a", created=False, again=True)
    history.task("a", ("submit", 0), ("claim", 1), ("done", 3), worker="raw-1-1")
    lease = history.lease("a", 1)
    history.say(1.1, "raw-1-1", "claim", "ok", names=["work"], leases=[{**lease, "name": "work", "expires": 3.0}])
    history.run(1.1, "a", 1, "start", "end", who="raw-1-1")
    history.say(2, "raw-1-1", "beat", "ok", **lease, status="ok", expires=4.0)
    history.say(2.1, "raw-1-1", "keep", "ok", **lease, status="ok")
    history.world.steps.append({"task": "a", "step": "kept", "token": "a1", "at": 2.1})
    history.say(3.1, "raw-1-1", "settle", "ok", **lease, status="ok", which="first")
    history.say(3.2, "raw-1-1", "settle", "ok", **lease, status="repeat", which="same")
    history.say(3.3, "raw-1-1", "settle", "fail", **lease, status="lost", which="other")
    # b: lost once, after its first step; its first worker is refused when it comes back.
    history.submit(0, "b", delay=1.0)
    history.task("b", ("submit", 0), ("claim", 2), ("lost", 4.1), ("claim", 5), ("done", 6), worker="w2")
    history.run(2.1, "b", 1, "start", "step one", "kept one")
    history.run(5.1, "b", 3, "start", "step two", "kept two", "end", attempt=2, who="handler-10-1")
    history.say(0, "nemesis-2-1", "fault", "runner stopped", began=2.2, ended=6.0, pids=[9])
    history.world.steps.append({"task": "b", "step": "one", "token": "b1", "at": 2.1})
    history.run(6.5, "b", 1, "tick")
    for op in ("beat", "keep"):
        history.say(6.6, "raw-3-1", op, "fail", **history.lease("b", 1), status="lost", expires=None)
    history.say(6.7, "raw-3-1", "settle", "fail", **history.lease("b", 1), status="lost", which="first")
    history.say(6.8, "raw-3-1", "settle", "fail", **history.lease("b", 1), status="lost", which="same")
    # c: waits for a and b.
    call = history.world.lines[0]["call"]
    history.world.lines[0]["tasks"] += [history.asked("b"), history.asked("c", after=[0, 1])]
    history.world.lines[1] |= {"ids": ["a", "b", "c"], "created": [True, False, True], "call": call}
    history.task("c", ("block", 0), ("unblock", 6), ("claim", 7), ("done", 8))
    history.run(7.1, "c", 2, "start", "end")
    # d: cancelled while it ran; e: before it ran; f: too late.
    history.task("d", ("submit", 0), ("claim", 1), ("ask_cancel", 2), ("cancel", 3))
    history.task("e", ("submit", 0), ("cancel", 1))
    history.task("f", ("submit", 0), ("claim", 1), ("done", 2))
    history.run(1.1, "f", 1, "start", "end")
    for task, at, effect in (("d", 2.1, "requested"), ("e", 1.1, "cancelled"), ("f", 2.5, "too_late")):
        history.say(at, "cancel-1-1", "cancel", "ok", task=task, effect=effect)
    # g: pays. h, i: one after the other under a limit. j: tried again. k: given up after three lost workers.
    history.task("g", ("submit", 0), ("claim", 1), ("done", 2), charges=True)
    history.run(1.1, "g", 1, "start", "step one", "kept one", "end")
    history.world.steps.append({"task": "g", "step": "one", "token": "g1", "at": 1.2})
    history.world.wallet += [{"task": "g", "what": what, "version": None} for what in ("submit", "claim", "one")]
    history.world.wallet.append({"task": "g", "what": "done", "version": 1})
    for task, at in (("h", 1.0), ("i", 3.0)):
        history.task(task, ("submit", 0), ("claim", at), ("done", at + 1), limit_key="narrow")
        history.run(at + 0.1, task, 1, "start", "end")
    history.task("j", ("submit", 0), ("claim", 1), ("retry", 2), ("claim", 3), ("done", 4))
    history.run(3.1, "j", 3, "start", "end", attempt=2)
    lost = [("submit", 0.0)]
    for at in (10.0, 20.0, 30.0):
        lost += [("claim", at), ("lost" if at < 30 else "fail", at + LEASE + 0.1)]
    history.task("k", *lost, worker="w5")
    return history.world


def event(world: World, task: str, version: int) -> Row:
    return world.events[task][version]


def find_line(world: World, op: str, kind: str, task: str) -> Row:
    return next(
        line
        for line in world.lines
        if (line["op"], line["kind"]) == (op, kind) and task in (line.get("task"), *line.get("ids", ()))
    )


def insert_event(world: World, task: str, version: int, **event: object) -> None:
    events = world.events[task]
    events.insert(version, {**events[version - 1], **event})
    for number, one in enumerate(events):
        one["version"] = number


# One lie each, or more where an invariant has more than one side.
LIES: list[tuple[str, str, Callable[[World], object]]] = [
    ("one_lease_at_a_time", "two claims", lambda w: insert_event(w, "d", 2, worker="w9")),
    ("one_lease_at_a_time", "a claim before the end", lambda w: event(w, "b", 3).update(committed=4.0)),
    ("stale_changes_nothing", "a refused settle stands", lambda w: w.tasks["b"].update(token="b1")),
    (
        "stale_changes_nothing",
        "a refused step stands",
        lambda w: w.steps.append({"task": "b", "token": "b1", "step": "x", "at": 6.6}),
    ),
    (
        "stale_changes_nothing",
        "lost, then accepted",
        lambda w: find_line(w, "settle", "fail", "b").update(kind="ok", status="ok"),
    ),
    ("attempts_are_counted", "not counted", lambda w: [one.update(attempt=1) for one in w.events["b"]]),
    ("attempts_are_counted", "too many", lambda w: w.tasks["j"].update(max_attempts=1)),
    ("attempts_are_counted", "an unknown lease", lambda w: find_line(w, "run", "start", "c").update(version=99)),
    ("done_is_one_set_of_effects", "paid twice", lambda w: w.wallet.append(dict(w.wallet[-1]))),
    ("done_is_one_set_of_effects", "never paid", lambda w: w.wallet.pop()),
    ("done_is_one_set_of_effects", "paid by another", lambda w: w.wallet[-1].update(version=7)),
    ("done_is_one_set_of_effects", "the loser's result", lambda w: w.tasks["b"]["result"].update(version=1)),
    ("done_is_one_set_of_effects", "nobody did it", lambda w: w.lines.remove(find_line(w, "run", "end", "c"))),
    ("done_is_one_set_of_effects", "another token", lambda w: w.tasks["c"].update(token="c9")),
    (
        "a_repeated_settle_gets_the_same_answer",
        "refused",
        lambda w: next(one for one in w.lines if one.get("which") == "same").update(kind="fail", status="lost"),
    ),
    (
        "a_repeated_settle_gets_the_same_answer",
        "another accepted",
        lambda w: find_line(w, "settle", "fail", "a").update(kind="ok", status="ok"),
    ),
    ("a_lease_is_reaped_when_it_has_run_out", "too early", lambda w: reap_a_raw_lease(w, at=2.5)),
    (
        "a_lease_is_reaped_when_it_has_run_out",
        "the dead claims",
        lambda w: [event(w, "b", 2).update(at=3.0, committed=3.0), event(w, "b", 3).update(worker="w2")],
    ),
    ("who_has_lost_a_lease_stops", "runs on", lambda w: find_line(w, "run", "tick", "b").update(t=9.0)),
    ("only_declared_moves", "undeclared", lambda w: event(w, "f", 2).update(verb="fly")),
    ("only_declared_moves", "after the end", lambda w: insert_event(w, "f", 3, verb="claim")),
    ("events_tell_the_row", "a gap", lambda w: w.events["b"].pop(2)),
    ("events_tell_the_row", "another state", lambda w: w.tasks["d"].update(state="Dead")),
    ("events_tell_the_row", "no row", lambda w: w.tasks.pop("e")),
    ("everything_ends", "stuck", lambda w: w.tasks["d"].update(state="Running", outcome=None)),
    ("a_crash_budget_is_kept", "given up too early", lambda w: event(w, "k", 2).update(cause=None)),
    ("a_crash_budget_is_kept", "never given up", lambda w: event(w, "k", 6).update(verb="lost")),
    ("nothing_is_claimed_before_it_is_due", "delay", lambda w: event(w, "a", 1).update(at=-2.0, committed=-1.0)),
    ("nothing_is_claimed_before_it_is_due", "retry", lambda w: event(w, "j", 3).update(committed=2.1)),
    (
        "cancelled_or_completed_never_both",
        "both",
        lambda w: find_line(w, "cancel", "ok", "f").update(effect="cancelled"),
    ),
    (
        "cancelled_or_completed_never_both",
        "forgotten",
        lambda w: find_line(w, "cancel", "ok", "f").update(effect="requested"),
    ),
    ("cancelled_or_completed_never_both", "not too late", lambda w: event(w, "f", 2).update(committed=9.0)),
    ("cancelled_or_completed_never_both", "claimed again", lambda w: insert_event(w, "d", 3, verb="claim")),
    ("workers_claim_only_what_they_know", "unknown", lambda w: w.tasks["a"].update(name="foreign")),
    ("what_was_acknowledged_is_there", "lost", lambda w: [w.tasks.pop("a"), w.events.pop("a")]),
    ("what_was_acknowledged_is_there", "another one", lambda w: w.tasks["a"].update(number=0)),
    ("one_task_for_each_request", "two for a key", lambda w: w.lines[3].update(ids=["f"])),
    ("one_task_for_each_request", "made twice", lambda w: w.lines[3].update(created=[True])),
    ("one_task_for_each_request", "another's key", lambda w: w.keys[0].update(task="b")),
    ("one_task_for_each_request", "two tasks", lambda w: w.tasks["f"].update(number=ord("e"))),
    ("a_join_waits_for_all_and_runs_once", "too early", lambda w: event(w, "c", 2).update(committed=5.5)),
    ("a_join_waits_for_all_and_runs_once", "twice", lambda w: insert_event(w, "c", 2, verb="unblock")),
    ("a_kept_step_is_not_run_again", "again", lambda w: step_again(w)),
    ("a_limit_is_never_passed", "two at once", lambda w: event(w, "i", 1).update(committed=1.5)),
]


def reap_a_raw_lease(world: World, at: float) -> None:
    world.events["a"][2].update(verb="lost", cause="lease_lost", at=at, committed=at)


def step_again(world: World) -> None:
    line = dict(find_line(world, "run", "start", "j"))
    world.lines += [{**line, "kind": "kept", "step": "one", "t": 1.5}, {**line, "kind": "step", "step": "one"}]


def test_a_good_history_is_believed() -> None:
    assert violations(good()) == []
    assert verdict(good()) == ""


@pytest.mark.parametrize(("name", "lie"), [(name, lie) for name, _, lie in LIES], ids=[f"{n}: {w}" for n, w, _ in LIES])
def test_a_lie_is_found(name: str, lie: Callable[[World], object]) -> None:
    world = deepcopy(good())
    lie(world)
    assert name in {one.invariant for one in violations(world)}


def test_every_invariant_has_its_lie() -> None:
    assert {name for name, _, _ in LIES} == set(CHECKS)


def test_the_shortest_history_is_printed_with_all_witnesses_in_order() -> None:
    world = good()
    for task in ("b", "e"):
        world.tasks[task].update(state="Queued", outcome=None)
    history = verdict(world)
    assert Violation("everything_ends", "e", "still Queued") in violations(world)
    assert "task e: " in history
    assert history.index("submit") < history.index("cancel-1-1") < history.index("in the end")
