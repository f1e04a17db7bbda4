"""`holdfast pipeline`: run one, look at its jobs, change what they begin with. Asks the server, as any client does."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote
from uuid import uuid4

import typer

from holdfast.cli.access import Server
from holdfast.cli.files import make_folder, print_paths, save_file
from holdfast.cli.kinds import Kind
from holdfast.cli.options import Answer, Json, Key, Page, Param, Patience, asks_server, group
from holdfast.cli.params import read_pairs, read_params
from holdfast.cli.printing import (
    MARKS,
    Cell,
    count,
    format_json,
    format_time,
    format_took,
    is_terminal,
    print_block,
    print_line,
    print_links,
    print_table,
    to_json,
)
from holdfast.cli.watcher import outcome_of, why_waiting
from holdfast.errors import TaskNotFound

app = typer.Typer()

Job = dict[str, Any]
Files = list[dict[str, Any]]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A pipeline; `holdfast pipeline ls` lists them.")]

errors_listed = 10
longest_summary = 2000


@app.command()
@asks_server
async def run(
    server: Server,
    name: Name,
    param: Param = None,
    params: Annotated[
        Path | None, typer.Option(help="A JSON file of parameters; --param beats it.", exists=True, dir_okay=False)
    ] = None,
    evaluate: Annotated[bool, typer.Option("--evaluate", help="Sets enable_evaluation.")] = False,
    optimize: Annotated[
        bool, typer.Option("--optimize", help="Sets enable_auto_optimize, and --evaluate with it.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end, and show the stages meanwhile.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Wait, and download what it wrote.", file_okay=False),
    ] = None,
    key: Key = None,
    patience: Patience = None,
    as_json: Json = False,
) -> int:
    """Run a pipeline: make a job that goes through its stages.

    Speaks to the server at HOLDFAST_API, by default the one on this machine. With --wait the exit code says how it
    ended: 0 completed, 1 failed, 6 partly done, 7 cancelled, 124 not in time.
    """
    given = read_params(str(params) if params else None) | read_pairs(param, "--param")
    body: dict[str, Any] = {"pipeline": name, "params": given}
    body |= {"enable_evaluation": True} if evaluate or optimize else {}
    body |= {"enable_auto_optimize": True} if optimize else {}
    if output:
        make_folder(output)
    job = await server.ask("POST", "/pipeline/jobs", body, key=key or uuid4().hex)
    end, is_awaited = partial(print_end, folder=output), wait or output is not None
    return await JOB.follow(server, job, patience, end, wait=is_awaited, as_json=as_json)


@group(app)
@asks_server
async def list_pipelines(server: Server) -> Answer:
    """List the pipelines: their stages in order, their settings, and whether a worker is there for them."""
    found = (await server.ask("GET", "/pipeline/pipelines"))["items"]
    yield found
    if not found:
        print_line("There are no pipelines. A worker declares those of its application:", err=True)
        print_line(("  holdfast worker --app MODULE:NAME", "bold"), err=True)
        return
    rows = [
        (
            one["name"],
            ("ready", "green") if one["ready"] else ("none", "yellow"),
            " > ".join(stage["name"] for stage in one["stages"]),
            to_json(one["settings"]) if one["settings"] else "",
        )
        for one in found
    ]
    print_table(("name", "worker", "stages", "settings"), rows, elastic=("stages", "settings"))


@app.command("jobs")
@asks_server
def list_jobs(
    server: Server,
    pipeline: Annotated[str | None, typer.Option(help="Of this pipeline.")] = None,
    status: Annotated[str | None, typer.Option(help="In this state, such as RUNNING or FAILED.")] = None,
    limit: Page = 20,
) -> Answer:
    """List jobs, the newest first."""
    return JOB.list_newest(server, limit, pipeline=pipeline, status=status and status.upper())


@app.command()
@asks_server
async def show(
    server: Server, job: Annotated[str, typer.Argument(metavar="ID", help="A job's id, or the beginning of it.")]
) -> Answer:
    """A job: its stages and what went wrong in them, its summary, and links to what it wrote."""
    now = await JOB.ask(server, "GET", job)
    files, gone = await JOB.read_links(server, now, "outputs")
    yield {**now, "outputs": None if gone else files}
    waits = now["waits"] or {}
    until = f"{waits.get('reason') or ''} until {format_time(waits['until'])}" if waits else ""
    names = ("pipeline", "state", "error", "waits", "cancel", "made", "took", "cost", "params", "settings", "retry of")
    JOB.print_facts(now, names, {"waits": until})
    print_stages(now)
    print_links(files)
    if gone:
        print_line((gone, "yellow"), err=True)


@app.command()
@asks_server
async def settings(
    server: Server,
    name: Name,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="For jobs that do not name it; JSON or text; again for more."),
    ] = None,
    reset: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Back to the default; again for more.")] = None,
) -> Answer:
    """What the jobs of a pipeline begin with, unless they say otherwise; and change it for jobs to come."""
    changes = read_pairs(change, "--set")
    if twice := [one for one in reset or () if one in changes]:
        raise typer.BadParameter(f"{twice[0]} is both set and reset.")
    changes |= dict.fromkeys(reset or ())
    if changes:
        await server.ask("PUT", f"/pipeline/pipelines/{quote(name, safe='')}/settings", {"settings": changes})
    now = await find_pipeline(server, name)
    yield {"name": now["name"], "settings": now["settings"]}
    rows = [
        (key, *value_of(about, key, now["settings"])) for key, about in sorted(now["params"].items()) if key != "**"
    ]
    heads, none = ("parameter", "value", "from", "takes"), [f"The stages of {name} take no parameters."]
    print_table(heads, rows, elastic=("value",), none=none)


async def find_pipeline(server: Server, name: str) -> dict[str, Any]:
    """A pipeline by its name. Raises TaskNotFound."""
    items: list[dict[str, Any]] = (await server.ask("GET", "/pipeline/pipelines"))["items"]
    for one in items:
        if one["name"] == name:
            return one
    names = ", ".join(one["name"] for one in items) or "none; start a worker that declares one"
    raise TaskNotFound(f"There is no pipeline {name!r}.", fix=f"There are: {names}.")


# Following a job


async def print_end(server: Server, job: Job, *, folder: Path | None) -> Answer:
    """How it has ended, stage by stage, and what it wrote, which is fetched into the folder."""
    files, _ = await JOB.read_links(server, job, "outputs")
    saved = await save_all(server, files, folder) if folder and outcome_of(job) else []
    yield {**job, "outputs": files, **({"saved": saved} if folder else {})}
    again = None
    if job["status"] in ("PARTIAL", "FAILED"):
        again = ("Run it again from the first stage that did not complete", f"holdfast retry {job['job_id']}")
    counts = Counter(one["status"] for one in job["stages"])
    summary = ", ".join(f"{number} {status}" for status, number in counts.items())
    await JOB.print_end(server, job, f"Stages: {summary}", again)
    print_stages(job)
    if saved:
        print_paths(saved)
    else:
        print_links(files)


async def save_all(server: Server, files: Files, folder: Path) -> list[str]:
    """Download all. Where two stages wrote the same name, each has a folder of its stage. Raises RequestInvalid."""
    times = Counter(one["name"] for one in files)
    names = [one["name"] if times[one["name"]] == 1 else f"{one['stage']}/{one['name']}" for one in files]
    return [await save_file(server, one["url"], name, folder) for one, name in zip(files, names, strict=True)]


# What is printed


def own_cells(job: Job) -> dict[str, Cell]:
    ended = sum(1 for one in job["stages"] if one["finished_at"])
    running = next((f", {one['name']}" for one in job["stages"] if one["status"] == "running"), "")
    return {"stages": f"{ended} of {len(job['stages'])}{running}"}


JOB = Kind(
    path="/pipeline/jobs", lifecycle="pipeline", id_field="job_id", noun="job", plural="jobs",
    listing="holdfast pipeline jobs", example="holdfast pipeline run NAME --wait",
    columns=("pipeline", "state", "stages", "cost", "made"), own_cells=own_cells, elastic=("pipeline",),
    name=lambda job: str(job["pipeline"]), why=lambda server, job: why_waiting(server, job["job_id"]),
    following="holdfast watch", cancelling="holdfast cancel", is_claimed=True,
)  # fmt: skip


def print_stages(job: Job) -> None:
    """The stages in a table, then what they did not bring about, then the summary."""
    rows = []
    for stage, part in zip(job["stages"], job["parts"], strict=True):
        sign, style = MARKS[part["status"]]
        status = (f"{sign} {stage['status']}", style) if is_terminal() else stage["status"]
        took = format_took(stage["started_at"], stage["finished_at"])
        rows.append((stage["name"], status, took, part["note"] or describe_outputs(stage)))
    if rows:
        print_table(("stage", "status", "took", "about"), rows, elastic=("about",))
    for stage in job["stages"]:
        for one in stage["errors"][:errors_listed]:
            print_line((f"{stage['name']} ", "bold"), f"{stage['status']}: ", str(one))
        if len(stage["errors"]) > errors_listed:
            print_line((f"{stage['name']}: {len(stage['errors']) - errors_listed} more, with --json", "dim"))
    if job["summary"] is not None:
        print_line(("summary", "dim"))
        text = job["summary"] if isinstance(job["summary"], str) else format_json(job["summary"])
        print_block(text, most=longest_summary)


def describe_outputs(stage: dict[str, Any]) -> str:
    """What a stage made: its files, new settings, and how many errors."""
    number = len(stage["errors"])
    errors = [count(number, "error")] if number else []
    found = [f"{name} is {to_json(value)} from now on" for name, value in (stage["settings"] or {}).items()]
    return ", ".join([*errors, *(one["name"] for one in stage["outputs"]), *found])


def value_of(about: dict[str, Any], key: str, values: dict[str, Any]) -> tuple[str, str, str]:
    """What a parameter is if a job does not name it, where that comes from, and what it takes."""
    takes = " or ".join(about["kinds"]) if len(about["kinds"]) < 6 else "anything"
    if key in values:
        return to_json(values[key]), "setting", takes
    if about.get("needed"):
        return "", "each job names it", takes
    return to_json(about.get("default")), "default", takes
