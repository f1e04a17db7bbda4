"""All that was said in a storm: the histories of its processes, and the rows that the database ended with."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tests.crash.history import Line

Row = dict[str, Any]
Moves = dict[tuple[int, str, str], tuple[str, int]]
"""The declared matrix: lifecycle, state and verb; the state to which it leads, and what it adds to the attempt."""

KEEPS_LEASE = ("ask_cancel",)


@dataclass
class Lease:
    """One lease as the event table tells it: from its claim to the event that ended it."""

    task: str
    claim: Row
    end: Row | None = None


@dataclass
class World:
    """`tasks` by id; `events` by task, in the order of their versions. Times are seconds since 1970 by one clock.

    An event has two: `at`, when its transaction began, and `committed`.
    """

    lines: list[Line] = field(default_factory=list)
    tasks: dict[str, Row] = field(default_factory=dict)
    events: dict[str, list[Row]] = field(default_factory=dict)
    steps: list[Row] = field(default_factory=list)
    wallet: list[Row] = field(default_factory=list)
    keys: list[Row] = field(default_factory=list)
    moves: Moves = field(default_factory=dict)
    finals: set[tuple[int, str]] = field(default_factory=set)
    lease_seconds: float = 2.0
    crash_budget: int = 3
    limits: dict[str, int] = field(default_factory=dict)
    retry_seconds: float = 0.2

    def lines_of(self, op: str, *kinds: str) -> Iterator[Line]:
        return (line for line in self._by_op[op] if line["kind"] in kinds)

    @cached_property
    def _by_op(self) -> dict[str, list[Line]]:
        found: dict[str, list[Line]] = defaultdict(list)
        for line in sorted(self.lines, key=lambda one: float(one["t"])):
            found[line["op"]].append(line)
        return found

    @cached_property
    def leases(self) -> dict[str, list[Lease]]:
        """Of each task, in order. A claim on top of a claim begins another lease all the same."""
        found: dict[str, list[Lease]] = defaultdict(list)
        for task, events in self.events.items():
            held: Lease | None = None
            for event in events:
                if event["verb"] == "claim":
                    held = Lease(task, event)
                    found[task].append(held)
                elif held and event["verb"] not in KEEPS_LEASE:
                    held.end = event
                    held = None
        return found

    @cached_property
    def lease_at(self) -> dict[tuple[str, int], Lease]:
        """A lease by its task and the version of its claim."""
        return {(task, one.claim["version"]): one for task, leases in self.leases.items() for one in leases}

    @cached_property
    def runs(self) -> dict[tuple[str, int], list[Line]]:
        """What executions said, by the lease that they ran under."""
        found: dict[tuple[str, int], list[Line]] = defaultdict(list)
        for line in self._by_op["run"]:
            found[line["task"], line["version"]].append(line)
        return found

    @cached_property
    def stops(self) -> dict[int, list[tuple[float, float]]]:
        """When which process was stopped."""
        found: dict[int, list[tuple[float, float]]] = defaultdict(list)
        for line in self._by_op["fault"]:
            if line["kind"].endswith(" stopped"):
                for pid in line["pids"]:
                    found[pid].append((line["began"], line["ended"]))
        return found

    @cached_property
    def answers(self) -> dict[str, Line]:
        """The answer to each call that got one."""
        return {line["call"]: line for line in self.lines if line["kind"] == "ok" and "call" in line}

    def submitted(self) -> Iterator[tuple[Line, int, Row, str | None, bool]]:
        """Each task that was asked for: the call, its place there, what it was, and, if known, its id and newness."""
        for line in self.lines_of("submit", "invoke"):
            answer = self.answers.get(line["call"])
            for place, asked in enumerate(line["tasks"]):
                if answer:
                    yield line, place, asked, answer["ids"][place], answer["created"][place]
                else:
                    yield line, place, asked, None, False

    def about(self, task: str) -> list[tuple[float, str]]:
        """Everything that any witness says of a task, in the order of time."""
        story = [*self._stories[task], *((one["committed"], f"database  {one}") for one in self.events.get(task, []))]
        if task in self.tasks:
            story.append((float("inf"), f"in the end  {self.tasks[task]}"))
        return sorted(story)

    @cached_property
    def _stories(self) -> dict[str, list[tuple[float, str]]]:
        """What processes said, by the task that it was about."""
        found: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for line in self.lines:
            if "task" in line:
                found[line["task"]].append((line["t"], f"{line['who']}  {line}"))
            for task, created in zip(line.get("ids", ()), line.get("created", ()), strict=True):
                found[task].append((line["t"], f"{line['who']}  submitted: {line['call']}, created {created}"))
            for lease in line.get("leases", ()):
                found[lease["task"]].append((line["t"], f"{line['who']}  claimed {lease}"))
        return found


def pid_of(line: Line) -> int:
    """The process that said this."""
    return int(line["who"].split("-")[1])
