"""Whether what was said in a storm can all be true of an engine that keeps its promises.

Pure functions over a World, one for each invariant, each in one pass. A violation names the task; `verdict` prints the
shortest history among the offending ones, with all witnesses merged in the order of time.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from tests.crash.world import Row, World, pid_of

stop_within_seconds = 2.0


class Violation(NamedTuple):
    invariant: str
    task: str
    message: str


Found = Iterator[tuple[str, str]]
CHECKS: dict[str, Callable[[World], Found]] = {}


def invariant(check: Callable[[World], Found]) -> Callable[[World], Found]:
    CHECKS[check.__name__] = check
    return check


def violations(world: World) -> list[Violation]:
    return [Violation(name, task, message) for name, check in CHECKS.items() for task, message in check(world)]


def verdict(world: World) -> str:
    """Nothing if all holds; else what does not, and the shortest history that shows it."""
    found = violations(world)
    if not found:
        return ""
    worst = min(found, key=lambda one: len(world.about(one.task)))
    counts = dict(Counter(one.invariant for one in found))
    story = "\n".join(f"  {at:.3f}  {line}" for at, line in world.about(worst.task))
    return f"violations: {counts}\nfor example {worst.invariant}, task {worst.task}: {worst.message}\n{story}"


# Leases


@invariant
def one_lease_at_a_time(world: World) -> Found:
    """I1: a lease begins only after the one before it has ended, in the order of commits."""
    for task, leases in world.leases.items():
        for earlier, later in pairwise(leases):
            if earlier.end is None or earlier.end["version"] > later.claim["version"]:
                yield task, f"claimed in event {later.claim['version']} while it was held"
            elif later.claim["committed"] < earlier.end["committed"]:
                yield task, f"claimed in event {later.claim['version']} before the lease before it had ended"


@invariant
def stale_changes_nothing(world: World) -> Found:
    """I2: who was refused has left no trace, and is refused from then on."""
    lost: set[tuple[str, str]] = set()
    steps = {(row["task"], row["token"]): row["at"] for row in world.steps}
    answers = [line for op in ("beat", "keep", "settle") for line in world.lines_of(op, "ok", "fail")]
    for line in sorted(answers, key=lambda one: float(one["t"])):
        op, lease = line["op"], (line["task"], line["token"])
        if op == "settle" and line["which"] != "first":
            continue
        if line["kind"] == "ok":
            if lease in lost:
                yield line["task"], f"{op} was accepted after this lease was called lost"
            continue
        lost.add(lease)
        if op == "settle" and world.tasks.get(line["task"], {}).get("token") == line["token"]:
            yield line["task"], "its settle was refused, and yet it stands"
        held = world.lease_at.get((line["task"], line["version"]))
        over = held.end["committed"] if held and held.end else 0.0
        if op == "keep" and steps.get(lease, 0.0) > over:  # one that stands from before was answered, and not heard
            yield line["task"], "its checkpoint was refused, and yet it stands"


@invariant
def attempts_are_counted(world: World) -> Found:
    """I3: attempts grow by what the matrix says and never pass the most allowed."""
    for task, events in world.events.items():
        row = world.tasks.get(task)
        attempt = 1
        for event in events:
            move = world.moves.get((row["lifecycle"], event["from"], event["verb"])) if row else None
            attempt += move[1] if move else 0
            if event["attempt"] != attempt:
                yield task, f"event {event['version']} says attempt {event['attempt']}; it is {attempt}"
                break
        if row and sum(event["verb"] == "retry" for event in events) >= row["max_attempts"]:
            yield task, f"tried again more often than {row['max_attempts']} attempts allow"
    for (task, version), lines in world.runs.items():
        lease = world.lease_at.get((task, version))
        if lease is None:
            yield task, f"ran under a lease (event {version}) that nobody gave"
        elif any(line["attempt"] != lease.claim["attempt"] for line in lines):
            yield task, f"ran as another attempt than event {version} says"


@invariant
def done_is_one_set_of_effects(world: World) -> Found:
    """I4: what is done was done by one whole execution, under the last lease, and its effects stand once."""
    effects: dict[str, Counter[str]] = defaultdict(Counter)
    paid: dict[str, list[int]] = defaultdict(list)
    steps: dict[str, list[str]] = defaultdict(list)
    for row in world.steps:
        steps[row["task"]].append(row["step"])
    for row in world.wallet:
        effects[row["task"]][row["what"]] += 1
        if row["what"] == "done":
            paid[row["task"]].append(row["version"])
    for task, row in world.tasks.items():
        if row["charges"]:
            moves = Counter(event["verb"] for event in world.events.get(task, []))
            moves.update(steps[task])
            if effects[task] != moves:
                yield task, f"its effects are {dict(effects[task])}; its moves and steps {dict(moves)}"
        if row["outcome"] != "done":
            continue
        last = world.leases[task][-1] if world.leases.get(task) else None
        if last is None or row["result"] != {"number": row["number"], "version": last.claim["version"]}:
            yield task, f"its result {row['result']} is not that of its last lease"
            continue
        if row["charges"] and paid[task] != [last.claim["version"]]:
            yield task, f"its last lease is event {last.claim['version']}; paid have {paid[task]}"
        lines = world.runs.get((task, last.claim["version"]), [])
        if not any(line["kind"] == "end" for line in lines):
            yield task, "it is done, and no execution under its last lease has ended"
        elif any(line["token"] != row["token"] for line in lines):
            yield task, "the accepted token is not the one that it ran under"


@invariant
def a_repeated_settle_gets_the_same_answer(world: World) -> Found:
    """I6: the same again is a repeat, anything else is refused; what was refused stays so."""
    first: dict[tuple[str, str], str] = {}
    for line in world.lines_of("settle", "ok", "fail"):
        lease = line["task"], line["token"]
        if line["which"] == "first":
            first[lease] = line["kind"]
        elif line["which"] == "same" and first.get(lease) == "ok" and line["status"] != "repeat":
            yield line["task"], f"the same settle again was answered with {line['status']}"
        elif line["kind"] == "ok" and (line["which"] == "other" or first.get(lease) == "fail"):
            yield line["task"], f"another settle ({line['which']}) was accepted"


@invariant
def a_lease_is_reaped_when_it_has_run_out(world: World) -> Found:
    """I12: not before. A raw worker's lease lasts as it was told; a runner's ends early only if the runner is dead."""
    reported: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    raw: set[str] = set()
    for line in world.lines_of("claim", "ok"):
        raw.add(line["who"])
        for one in line["leases"]:
            reported[one["task"], one["version"]].append((line["t"], one["expires"]))
    for line in world.lines_of("beat", "ok"):
        reported[line["task"], line["version"]].append((line["t"], line["expires"]))
    dead: dict[str, float] = {}
    for task, leases in world.leases.items():
        for lease in leases:
            if lease.end is None or lease.end["verb"] not in ("lost", "fail") or lease.end["cause"] != "lease_lost":
                continue
            at, version, worker = lease.end["at"], lease.claim["version"], lease.claim["worker"]
            if any(heard < at < until for heard, until in reported[task, version]):
                yield task, f"event {lease.end['version']} took a lease back that had not run out"
            if at < lease.claim["at"] + world.lease_seconds:
                if worker in raw:
                    yield task, f"event {lease.end['version']} took a lease back before its first end"
                if lease.end["verb"] == "lost":  # what is lost for the last time ran apart; its runner may live
                    dead[worker] = min(lease.end["committed"], dead.get(worker, lease.end["committed"]))
    for task, leases in world.leases.items():
        for lease in leases:
            if lease.claim["at"] > dead.get(lease.claim["worker"], float("inf")):
                yield task, f"claimed by {lease.claim['worker']}, whose leases had been given back as a dead one's"


@invariant
def who_has_lost_a_lease_stops(world: World) -> Found:
    """I2: an execution ends soon after its lease did, or after its process was let go on."""
    for (task, version), lines in world.runs.items():
        lease = world.lease_at.get((task, version))
        if lease is None or lease.end is None:
            continue
        late = max(lines, key=lambda line: float(line["t"]))
        until = lease.end["committed"]
        for began, ended in world.stops.get(pid_of(late), ()):
            if began < late["t"]:
                until = max(until, ended)
        if late["t"] > until + stop_within_seconds and not late["who"].startswith("raw-"):
            yield task, f"still sent {late['kind']!r} {late['t'] - until:.1f} s after its lease had ended"


# Moves


@invariant
def only_declared_moves(world: World) -> Found:
    """I7, I8: every event is in the matrix, and none comes after a final one."""
    for task, events in world.events.items():
        lifecycle = world.tasks[task]["lifecycle"] if task in world.tasks else -1
        for event in events:
            to, _ = world.moves.get((lifecycle, event["from"], event["verb"]), ("", 0))
            if to != event["to"]:
                yield task, f"{event['from']} -{event['verb']}-> {event['to']} is not declared"
        if any((lifecycle, event["to"]) in world.finals for event in events[:-1]):
            yield task, "it went on after its end"


@invariant
def events_tell_the_row(world: World) -> Found:
    """I9: no gap in the events, and their fold is the row."""
    for task in world.tasks.keys() | world.events.keys():
        events, row = world.events.get(task), world.tasks.get(task)
        if not events or row is None:
            yield task, "its row is missing" if events else "its events are missing"
            continue
        state = ""
        for version, event in enumerate(events):
            if event["version"] != version or event["from"] != state:
                yield task, f"event {event['version']} leaves {event['from']!r}; due was {version}, from {state!r}"
                break
            state = event["to"]
        last = events[-1]
        if (row["state"], row["version"], row["attempt"]) != (last["to"], last["version"], last["attempt"]):
            yield task, "its row says something else than its last event"


@invariant
def everything_ends(world: World) -> Found:
    """I10: nothing is left open."""
    for task, row in world.tasks.items():
        if (row["lifecycle"], row["state"]) not in world.finals or row["outcome"] is None:
            yield task, f"still {row['state']}"


@invariant
def a_crash_budget_is_kept(world: World) -> Found:
    """I13: so many lost workers, and no more; and nobody gives up before."""
    for task, events in world.events.items():
        lost = sum(event["cause"] == "lease_lost" and event["verb"] in ("lost", "fail") for event in events)
        gave_up = events[-1]["verb"] == "fail" and events[-1]["cause"] == "lease_lost"
        if lost > world.crash_budget or gave_up != (lost == world.crash_budget):
            yield task, f"{lost} workers were lost with it, and it {'was given up' if gave_up else 'went on'}"


@invariant
def nothing_is_claimed_before_it_is_due(world: World) -> Found:
    """I14: neither before its delay, counted from its birth, nor before its next attempt."""
    delays = {task: asked["delay"] for _, _, asked, task, _ in world.submitted() if task}
    for task, events in world.events.items():
        earliest = events[0]["at"] + delays.get(task, 0.0)
        for event in events:
            if event["verb"] == "retry":
                earliest = event["at"] + world.retry_seconds
            elif event["verb"] == "claim" and event["committed"] < earliest:
                yield task, f"event {event['version']} claimed it {earliest - event['committed']:.3f} s too early"


@invariant
def cancelled_or_completed_never_both(world: World) -> Found:
    """I16: what was said to be cancelled is; what is to be cancelled is not claimed again; too late is too late."""
    for task, events in world.events.items():
        asked = False
        for event in events:
            if asked and event["verb"] == "claim":
                yield task, f"claimed in event {event['version']}, after its cancelling was asked for"
            asked = asked or event["verb"] == "ask_cancel"
    for line in world.lines_of("cancel", "ok"):
        row, events = world.tasks.get(line["task"]), world.events.get(line["task"], [])
        if row is None or not events:
            continue
        if line["effect"] == "cancelled" and row["outcome"] != "cancelled":
            yield line["task"], f"it was reported as cancelled, and ended as {row['outcome']}"
        elif line["effect"] == "requested" and not any(event["verb"] == "ask_cancel" for event in events):
            yield line["task"], "its cancelling was acknowledged, and there is no trace of it"
        elif line["effect"] == "too_late" and events[-1]["committed"] > line["t"]:
            yield line["task"], "it was too late to cancel it, and yet it went on"


@invariant
def workers_claim_only_what_they_know(world: World) -> Found:
    """I19"""
    known = {line["who"]: line["names"] for line in world.lines_of("claim", "ok")}
    for task, leases in world.leases.items():
        for lease in leases:
            names = known.get(lease.claim["worker"])
            if names is not None and world.tasks[task]["name"] not in names:
                yield task, f"claimed by {lease.claim['worker']}, who does not know {world.tasks[task]['name']}"


# Submitting


@invariant
def what_was_acknowledged_is_there(world: World) -> Found:
    """I5: with the name and the number under which it was asked for."""
    for _, _, asked, task, _ in world.submitted():
        if task is None:
            continue
        row = world.tasks.get(task)
        if row is None:
            yield task, f"{asked['name']} {asked['number']} was acknowledged, and is gone"
        elif (row["name"], row["number"]) != (asked["name"], asked["number"]):
            yield task, f"it is {row['name']} {row['number']}; asked for was {asked['name']} {asked['number']}"


@invariant
def one_task_for_each_request(world: World) -> Found:
    """I20: the same key gives the same task, made once; and no request made two."""
    answers: dict[str, set[str]] = defaultdict(set)
    made: Counter[str] = Counter()
    for _, _, asked, task, created in world.submitted():
        if task and asked["key"]:
            answers[asked["key"]].add(task)
            made[asked["key"]] += created
    kept = {row["key"]: row["task"] for row in world.keys}
    for key, tasks in answers.items():
        if len(tasks) > 1 or made[key] > 1:
            yield min(tasks), f"key {key!r} was answered with {sorted(tasks)}, {made[key]} times as new"
        elif kept.get(key) not in tasks:
            yield min(tasks), f"key {key!r} stands for {kept.get(key)}"
    numbers: dict[int, str] = {}
    for task, row in world.tasks.items():
        other = numbers.setdefault(row["number"], task)
        if other != task:
            yield task, f"the same request has also made {other}"


@invariant
def a_join_waits_for_all_and_runs_once(world: World) -> Found:
    """I35: released once, and claimed only after everything it waited for had ended."""
    for line, _, asked, task, _ in world.submitted():
        if not task or not asked["after"]:
            continue
        ids = world.answers[line["call"]]["ids"]
        events = world.events.get(task, [])
        first = next((event for event in events if event["verb"] == "claim"), None)
        if sum(event["verb"] == "unblock" for event in events) > 1:
            yield task, "it was released twice"
        for place in asked["after"]:
            upstream = world.events.get(ids[place], [])
            ended = upstream[-1]["committed"] if upstream else float("inf")
            if first and first["committed"] < ended:
                yield task, f"claimed before {ids[place]} had ended"


# Steps and limits


@invariant
def a_kept_step_is_not_run_again(world: World) -> Found:
    """I37: whoever claims after a step was kept does not run it."""
    kept: dict[tuple[str, str], float] = {}
    for line in world.lines_of("run", "kept"):
        step = line["task"], line["step"]
        kept[step] = min(line["t"], kept.get(step, float("inf")))
    for line in world.lines_of("run", "step"):
        lease = world.lease_at.get((line["task"], line["version"]))
        since = kept.get((line["task"], line["step"]))
        if lease and since and lease.claim["at"] > since:
            yield line["task"], f"{line['step']!r} was kept, and run again under event {line['version']}"


@invariant
def a_limit_is_never_passed(world: World) -> Found:
    """No more than allowed are held at once, in the order of commits."""
    changes: list[tuple[float, int, str, Row]] = []
    for task, leases in world.leases.items():
        row = world.tasks.get(task)
        if row and row["limit_key"]:
            for lease in leases:
                changes.append((lease.claim["committed"], 1, task, row))
                if lease.end:
                    changes.append((lease.end["committed"], -1, task, row))
    held: Counter[str] = Counter()
    for _, change, task, row in sorted(changes, key=lambda one: (one[0], one[1])):
        held[row["limit_key"]] += change
        if held[row["limit_key"]] > world.limits[row["limit_key"]]:
            yield task, f"one of {held[row['limit_key']]} at once; allowed are {world.limits[row['limit_key']]}"
