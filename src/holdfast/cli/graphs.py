"""Runs of graphs: waiting for one, and telling of its nodes, level by level."""

import asyncio
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from holdfast.cli import printing
from holdfast.cli.polling import OUTCOMES, poll
from holdfast.cli.watching import EXIT_CODES, TIMED_OUT
from holdfast.errors import HoldfastError, ServerUnreachable

if TYPE_CHECKING:
    from holdfast.cli.calling import Server

Run = dict[str, Any]

ACTORS = {"Blocked": "tasks", "Failed": "clock"}
shown_nodes = 200


async def wait_and_tell(server: "Server", run: str, patience: timedelta | None, *, as_json: bool = False) -> int:
    """Show how it goes until it has ended or patience has; say how; the exit code."""
    from holdfast.cli.progress import Nodes

    async def look() -> Run:
        now = await server.ask("GET", f"/dags/{run}")
        return {**now, "status": now["state"].upper()}

    try:
        with Nodes(quiet=as_json) as picture:
            now = await poll(look, picture, patience, reason=lambda now: reason(server, now))
    except ServerUnreachable:
        printing.say("Follow it when the server is back: ", (f"holdfast dag show {run}", "bold"), err=True)
        raise
    except (asyncio.CancelledError, HoldfastError):
        say_it_goes_on(run)
        raise
    outcome = OUTCOMES.get(now.pop("status"))
    if as_json:
        printing.answer(now)
    else:
        say_end(now)
        if not outcome and (why := await reason(server, now)):
            printing.say(why, err=True)
        say_nodes(now)
    return EXIT_CODES[outcome] if outcome else TIMED_OUT


async def reason(server: "Server", run: Run) -> str:
    """Why its first open node does not go on; empty if a worker has one."""
    open_ones = [one for one in run["nodes"] if not one["outcome"]]
    if not open_ones or any(one["state"] == "Running" for one in open_ones):
        return ""
    why = await server.ask("GET", f"/api/v1/tasks/{open_ones[0]['task_id']}/why")
    return printing.readable(f"{open_ones[0]['name']}: {why['sentence']} {why['fix']}").rstrip()


# In words


def state(one: Mapping[str, Any], *, err: bool = False) -> printing.Part:
    return printing.state({**one, "actor": ACTORS.get(one["state"], "worker")}, err=err)


def say_it_goes_on(run: str) -> None:
    printing.say("It goes on. Follow it: ", (f"holdfast dag show {run}", "bold"), err=True)
    printing.say("Cancel it: ", (f"holdfast dag cancel {run}", "bold"), err=True)


def say_end(run: Run) -> None:
    """How it ended, in a line or two beside the answer."""
    counts = {name: number for name, number in run["progress"].items() if number and name != "total"}
    told = ", ".join(f"{number} {name}" for name, number in counts.items())
    took = f", {span}" if (span := taken(run["created_at"], run["finished_at"])) else ""
    printing.say(state(run, err=True), f": Nodes: {told}{took}", (f"  {run['dag_id']}", "dim"), err=True)
    if not run["finished_at"]:
        printing.say("Not in time.", err=True)
        say_it_goes_on(run["dag_id"])
    elif run["state"] != "Completed":
        printing.say("Run again what did not complete:", err=True)
        printing.say((f"  holdfast dag retry {run['dag_id']}", "bold"), err=True)


def facts_of(run: Run) -> list[tuple[str, printing.Part]]:
    """What there is to know of a run beside its nodes."""
    progress = run["progress"]
    found: list[tuple[str, printing.Part]] = [
        ("run", run["dag_id"]),
        ("graph", run["name"]),
        ("state", state(run)),
        ("error", run["error"] or ""),
        ("nodes", f"{progress['completed']} of {progress['total']} completed"),
        ("writes", written(run)),
        ("made", printing.shown(datetime.fromisoformat(run["created_at"]))),
        ("took", taken(run["created_at"], run["finished_at"])),
        ("params", printing.to_json(run["params"]) if run["params"] else ""),
        ("retry of", run["retry_of"] or ""),
        ("retried as", run["retried_as"] or ""),
    ]
    return [(name, value) for name, value in found if value]


def written(run: Run) -> str:
    """The datasets of which it makes a generation, and which."""
    return ", ".join(f"{one['dataset']} v{one['version']}" for one in run["writes"])


def taken(began: str | None, ended: str | None) -> str:
    if not began or not ended:
        return ""
    return printing.lasting(datetime.fromisoformat(ended) - datetime.fromisoformat(began), fine=True)


def say_nodes(run: Run) -> None:
    """The nodes by their levels, each with what it comes after; those that failed with why."""
    nodes = sorted(run["nodes"], key=lambda one: levels(run)[one["name"]]) if len(run["nodes"]) <= shown_nodes else []
    depth, behind = levels(run), after(run)
    if not nodes:  # of so many, those that say something
        nodes = [one for one in run["nodes"] if one["state"] in ("Running", "Failed", "Dead")][:shown_nodes]
    printing.table(
        ("level", "node", "state", "after", "tries", "took", "about"),
        [
            (
                str(depth[one["name"]]), one["name"], state(one), behind.get(one["name"], ""),
                str(one["attempt"]) if one["started_at"] else "", taken(one["started_at"], one["finished_at"]),
                about(one),
            )
            for one in nodes
        ],
        elastic=("after", "about"),
    )  # fmt: skip
    if len(nodes) < len(run["nodes"]):
        printing.say((f"... and {len(run['nodes']) - len(nodes):,} more: --json has all", "dim"))


def about(node: Mapping[str, Any]) -> str:
    told = node["progress"] if isinstance(node["progress"], dict) else {}
    return node["error"] or str(told.get("note") or told.get("step") or "")


def say_declared(dag: dict[str, Any]) -> None:
    """A graph as it is declared."""
    params = [
        f"{name}{'' if one.get('needed') else '?'}" for name, one in sorted(dag["params"].items()) if name != "**"
    ]
    facts: list[tuple[str, printing.Part]] = [
        ("graph", dag["name"]), ("title", dag["title"]), ("params", ", ".join(params)),
        ("writes", ", ".join(f"{name} ({mode})" for name, mode in dag["writes"].items())),
        ("workers", "ready" if dag["ready"] else "missing"),
    ]  # fmt: skip
    printing.facts([one for one in facts if one[1]])
    depth, behind = levels(dag), after(dag)
    printing.table(
        ("level", "node", "task", "after"),
        [
            (str(depth[one["name"]]), one["name"], one["task"], behind.get(one["name"], ""))
            for one in sorted(dag["nodes"], key=lambda one: depth[one["name"]])
        ],
        elastic=("after",),
    )


def levels(graph: Mapping[str, Any]) -> dict[str, int]:
    """How many edges lead to each node at most, counted from 1. Nodes come behind those they come after."""
    depth = {one["name"]: 1 for one in graph["nodes"]}
    before: dict[str, list[str]] = {}
    for edge in graph["edges"]:
        before.setdefault(edge["to"], []).append(edge["from"])
    for name in depth:
        depth[name] = 1 + max((depth[one] for one in before.get(name, ())), default=0)
    return depth


def after(graph: Mapping[str, Any]) -> dict[str, str]:
    """What each node comes after, in words; with the policy, if that is not to cancel."""
    found: dict[str, list[str]] = {}
    for edge in graph["edges"]:
        policy = edge.get("on_failure") or "cancel"
        found.setdefault(edge["to"], []).append(edge["from"] + (f" ({policy})" if policy != "cancel" else ""))
    return {name: ", ".join(ones) for name, ones in found.items()}


def mermaid(dag: Mapping[str, Any]) -> str:
    """The graph as Mermaid draws it. Names are names of functions, and need no quotes."""
    return "\n".join(["flowchart LR", *(f"    {line}" for line in drawn(dag))])


def drawn(dag: Mapping[str, Any]) -> Iterator[str]:
    number = {one["name"]: f"n{place}" for place, one in enumerate(dag["nodes"], 1)}
    for one in dag["nodes"]:
        yield f'{number[one["name"]]}["{one["name"]}"]'
    for edge in dag["edges"]:
        policy = edge.get("on_failure") or "cancel"
        arrow = "-->" if policy == "cancel" else f"-. {policy} .->"
        yield f"{number[edge['from']]} {arrow} {number[edge['to']]}"
