"""What a storm amounted to: how much was done, how much went wrong, and how long it took to be made good."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from tests.crash.nemesis import KINDS, OUTAGES, settle_down_seconds
from tests.crash.world import Lease, World, pid_of

race_seconds = 0.5


@dataclass
class Recovery:
    """From the death of a worker to the next claim of what it held, in seconds; the database was up all the while."""

    deaths: int = 0
    tasks: int = 0
    p50: float = 0.0
    p99: float = 0.0
    worst: float = 0.0


@dataclass
class Figures:
    tasks: int
    executions: int
    ended: dict[str, int]
    faults: dict[str, int]
    reaped: int
    stale_refused: int
    cancel_races: int
    ambiguous_resolved: int
    answers_lost: int
    worker_killed: Recovery = field(default_factory=Recovery)
    runner_killed: Recovery = field(default_factory=Recovery)
    reap_after_expiry: Recovery = field(default_factory=Recovery)

    def table(self) -> str:
        rows = [
            ("tasks", f"{self.tasks}, {describe_counts(self.ended)}"),
            ("executions", self.executions),
            ("faults", f"{sum(self.faults.values())} of {len(self.faults)} kinds"),
            *((f"  {kind}", number) for kind, number in sorted(self.faults.items())),
            ("leases reaped", self.reaped),
            ("stale refused", self.stale_refused),
            ("cancel races", self.cancel_races),
            ("ambiguous commits resolved", f"{self.ambiguous_resolved}, {self.answers_lost} answers lost"),
            *(
                (name, f"{one.deaths} times, {one.tasks} tasks, p50 {one.p50:.2f} s, p99 {one.p99:.2f} s, worst "
                       f"{one.worst:.2f} s")
                for name, one in (
                    ("worker killed, to next claim", self.worker_killed),
                    ("runner killed, to next claim", self.runner_killed),
                    ("lease over, to taken back", self.reap_after_expiry),
                )
            ),
        ]  # fmt: skip
        return "\n".join(f"{name:32} {value}" for name, value in rows)

    def dump(self) -> dict[str, object]:
        return asdict(self)


def describe_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))


def figures(world: World) -> Figures:
    refused = [line for op in ("beat", "keep", "settle") for line in world.lines_of(op, "fail")]
    lost = [event for events in world.events.values() for event in events if event["cause"] == "lease_lost"]
    return Figures(
        tasks=len(world.tasks),
        executions=sum(any(line["kind"] == "start" for line in lines) for lines in world.runs.values()),
        ended=dict(Counter(str(row["outcome"]) for row in world.tasks.values())),
        faults=dict(Counter(line["kind"] for line in world.lines_of("fault", *KINDS))),
        reaped=len(lost),
        stale_refused=sum(line["status"] == "lost" and line.get("which") != "other" for line in refused),
        cancel_races=cancel_races(world),
        ambiguous_resolved=ambiguous(world),
        answers_lost=sum(line["kind"] == "info" for line in world.lines),
        worker_killed=recovery(world, "worker killed"),
        runner_killed=recovery(world, "runner killed"),
        reap_after_expiry=reaping(world),
    )


def cancel_races(world: World) -> int:
    """Cancels that met a task in a worker's hands, or that came when it had just ended."""
    races = 0
    for line in world.lines_of("cancel", "ok"):
        events = world.events.get(line["task"])
        just_missed = line["effect"] == "too_late" and events and line["t"] - events[-1]["committed"] < race_seconds
        races += bool(line["effect"] == "requested" or just_missed)
    return races


def ambiguous(world: World) -> int:
    """Commits whose answer was lost, and that were known when asked for again."""
    seen: set[str] = set()
    twice = {asked["key"] for line, _, asked, _, _ in world.submitted() if line["again"]}
    found = 0
    for _, _, asked, task, created in world.submitted():
        key = asked["key"]
        if task and key and key not in seen and key not in twice:
            found += not created
            seen.add(key)
    repeats = [
        line for line in world.lines_of("settle", "ok") if (line["status"], line["which"]) == ("repeat", "first")
    ]
    return found + len(repeats)


# Recovery


def outages(world: World, kinds: Iterable[str] = OUTAGES) -> list[tuple[float, float]]:
    return [(line["began"], line["ended"] + settle_down_seconds) for line in world.lines_of("fault", *kinds)]


def summed_up(deaths: int, seconds: Iterable[float]) -> Recovery:
    ordered = sorted(seconds)
    if not ordered:
        return Recovery(deaths)
    p50, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.99))
    return Recovery(deaths, len(ordered), p50, p99, ordered[-1])


def recovery(world: World, kind: str) -> Recovery:
    """Of first losses, while nothing else was wrong: whoever is lost a second time waits for its back-off, a limited
    task for its place, and a supervisor that is cut off cannot give back what its runner held."""
    away = outages(world, (other for other in KINDS if other not in ("worker killed", "runner killed")))
    held = held_by_process(world)
    seconds: list[float] = []
    deaths = 0
    for line in world.lines_of("fault", kind):
        died = line["began"]
        deaths += 1
        for lease in held_at(world, held, line["pids"], died, whole_worker=kind == "worker killed"):
            later = [one for one in world.leases[lease.task] if one.claim["version"] > lease.claim["version"]]
            if not later or lease.end is None or lease.end["verb"] not in ("lost", "later"):
                continue
            if any(event["verb"] == "lost" for event in world.events[lease.task][: lease.end["version"]]):
                continue
            again = later[0].claim["committed"]
            if not any(began < again and ended > died for began, ended in away):
                seconds.append(again - died)
    return summed_up(deaths, seconds)


def held_by_process(world: World) -> dict[int, list[Lease]]:
    """The leases under which each handler process has run something."""
    found: dict[int, list[Lease]] = {}
    for key, lines in world.runs.items():
        lease = world.lease_at.get(key)
        if lease:
            for pid in {pid_of(line) for line in lines}:
                found.setdefault(pid, []).append(lease)
    return found


def held_at(
    world: World, held: dict[int, list[Lease]], pids: list[int], died: float, *, whole_worker: bool
) -> list[Lease]:
    """What these processes held when they died; of a whole worker also what they had claimed and not yet begun."""
    mine = [lease for pid in pids for lease in held.get(pid, [])]
    if whole_worker:
        workers = {lease.claim["worker"] for lease in mine}
        mine = [one for leases in world.leases.values() for one in leases if one.claim["worker"] in workers]
    return [
        lease
        for lease in mine
        if lease.claim["committed"] < died
        and (lease.end is None or lease.end["committed"] > died)
        and not world.tasks[lease.task]["limit_key"]
        and world.tasks[lease.task]["name"] != "foreign"
    ]


def reaping(world: World) -> Recovery:
    """I11: leases of raw workers that ran out, from the end they were told to the event that took them back."""
    reported: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for line in world.lines_of("claim", "ok"):
        for one in line["leases"]:
            reported[one["task"], one["version"]].append((line["t"], one["expires"]))
    for line in world.lines_of("beat", "ok"):
        reported[line["task"], line["version"]].append((line["t"], line["expires"]))
    away = outages(world)
    seconds: list[float] = []
    for key, ends in reported.items():
        lease = world.lease_at.get(key)
        if lease is None or lease.end is None or lease.end["cause"] != "lease_lost":
            continue
        taken = lease.end["committed"]
        expires = max((until for heard, until in ends if heard < lease.end["at"]), default=0)
        if not any(began < taken and ended > expires for began, ended in away):
            seconds.append(taken - expires)
    return summed_up(len(reported), seconds)
