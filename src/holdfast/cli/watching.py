"""`holdfast watch`, and the waiting of `start --wait`: a task is followed until it has ended.

The store is asked again and again, sooner while something happens; every move is shown exactly once, by its version. Of
a run of a graph the moves of its nodes are shown with its own.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from holdfast.cli import printing
from holdfast.cli.asking import ask
from holdfast.cli.events import as_object, cells, in_order, note_of
from holdfast.cli.ids import Id, find
from holdfast.cli.options import Json, Timeout

if TYPE_CHECKING:
    from holdfast.engine.store.commands import Store
    from holdfast.engine.task import Event, Explanation, StepEvent
    from holdfast.lifecycles.dispatch.store import NodeMove

EXIT_CODES = {"done": 0, "failed": 1, "partial": 6, "cancelled": 7}
TIMED_OUT = 124

soonest_seconds = 0.1
latest_seconds = 1.0
longest_result = 2000


@dataclass(frozen=True)
class Glance:
    """The task now, what has happened since the last look, and of a run its nodes."""

    task: dict[str, Any]
    news: "list[Event | StepEvent]"
    nodes: list[dict[str, Any]]


def watch(task: Id, timeout: Timeout = None, as_json: Json = False) -> None:
    """Follow a task until it has ended; of a run of a graph, its nodes too.

    The exit code says how: 0 done, 1 failed, 6 partly done, 7 cancelled, 124 not in time.
    """
    live = printing.on_terminal() and not as_json

    def tell(glance: Glance) -> None:
        for one in glance.news:
            if as_json:
                typer.echo(printing.to_json(as_object(one)))
            elif not live:
                printing.say(*line(one))

    async def question(store: "Store") -> int:
        now = await wait_for(store, await find(store, task), timeout, tell)
        if as_json:
            typer.echo(printing.to_json({"of": "end", **ending(now)}))
        elif now["outcome"]:
            say_end(now)
            if live and now["lifecycle"] == "dag":
                await say_run(store, now["id"])
            elif live and now["result"] is not None:
                printing.block(printing.pretty(now["result"]), most=longest_result)
        return exit_code(now)

    raise typer.Exit(ask(question))


async def wait_for(
    store: "Store", task_id: UUID, patience: timedelta | None, tell: Callable[[Glance], None] = lambda _: None
) -> dict[str, Any]:
    """The task once it has ended, or as it is when patience does. Where stderr is a terminal, it shows how it goes."""
    try:
        async with asyncio.timeout(patience.total_seconds() if patience is not None else None):
            with contextlib.ExitStack() as stack:
                display = None
                if sys.stderr.isatty():
                    from holdfast.cli.display import Display

                    display = stack.enter_context(Display())
                async for glance in follow(store, task_id):
                    tell(glance)
                    if display and not glance.task["outcome"]:
                        display.show(
                            glance.task, await store.explain(task_id), await store.steps(task_id), glance.nodes
                        )
            return glance.task
    except TimeoutError:
        now = await store.read(task_id)
        if not now["outcome"]:
            say_it_goes_on(task_id)
            say_why(await store.explain(task_id))
        return now
    except asyncio.CancelledError:
        say_it_goes_on(task_id)
        raise


async def follow(store: "Store", task_id: UUID) -> AsyncIterator[Glance]:
    """Look until it has ended. Each move comes once and in order, and so does each event of a step."""
    version, number, pause = -1, 0, soonest_seconds
    nodes = Nodes(store)
    while True:
        task = await store.read(task_id)
        moves = await store.events(task_id) if task["version"] > version else []
        moves = [one for one in moves if one.version > version]
        steps = [one for one in await store.step_events(task_id) if one.number > number]
        of_nodes = await nodes.look(task_id) if task["lifecycle"] == "dag" else []
        yield Glance(task, woven(in_order(moves, steps), of_nodes), nodes.now)
        if task["outcome"]:
            return
        version = moves[-1].version if moves else version
        number = steps[-1].number if steps else number
        pause = soonest_seconds if moves or steps or of_nodes else min(pause * 1.3, latest_seconds)
        await asyncio.sleep(pause)


class Nodes:
    """The nodes of a run, and how far the moves of each were told. A node that is retried is another task."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._told: dict[str, int] = {}
        self._seen: dict[str, tuple[Any, ...]] = {}
        self.now: list[dict[str, Any]] = []

    async def look(self, run: UUID) -> "list[NodeMove]":
        """What has happened to them since the last look, in the order of time."""
        from holdfast.lifecycles.dispatch.store import Dags

        dags = Dags.over(self._store)
        self.now = [node for one in await dags.read([run], nodes=True) for node in one["nodes"]]
        marks = {one["task_id"]: (one["state"], one["attempt"], one["started_at"], one["due_at"]) for one in self.now}
        changed = [one for one in self.now if self._seen.get(one["task_id"]) != marks[one["task_id"]]]
        found = await dags.moves(changed) if changed else []
        news = [one for one in found if one.version > self._told.get(str(one.task_id), -1)]
        self._told |= {str(one.task_id): one.version for one in news}
        self._seen = marks
        return sorted(news, key=lambda one: one.at)


def woven(own: "list[Event | StepEvent]", nodes: "list[NodeMove]") -> "list[Event | StepEvent]":
    """All by time. At one moment a run begins before its nodes do, and ends after them."""
    first = [one for one in own if getattr(one, "from_state", None) == ""]
    rest = [one for one in own if one not in first]
    return sorted([*first, *nodes, *rest], key=lambda one: one.at)


def line(one: "Event | StepEvent") -> list[printing.Part]:
    """A move, or an event of a step, on a line of its own; the move of a node behind its name."""
    when, what, where, attempt, worker, note = cells(one)
    parts = [
        when,
        (getattr(one, "node", ""), "bold"),
        what,
        where,
        f"attempt {attempt}",
        f"worker {worker}" if worker else "",
        note,
    ]
    return [part for one in parts if printing.cleaned(one)[0] for part in (one, "  ")]


async def say_run(store: "Store", run: str) -> None:
    """How each node of a run has ended."""
    from holdfast.cli.graphs import say_nodes
    from holdfast.lifecycles.dispatch.store import Dags

    for one in await Dags.over(store).read([UUID(run)], nodes=True):
        say_nodes(one)


def exit_code(task: dict[str, Any]) -> int:
    return EXIT_CODES[task["outcome"]] if task["outcome"] else TIMED_OUT


def say_it_goes_on(task_id: UUID) -> None:
    printing.say("It goes on. Follow it: ", (f"holdfast watch {task_id}", "bold"), err=True)


def say_why(because: "Explanation") -> None:
    """What it waits for, and what to do about it, beside the answer."""
    printing.say(printing.readable(f"{because.sentence} {because.fix}").rstrip(), err=True)


def ending(task: dict[str, Any]) -> dict[str, Any]:
    """How a task has ended, or where it is, as JSON."""
    error = task["note"] if task["outcome"] in ("failed", "cancelled") else None
    return {
        "task_id": task["id"], "state": task["state"], "outcome": task["outcome"], "attempt": task["attempt"],
        "result": task["result"], "error": error,
    }  # fmt: skip


def say_end(task: dict[str, Any], *, err: bool = False) -> None:
    """How it has ended, in a line."""
    note = note_of(task["note"]) if task["outcome"] in ("failed", "cancelled") else ""
    tries = f" after {task['attempt']} attempts" if task["attempt"] > 1 else ""
    printing.say(printing.state(task, err=err), tries, f": {note}" if note else "", err=err)
