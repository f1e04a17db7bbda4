"""`holdfast dag`: run a graph of tasks, look at its runs, retry and cancel them. Asks the server, as clients do."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

import typer

from holdfast.cli import graphs as telling
from holdfast.cli import printing
from holdfast.cli.ids import beginning, find_newest
from holdfast.cli.options import Json, Timeout
from holdfast.cli.pipeline import pairs, told_apart
from holdfast.cli.runs import call
from holdfast.cli.tasks import REFUSED, parse_json, read_file
from holdfast.errors import GraphUnknown, RequestInvalid

if TYPE_CHECKING:
    from holdfast.cli.calling import Server

app = typer.Typer(invoke_without_command=True)

Run = Annotated[str, typer.Argument(metavar="ID", help="A run's id, or the beginning of it.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end, and show the nodes meanwhile.")]


@app.callback()
def dags(context: typer.Context, as_json: Json = False) -> None:
    """Run graphs of tasks, and look after their runs."""
    if not context.invoked_subcommand:
        declared(as_json=as_json)


@app.command()
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A graph; `holdfast dag declared` lists them.")],
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A parameter, as JSON or as text; again for more."),
    ] = None,
    params: Annotated[
        str | None, typer.Option(metavar="FILE|JSON", help="Parameters, as JSON or in a file; --param beats it.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The same key gives the same run.")] = None,
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """Run a graph: its nodes are started as soon as what they come after is done.

    Speaks to the server at HOLDFAST_API, by default the one on this machine. With --wait the exit code says how it
    ended: 0 completed, 1 failed, 6 partly done, 7 cancelled, 124 not in time.
    """
    body = {"dag": name, "params": {**given(params), **pairs(param, "--param")}}

    async def question(server: "Server") -> int:
        made = await server.ask("POST", "/dags", body, key=key or uuid4().hex)
        return await begun(server, made, wait, timeout, as_json)

    raise typer.Exit(call(question))


@app.command("declared")
def declared(as_json: Json = False) -> None:
    """List the graphs that can be run: their nodes in order, what they write, and whether workers are there."""
    found = call(lambda server: server.ask("GET", "/dags/declared"))["items"]
    if as_json:
        printing.answer(found)
        return
    if not found:
        printing.say("There are no graphs. A worker declares those of its application:", err=True)
        printing.say(("  holdfast worker --app MODULE:NAME", "bold"), err=True)
        return
    printing.table(
        ("name", "workers", "nodes", "writes", "title"),
        [
            (
                one["name"],
                ("ready", "green") if one["ready"] else ("missing", "yellow"),
                " ".join(node["name"] for node in one["nodes"]),
                ", ".join(one["writes"]),
                one["title"],
            )
            for one in found
        ],
        elastic=("nodes", "title"),
    )


@app.command("ls")
def list_runs(
    dag: Annotated[str | None, typer.Option(help="Of this graph.")] = None,
    state: Annotated[str | None, typer.Option(help="In this state, such as Running or Failed.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many.")] = 20,
    as_json: Json = False,
) -> None:
    """List runs, the newest first."""
    asked = {"limit": limit, "dag": dag, "state": state and state.capitalize()}
    query = urlencode({name: value for name, value in asked.items() if value is not None})
    found = call(lambda server: server.ask("GET", f"/dags?{query}"))["items"]
    if as_json:
        printing.answer(found)
        return
    if not found:
        printing.say("No such run. " if dag or state else "There are no runs. ", err=True)
        printing.say(("holdfast dag run NAME --wait", "bold"), " makes one.", err=True)
        return
    ids, now = [UUID(one["dag_id"]) for one in found], datetime.now(UTC)
    printing.table(
        ("id", "graph", "state", "nodes", "failed", "writes", "made"),
        [(beginning(one_id, ids, told_apart), *row(one, now)) for one_id, one in zip(ids, found, strict=True)],
        elastic=("graph", "writes"),
    )


@app.command()
def show(
    what: Annotated[str, typer.Argument(metavar="ID|NAME", help="A run's id, its beginning, or a graph's name.")],
    as_json: Json = False,
) -> None:
    """A run, level by level: where each node is and what it comes after; or a graph, as it is declared."""

    async def question(server: "Server") -> tuple[dict[str, Any], bool]:
        known = (await server.ask("GET", "/dags/declared"))["items"]
        for one in known:
            if one["name"] == what:
                return one, True
        return await server.ask("GET", f"/dags/{await find(server, what)}"), False

    now, is_declared = call(question)
    if as_json:
        printing.answer(now)
    elif is_declared:
        telling.say_declared(now)
    else:
        printing.facts(telling.facts_of(now))
        telling.say_nodes(now)


@app.command()
def retry(run: Run, wait: Wait = False, timeout: Timeout = None, as_json: Json = False) -> None:
    """Run again what did not complete of a run, as a new run. What completed is kept."""

    async def question(server: "Server") -> int:
        made = await server.ask("POST", f"/dags/{await find(server, run)}/retry")
        return await begun(server, made, wait, timeout, as_json)

    raise typer.Exit(call(question))


@app.command()
def cancel(
    run: Run,
    reason: Annotated[str | None, typer.Option(help="Why; it stays in the run's history.")] = None,
    as_json: Json = False,
) -> None:
    """Cancel a run: what waits is cancelled at once, what runs is told."""

    async def question(server: "Server") -> dict[str, Any]:
        return await server.ask("POST", f"/dags/{await find(server, run)}/cancel", {"reason": reason})

    now = call(question)
    if as_json:
        printing.answer(now)
    elif now["effect"] == "too_late":
        printing.say(f"Too late: it is {now['state']}.", err=True)
    else:
        printing.say(f"It is {now['state']}.")
    raise typer.Exit(REFUSED if now["effect"] == "too_late" else 0)


@app.command()
def draw(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A graph that is declared.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Into this file.", dir_okay=False)] = None,
) -> None:
    """A graph as Mermaid, for documents."""
    found = call(lambda server: server.ask("GET", "/dags/declared"))["items"]
    one = next((one for one in found if one["name"] == name), None)
    if one is None:
        there = ", ".join(one["name"] for one in found) or "none; start a worker that declares one"
        raise GraphUnknown(f"There is no graph {name!r}.", fix=f"There are: {there}.")
    text = telling.mermaid(one)
    if output is None:
        typer.echo(text)
        return
    try:
        output.write_text(f"{text}\n")
    except OSError as error:
        raise typer.BadParameter(f"{output} cannot be written: {error.strerror}.") from None


async def begun(server: "Server", made: dict[str, Any], wait: bool, patience: Any, as_json: bool) -> int:
    """Say that a run has begun, or wait for its end; the exit code."""
    if wait:
        return await telling.wait_and_tell(server, made["dag_id"], patience, as_json=as_json)
    if as_json:
        printing.answer(made)
    else:
        typer.echo(made["dag_id"])
        printing.say(("Follow it: ", "dim"), (f"holdfast dag show {made['dag_id']}", "bold"), err=True)
    return 0


async def find(server: "Server", text: str) -> UUID:
    """The one run whose id begins so, of the newest. Raises TaskNotFound or RequestInvalid."""
    return await find_newest(server, "dag", text, word="run", listing="holdfast dag ls")


def given(params: str | None) -> dict[str, Any]:
    """Parameters, as they are written or from a file. Raises PayloadInvalid or RequestInvalid."""
    if params is None:
        return {}
    is_written = params.lstrip().startswith("{")
    found = parse_json("--params" if is_written else params, params if is_written else read_file(params))
    if not isinstance(found, dict):
        raise RequestInvalid("Parameters are an object.", fix='Write {"name": value}.')
    return found


def row(run: dict[str, Any], now: datetime) -> tuple[printing.Part, ...]:
    progress = run["progress"]
    failed = progress["failed"] + progress["canceled"]
    return (
        run["name"],
        telling.state(run),
        f"{progress['completed']} of {progress['total']}",
        str(failed) if failed else "",
        telling.written(run),
        printing.age(datetime.fromisoformat(run["created_at"]), now),
    )
