"""`holdfast pipeline`: run one, look at its jobs, change what they begin with. Asks the server, as any client does."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlencode
from uuid import UUID, uuid4

import typer

from holdfast.cli import jobs as telling
from holdfast.cli import printing
from holdfast.cli.ids import beginning
from holdfast.cli.options import Json, Timeout
from holdfast.cli.runs import call
from holdfast.cli.tasks import STUCK, parse_json, read_file
from holdfast.errors import RequestInvalid, TaskNotFound

if TYPE_CHECKING:
    from holdfast.cli.calling import Server

app = typer.Typer(invoke_without_command=True)

told_apart = 18  # so much of an id is its moment and some chance: other jobs than those listed have others

Name = Annotated[str, typer.Argument(metavar="NAME", help="A pipeline; `holdfast pipeline ls` lists them.")]


@app.callback()
def pipelines(context: typer.Context, as_json: Json = False) -> None:
    """Run pipelines, and look after their jobs."""
    if not context.invoked_subcommand:
        list_all(as_json=as_json)


@app.command()
def run(
    name: Name,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A parameter, as JSON or as text; again for more."),
    ] = None,
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
    key: Annotated[str | None, typer.Option(help="The same key gives the same job.")] = None,
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """Run a pipeline: make a job that goes through its stages.

    Speaks to the server at HOLDFAST_API, by default the one on this machine. With --wait the exit code says how it
    ended: 0 completed, 1 failed, 6 partly done, 7 cancelled, 124 not in time.
    """
    body: dict[str, Any] = {"pipeline": name, "params": {**from_file(params), **pairs(param, "--param")}}
    body |= {"enable_evaluation": True} if evaluate or optimize else {}
    body |= {"enable_auto_optimize": True} if optimize else {}
    if output:
        make_folder(output)

    async def question(server: "Server") -> int:
        job = await server.ask("POST", "/pipeline/jobs", body, key=key or uuid4().hex)
        if wait or output:
            return await telling.wait_and_tell(server, job["job_id"], timeout, folder=output, as_json=as_json)
        tell_begun(job, as_json)
        why = await server.ask("GET", f"/api/v1/tasks/{job['job_id']}/why")
        if why["reason"] in STUCK:
            printing.say(printing.readable(f"{why['sentence']} {why['fix']}").rstrip(), err=True)
        return 0

    raise typer.Exit(call(question))


@app.command("ls")
def list_all(as_json: Json = False) -> None:
    """List the pipelines: their stages in order, their settings, and whether a worker is there for them."""
    found = call(lambda server: server.ask("GET", "/pipeline/pipelines"))["items"]
    if as_json:
        printing.answer(found)
        return
    if not found:
        printing.say("There are no pipelines. A worker declares those of its application:", err=True)
        printing.say(("  holdfast worker --app MODULE:NAME", "bold"), err=True)
        return
    printing.table(
        ("name", "worker", "stages", "settings"),
        [
            (
                one["name"],
                ("ready", "green") if one["ready"] else ("none", "yellow"),
                " > ".join(stage["name"] for stage in one["stages"]),
                printing.to_json(one["settings"]) if one["settings"] else "",
            )
            for one in found
        ],
        elastic=("stages", "settings"),
    )


@app.command("jobs")
def list_jobs(
    pipeline: Annotated[str | None, typer.Option(help="Of this pipeline.")] = None,
    status: Annotated[str | None, typer.Option(help="In this state, such as RUNNING or FAILED.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many.")] = 20,
    as_json: Json = False,
) -> None:
    """List jobs, the newest first."""
    given = {"limit": limit, "pipeline": pipeline, "status": status and status.upper()}
    query = urlencode({name: value for name, value in given.items() if value is not None})
    found = call(lambda server: server.ask("GET", f"/pipeline/jobs?{query}"))["items"]
    if as_json:
        printing.answer(found)
        return
    if not found:
        printing.say("No such job. " if pipeline or status else "There are no jobs. ", err=True)
        printing.say(("holdfast pipeline run NAME --wait", "bold"), " makes one.", err=True)
        return
    ids, now = [UUID(one["job_id"]) for one in found], datetime.now(UTC)
    printing.table(
        ("id", "pipeline", "state", "stages", "cost", "made"),
        [(beginning(one_id, ids, told_apart), *row(one, now)) for one_id, one in zip(ids, found, strict=True)],
        elastic=("pipeline",),
    )


@app.command()
def show(
    job: Annotated[str, typer.Argument(metavar="ID", help="A job's id, or the beginning of it.")], as_json: Json = False
) -> None:
    """A job: its stages and what went wrong in them, its summary, and links to what it wrote."""

    async def question(server: "Server") -> tuple[dict[str, Any], telling.Files, str]:
        now = await server.ask("GET", f"/pipeline/jobs/{await telling.find(server, job)}")
        return now, *await telling.outputs_of(server, now)

    now, files, gone = call(question)
    if as_json:
        printing.answer({**now, "outputs": None if gone else files})
        return
    printing.facts(facts_of(now))
    telling.say_stages(now)
    telling.say_files(files, ())
    if gone:
        printing.say((gone, "yellow"), err=True)


@app.command()
def settings(
    name: Name,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="For jobs that do not name it; JSON or text; again for more."),
    ] = None,
    reset: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Back to the default; again for more.")] = None,
    as_json: Json = False,
) -> None:
    """What the jobs of a pipeline begin with, unless they say otherwise; and change it for jobs to come."""
    changes = pairs(change, "--set")
    if twice := [one for one in reset or () if one in changes]:
        raise typer.BadParameter(f"{twice[0]} is both set and reset.")
    changes |= dict.fromkeys(reset or ())

    async def question(server: "Server") -> dict[str, Any]:
        if changes:
            await server.ask("PUT", f"/pipeline/pipelines/{quote(name, safe='')}/settings", {"settings": changes})
        return await one_pipeline(server, name)

    now = call(question)
    if as_json:
        printing.answer({"name": now["name"], "settings": now["settings"]})
        return
    rows = [
        (key, *value_of(about, key, now["settings"])) for key, about in sorted(now["params"].items()) if key != "**"
    ]
    if not rows:
        printing.say(f"The stages of {name} take no parameters.", err=True)
        return
    printing.table(("parameter", "value", "from", "takes"), rows, elastic=("value",))


# What is typed


def pairs(given: Sequence[str] | None, option: str) -> dict[str, Any]:
    """KEY=VALUE, each value as the JSON it is, or else as text. A usage error names the mistake."""
    found: dict[str, Any] = {}
    for one in given or ():
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{option} {one}: write it as KEY=VALUE.")
        if key in found:
            raise typer.BadParameter(f"{option} names {key} twice.")
        found[key] = json_or_text(value)
    return found


def json_or_text(text: str) -> Any:
    def refuse(constant: str) -> Any:
        raise ValueError(constant)  # NaN and the like: Python reads them, JSON has none

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return text


def from_file(path: Path | None) -> dict[str, Any]:
    """The parameters of a file. Raises PayloadInvalid or RequestInvalid."""
    found = parse_json(str(path), read_file(str(path))) if path else {}
    if not isinstance(found, dict):
        raise RequestInvalid(f"{path} holds no object.", fix='Write {"name": value}.')
    return found


def make_folder(folder: Path) -> None:
    """Make it before anything begins: a job whose files have nowhere to go would be for nothing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"{folder} cannot be made: {error.strerror}.") from None


async def one_pipeline(server: "Server", name: str) -> dict[str, Any]:
    """A pipeline by its name. Raises TaskNotFound."""
    items: list[dict[str, Any]] = (await server.ask("GET", "/pipeline/pipelines"))["items"]
    for one in items:
        if one["name"] == name:
            return one
    there = ", ".join(one["name"] for one in items) or "none; start a worker that declares one"
    raise TaskNotFound(f"There is no pipeline {name!r}.", fix=f"There are: {there}.")


# What is told


def tell_begun(job: dict[str, Any], as_json: bool) -> None:
    if as_json:
        printing.answer(job)
        return
    typer.echo(job["job_id"])
    printing.say(("Follow it: ", "dim"), (f"holdfast watch {job['job_id']}", "bold"), err=True)


def row(job: dict[str, Any], now: datetime) -> tuple[printing.Part, ...]:
    from holdfast.cli.funnel import cents

    ended = sum(1 for one in job["stages"] if one["finished_at"])
    running = next((f", {one['name']}" for one in job["stages"] if one["status"] == "running"), "")
    return (
        job["pipeline"],
        telling.state(job),
        f"{ended} of {len(job['stages'])}{running}",
        cents(job["cost_cents"]) if job["cost_cents"] else "",
        printing.age(datetime.fromisoformat(job["created_at"]), now),
    )


def facts_of(job: dict[str, Any]) -> list[tuple[str, printing.Part]]:
    """What there is to know of a job beside its stages."""
    from holdfast.cli.funnel import cents

    cancel = "yes, its worker is told" if job["cancel_requested"] and not job["finished_at"] else ""
    waits = job["waits"] or {}
    found: list[tuple[str, printing.Part]] = [
        ("job", job["job_id"]),
        ("pipeline", job["pipeline"]),
        ("state", telling.state(job)),
        ("error", job["error"] or ""),
        ("waits", f"{waits.get('reason') or ''} until {printing.shown(moment(waits['until']))}" if waits else ""),
        ("cancel", cancel),
        ("made", printing.shown(moment(job["created_at"]))),
        ("took", telling.took_of(job)),
        ("cost", cents(job["cost_cents"])),
        ("params", printing.to_json(job["params"]) if job["params"] else ""),
        ("settings", printing.to_json(job["settings"]) if job["settings"] else ""),
        ("retry of", job["retry_of"] or ""),
    ]
    return [(name, value) for name, value in found if value]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def value_of(about: dict[str, Any], key: str, values: dict[str, Any]) -> tuple[str, str, str]:
    """What a parameter is if a job does not name it, where that comes from, and what it takes."""
    takes = " or ".join(about["kinds"]) if len(about["kinds"]) < 6 else "anything"
    if key in values:
        return printing.to_json(values[key]), "setting", takes
    if about.get("needed"):
        return "", "each job names it", takes
    return printing.to_json(about.get("default")), "default", takes
