"""`holdfast dag`: run a graph of tasks, look at its runs, retry and cancel them. Asks the server, as clients do."""

from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer

from holdfast.cli.access import Server
from holdfast.cli.kinds import Kind
from holdfast.cli.options import REFUSED, Answer, Json, Key, Page, Param, Patience, Reason, asks_server, group
from holdfast.cli.params import read_pairs, read_params
from holdfast.cli.printing import (
    Cell,
    format_state,
    format_took,
    print_facts,
    print_json,
    print_line,
    print_more,
    print_table,
)
from holdfast.cli.watcher import why_waiting
from holdfast.errors import GraphUnknown

app = typer.Typer()

Run = dict[str, Any]
Id = Annotated[str, typer.Argument(metavar="ID", help="A run's id, or the beginning of it.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end, and show the nodes meanwhile.")]

ACTORS = {"Blocked": "tasks", "Failed": "clock"}
nodes_listed = 200


@app.command()
@asks_server
async def run(
    server: Server,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A graph; `holdfast dag declared` lists them.")],
    param: Param = None,
    params: Annotated[
        str | None, typer.Option(metavar="FILE|JSON", help="Parameters, as JSON or in a file; --param beats it.")
    ] = None,
    key: Key = None,
    wait: Wait = False,
    patience: Patience = None,
    as_json: Json = False,
) -> int:
    """Run a graph: its nodes are started as soon as what they come after is done.

    Speaks to the server at HOLDFAST_API, by default the one on this machine. With --wait the exit code says how it
    ended: 0 completed, 1 failed, 6 partly done, 7 cancelled, 124 not in time.
    """
    body = {"dag": name, "params": read_params(params) | read_pairs(param, "--param")}
    made = await server.ask("POST", "/dags", body, key=key or uuid4().hex)
    return await RUN.follow(server, made, patience, print_end, wait=wait, as_json=as_json)


@app.command("declared")
@asks_server
async def list_declared(server: Server) -> Answer:
    """List the graphs that can be run: their nodes in order, what they write, and whether workers are there."""
    found = (await server.ask("GET", "/dags/declared"))["items"]
    yield found
    if not found:
        print_line("There are no graphs. A worker declares those of its application:", err=True)
        print_line(("  holdfast worker --app MODULE:NAME", "bold"), err=True)
        return
    rows = [
        (
            one["name"],
            ("ready", "green") if one["ready"] else ("missing", "yellow"),
            " ".join(node["name"] for node in one["nodes"]),
            ", ".join(one["writes"]),
            one["title"],
        )
        for one in found
    ]
    print_table(("name", "workers", "nodes", "writes", "title"), rows, elastic=("nodes", "title"))


@group(app, by_default=list_declared)
@asks_server
def list_runs(
    server: Server,
    dag: Annotated[str | None, typer.Option(help="Of this graph.")] = None,
    state: Annotated[str | None, typer.Option(help="In this state, such as Running or Failed.")] = None,
    limit: Page = 20,
) -> Answer:
    """List runs, the newest first."""
    return RUN.list_newest(server, limit, dag=dag, state=state and state.capitalize())


@app.command()
@asks_server
async def show(
    server: Server,
    what: Annotated[str, typer.Argument(metavar="ID|NAME", help="A run's id, its beginning, or a graph's name.")],
) -> Answer:
    """A run, level by level: where each node is and what it comes after; or a graph, as it is declared."""
    declared = (await server.ask("GET", "/dags/declared"))["items"]
    graph = next((one for one in declared if one["name"] == what), None)
    now = graph or await RUN.ask(server, "GET", what)
    yield now
    if graph:
        print_declared(graph)
    else:
        own, took = own_cells(now), format_took(now["created_at"], now["finished_at"])
        names = ("graph", "state", "error", "nodes", "writes", "made", "took", "params", "retry of", "retried as")
        RUN.print_facts(now, names, {**own, "nodes": f"{own['nodes']} completed", "took": took})
        print_nodes(now)


@app.command()
@asks_server
async def retry(server: Server, run: Id, wait: Wait = False, patience: Patience = None, as_json: Json = False) -> int:
    """Run again what did not complete of a run, as a new run. What completed is kept."""
    made = await RUN.ask(server, "POST", run, "/retry")
    return await RUN.follow(server, made, patience, print_end, wait=wait, as_json=as_json)


@app.command()
@asks_server
async def cancel(server: Server, run: Id, reason: Reason = None, as_json: Json = False) -> int:
    """Cancel a run: what waits is cancelled at once, what runs is asked to stop."""
    now = await RUN.ask(server, "POST", run, "/cancel", {"reason": reason})
    is_late = now["effect"] == "too_late"
    if as_json:
        print_json(now)
    else:
        print_line(f"{'Too late: it' if is_late else 'It'} is {now['state']}.", err=is_late)
    return REFUSED if is_late else 0


@app.command()
@asks_server
async def draw(
    server: Server,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A graph that is declared.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Into this file.", dir_okay=False)] = None,
) -> None:
    """A graph as Mermaid, for documents."""
    found = (await server.ask("GET", "/dags/declared"))["items"]
    one = next((one for one in found if one["name"] == name), None)
    if one is None:
        names = ", ".join(one["name"] for one in found) or "none; start a worker that declares one"
        raise GraphUnknown(f"There is no graph {name!r}.", fix=f"There are: {names}.")
    text = "\n".join(["flowchart LR", *(f"    {line}" for line in mermaid_lines(one))])
    if output is None:
        typer.echo(text)
        return
    try:
        output.write_text(f"{text}\n")
    except OSError as error:
        raise typer.BadParameter(f"{output} cannot be written: {error.strerror}.") from None


# Following a run


async def print_end(server: Server, run: Run) -> Answer:
    """How it has ended, node by node."""
    yield run
    summary = ", ".join(f"{number} {name}" for name, number in run["progress"].items() if number and name != "total")
    command = f"holdfast dag retry {run['dag_id']}"
    again = ("Run again what did not complete", command) if run["state"] != "Completed" else None
    await RUN.print_end(server, {**run, "error": None}, f"Nodes: {summary}", again)
    print_nodes(run)


async def why(server: Server, run: Run) -> str:
    """Why its first open node does not go on; empty if a worker has one."""
    open_nodes = [one for one in run["nodes"] if not one["outcome"]]
    if not open_nodes or any(one["state"] == "Running" for one in open_nodes):
        return ""
    return await why_waiting(server, open_nodes[0]["task_id"], name=f"{open_nodes[0]['name']}: ")


# What is printed


def format_node_state(one: Mapping[str, Any]) -> Cell:
    return format_state({**one, "actor": ACTORS.get(one["state"], "worker")})


def own_cells(run: Run) -> dict[str, Cell]:
    progress = run["progress"]
    return {
        "graph": run["name"],
        "state": format_node_state(run),
        "nodes": f"{progress['completed']} of {progress['total']}",
        "failed": str(progress["failed"] + progress["canceled"] or ""),
        "writes": ", ".join(f"{one['dataset']} v{one['version']}" for one in run["writes"]),
    }


RUN = Kind(
    path="/dags", lifecycle="dag", id_field="dag_id", noun="run", plural="runs",
    listing="holdfast dag ls", example="holdfast dag run NAME --wait",
    columns=("graph", "state", "nodes", "failed", "writes", "made"), own_cells=own_cells, elastic=("graph", "writes"),
    name=lambda run: str(run["name"]), why=why, following="holdfast dag show", cancelling="holdfast dag cancel",
)  # fmt: skip


def print_nodes(run: Run) -> None:
    """The nodes by their levels, each with what it comes after; of very many those that run or failed."""
    nodes = arrange(run)
    if len(nodes) > nodes_listed:
        nodes = [each for each in nodes if each[1]["state"] in ("Running", "Failed", "Dead")][:nodes_listed]
    else:
        nodes.sort(key=itemgetter(0))
    rows = [
        (
            str(level), one["name"], format_node_state(one), after,
            str(one["attempt"]) if one["started_at"] else "", format_took(one["started_at"], one["finished_at"]),
            describe_node(one),
        )
        for level, one, after in nodes
    ]  # fmt: skip
    heads = ("level", "node", "state", "after", "tries", "took", "about")
    print_table(heads, rows, elastic=("after", "about"))
    print_more(len(run["nodes"]) - len(nodes))


def describe_node(node: Mapping[str, Any]) -> str:
    from holdfast.engine.progress import read_progress

    return node["error"] or read_progress(node["progress"]).note


def print_declared(dag: Run) -> None:
    """A graph as it is declared."""
    params = [
        f"{name}{'' if one.get('needed') else '?'}" for name, one in sorted(dag["params"].items()) if name != "**"
    ]
    print_facts(
        [
            ("graph", dag["name"]),
            ("title", dag["title"]),
            ("params", ", ".join(params)),
            ("writes", ", ".join(f"{name} ({mode})" for name, mode in dag["writes"].items())),
            ("workers", "ready" if dag["ready"] else "missing"),
        ]
    )
    nodes = sorted(arrange(dag), key=itemgetter(0))
    rows = [(str(level), one["name"], one["task"], after) for level, one, after in nodes]
    print_table(("level", "node", "task", "after"), rows, elastic=("after",))


def arrange(graph: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any], str]]:
    """Each node with its level, which is how many edges lead to it at most, from 1 on; and with what it comes after.

    Nodes are listed behind those they come after.
    """
    before: dict[str, list[Mapping[str, Any]]] = {}
    for edge in graph["edges"]:
        before.setdefault(edge["to"], []).append(edge)
    levels: dict[str, int] = {}
    found = []
    for one in graph["nodes"]:
        edges = before.get(one["name"], ())
        level = levels[one["name"]] = 1 + max((levels[edge["from"]] for edge in edges), default=0)
        after = (edge["from"] + (f" ({policy})" if (policy := policy_of(edge)) else "") for edge in edges)
        found.append((level, one, ", ".join(after)))
    return found


def policy_of(edge: Mapping[str, Any]) -> str:
    """What becomes of the node behind if the one before fails; empty if it is cancelled."""
    policy: str = edge.get("on_failure") or "cancel"
    return "" if policy == "cancel" else policy


def mermaid_lines(dag: Mapping[str, Any]) -> Iterator[str]:
    """The graph as Mermaid draws it. Names are names of functions, and need no quotes."""
    number = {one["name"]: f"n{place}" for place, one in enumerate(dag["nodes"], 1)}
    for one in dag["nodes"]:
        yield f'{number[one["name"]]}["{one["name"]}"]'
    for edge in dag["edges"]:
        policy = policy_of(edge)
        arrow = f"-. {policy} .->" if policy else "-->"
        yield f"{number[edge['from']]} {arrow} {number[edge['to']]}"
