"""`holdfast batch`: send work to a provider, look after its jobs, do again what failed. Asks the server."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote
from uuid import UUID, uuid4

import typer

from holdfast.cli import batches as telling
from holdfast.cli import printing
from holdfast.cli.dataset import read_dataset
from holdfast.cli.ids import beginning
from holdfast.cli.options import Json, Timeout
from holdfast.cli.runs import call
from holdfast.cli.tasks import STUCK
from holdfast.errors import RequestInvalid

if TYPE_CHECKING:
    from datetime import timedelta

    from holdfast.cli.calling import Server
    from holdfast.cli.outcomes import Known

app = typer.Typer(invoke_without_command=True)

told_apart = 18  # so much of an id is its moment and some chance: other batches than those listed have others

Id = Annotated[str, typer.Argument(metavar="ID", help="A batch's id, or the beginning of it.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end, and show the jobs meanwhile.")]
Save = Annotated[
    Path | None,
    typer.Option("--save", metavar="FOLDER", help="Wait, then save result.json and manifest.json.", file_okay=False),
]


@app.callback()
def batches(context: typer.Context, as_json: Json = False) -> None:
    """Have providers transcribe recordings and complete prompts, in batches."""
    if not context.invoked_subcommand:
        list_all(as_json=as_json)


@app.command()
def submit(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES", help="Files, folders, or addresses (https://, s3://...)."),
    ] = None,
    provider: Annotated[str, typer.Option(help="Who does it; `holdfast batch providers` lists them.")] = "local",
    task_type: Annotated[
        str | None, typer.Option("--type", metavar="transcription|completion", help="If the names do not tell.")
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help="Use this one; again for more.")] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="The files of a dataset, or its id; again for more.")
    ] = None,
    samples: Annotated[bool, typer.Option("--samples", help="The recordings that come with Holdfast.")] = False,
    wait: Wait = False,
    save: Save = None,
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """Send recordings to be transcribed, or prompts to be completed.

    Prompts come in files, one in a line: .jsonl or .txt. Files are uploaded, addresses are passed on as they are.
    With --wait the exit code says how it ended: 0 completed, 1 failed, 6 partly, 7 cancelled, 124 not in time.

    holdfast batch submit --samples --wait

    holdfast batch submit calls/ --provider local --save out/

    holdfast batch submit s3://bucket/monday.wav --provider aws
    """
    from holdfast.apps.providers.local.speech import samples as shipped_samples
    from holdfast.cli.bars import Bars
    from holdfast.cli.inputs import find_inputs, guess_type, upload
    from holdfast.cli.outcomes import Known, samples_in
    from holdfast.cli.sources import Document

    sources = find_inputs(files or (), task_type)
    if samples:
        sources.documents.extend(Document(path.name, path) for path, _ in shipped_samples())
    if left_out := sources.say_left_out():
        printing.say((left_out, "dim"), err=True)
    if not sources.documents and not dataset:
        raise typer.BadParameter(
            "Name what is to be done: files, folders or addresses; --dataset NAME; or --samples to try it."
        )
    prepare(save)

    async def question(server: "Server") -> int:
        found = [await read_dataset(server, name) for name in dataset or ()]
        listed = [one for each in found for one in each["items"]]
        kind = task_type or guess_type([*(one.name for one in sources.documents), *(one["name"] for one in listed)])
        await check_offer(server, kind, provider)
        with Bars(quiet=as_json) as bars:
            names = await upload(server, sources, bars)
        body = {
            "task_type": kind, "provider": provider, "urls": list(names), "models": model or [],
            "dataset_ids": [one["dataset_id"] for one in found],
        }  # fmt: skip
        made = await server.ask("POST", "/batch/tasks", body, key=uuid4().hex)
        known = Known(names | {one["uri"]: one["name"] for one in listed}, samples_in(sources.documents))
        return await go_on(server, made, known, wait=wait, patience=timeout, save=save, as_json=as_json)

    raise typer.Exit(call(question))


@app.command("ls")
def list_all(
    status: Annotated[str | None, typer.Option(help="In this state, such as IN_PROGRESS or FAILED.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    as_json: Json = False,
) -> None:
    """List batches, the newest first."""

    async def question(server: "Server") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        query = f"&status={quote(status.upper())}" if status else ""
        while len(found) < limit:
            page = await server.ask("GET", f"/batch/tasks?limit={min(limit - len(found), 100)}{query}")
            found += page["items"]
            if not page["next"]:
                break
            query = f"&cursor={page['next']}" + (f"&status={quote(status.upper())}" if status else "")
        return found

    found = call(question)
    if as_json:
        printing.answer(found)
        return
    if not found:
        printing.say("No such batch. " if status else "There are no batches. ", err=True)
        printing.say(("holdfast batch submit --samples --wait", "bold"), " makes one.", err=True)
        return
    ids, now = [UUID(one["task_id"]) for one in found], datetime.now(UTC)
    printing.table(
        ("id", "type", "provider", "state", "inputs", "jobs", "cost", "made"),
        [(beginning(one_id, ids, told_apart), *row(one, now)) for one_id, one in zip(ids, found, strict=True)],
        elastic=("inputs",),
    )


@app.command()
def show(
    batch: Id,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FOLDER", help="Save result.json and manifest.json.", file_okay=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """A batch: its jobs and how each stands, those that wait for a person, what failed and why."""
    from holdfast.cli.jobs import save as save_one
    from holdfast.cli.outcomes import Known, links_of, names_in, read_items

    prepare(save)

    async def question(server: "Server") -> None:
        now = await telling.read(server, batch)
        links, gone = await links_of(server, now)
        known = Known(await names_in(server, now))
        items = await read_items(server, links, known)
        saved = [str(await save_one(server, one["url"], one["name"], save)) for one in links] if save else []
        if as_json:
            told = {**now, "items": items, "downloads": None if gone else links}
            printing.answer(told | ({"saved": saved} if save else {}))
            return
        printing.facts(facts_of(now))
        telling.say_jobs(known.in_errors(now))
        telling.say_failed(items, known)
        telling.say_parked(now)
        await telling.say_left(server, now)
        for path in saved:
            typer.echo(printing.clean(path))
        if gone:
            printing.say((gone, "yellow"), err=True)
        elif now["result_uri"] and not save:
            command = f"holdfast batch show {now['task_id']} --save FOLDER"
            printing.say("The results: ", (command, "bold"), err=True)

    call(question)


@app.command()
def watch(batch: Id, timeout: Timeout = None, save: Save = None, as_json: Json = False) -> None:
    """Follow a batch until it has ended. The exit code says how: 0, 1, 6 partly done, 7, 124."""
    prepare(save)

    async def question(server: "Server") -> int:
        task = str(await telling.find(server, batch))
        return await telling.wait_and_tell(server, task, timeout, folder=save, as_json=as_json)

    raise typer.Exit(call(question))


@app.command("retry-failed")
def retry_failed(
    batch: Id, wait: Wait = False, save: Save = None, timeout: Timeout = None, as_json: Json = False
) -> None:
    """Do again what failed in a batch, and only that: a new batch, linked to it."""
    prepare(save)

    async def question(server: "Server") -> int:
        now = await telling.read(server, batch)
        path = f"/batch/tasks/{now['task_id']}/retry-failed"
        made = await server.ask("POST", path, key=uuid4().hex)
        return await go_on(server, made, None, wait=wait, patience=timeout, save=save, as_json=as_json)

    raise typer.Exit(call(question))


@app.command()
def resolve(
    batch: Id,
    job: Annotated[int, typer.Argument(metavar="JOB", min=1, help="The number of the job that is PARKED.")],
    go_on: Annotated[bool, typer.Option("--go-on", help="Try again what it was at.")] = False,
    adopt: Annotated[
        str | None, typer.Option(metavar="EXTERNAL_ID", help="It was begun: this is the provider's name for it.")
    ] = None,
    resubmit: Annotated[bool, typer.Option("--resubmit", help="It was never begun: send it.")] = False,
    give_up: Annotated[bool, typer.Option("--give-up", help="It has failed.")] = False,
    note: Annotated[str | None, typer.Option(help="For the history.")] = None,
    as_json: Json = False,
) -> None:
    """Say what a job is that waits for a person; then the batch goes on.

    Look at the provider first: a job that runs there and is sent again runs twice.
    """
    given = {"go_on": go_on, "adopt": adopt is not None, "resubmit": resubmit, "give_up": give_up}
    chosen = [action for action, is_given in given.items() if is_given]
    if len(chosen) != 1:
        raise typer.BadParameter("Say one of --go-on, --adopt EXTERNAL_ID, --resubmit and --give-up.")
    body = {"action": chosen[0], "external_job_id": adopt, "note": note}

    async def question(server: "Server") -> dict[str, Any]:
        task = await telling.find(server, batch)
        return await server.ask("POST", f"/batch/tasks/{task}/jobs/{job}/resolve", body)

    told = call(question)
    if as_json:
        printing.answer(told)
        return
    printing.say(f"Job {job} is {told['status']}.")
    printing.say(("Follow it: ", "dim"), (f"holdfast batch watch {told['task_id']}", "bold"), err=True)


@app.command()
def providers(as_json: Json = False) -> None:
    """Who does what here: what is set up, whether a worker is there for it, how its open jobs fare."""
    found = call(lambda server: server.ask("GET", "/batch/providers"))["items"]
    if as_json:
        printing.answer(found)
        return
    if not found:
        printing.say("No worker offers batches. An application does, with one line more:", err=True)
        printing.say(("  hf.providers()", "bold"), "   # LOCAL, AWS and OPENAI", err=True)
        printing.say("A worker then tells of them: ", ("holdfast worker --app MODULE:NAME", "bold"), err=True)
        printing.say("The sample application has them: ", ("holdfast up --demo", "bold"), err=True)
        return
    printing.table(
        ("provider", "type", "set up", "worker", "answers", "open", "models"),
        [provider_row(one) for one in found],
        elastic=("models",),
    )
    for one in found:
        name = (f"{one['provider']} {one['task_type']}: ", "bold")
        if one["missing"]:
            printing.say(name, one["missing"], err=True)
        elif one["error"]:
            printing.say(name, (one["error"], "red"), err=True)
    if not any(one["ready"] for one in found):
        printing.say("No worker is there. Start one: ", ("holdfast worker --app MODULE:NAME", "bold"), err=True)


# What is typed, what is told


async def check_offer(server: "Server", task_type: str, provider: str) -> None:
    """Raise RequestInvalid for what nobody does here, before anything is uploaded for it."""
    found = (await server.ask("GET", "/batch/providers"))["items"]
    offer = next((one for one in found if (one["task_type"], one["provider"]) == (task_type, provider.upper())), None)
    if offer is None:
        there = ", ".join(f"{one['task_type']} with {one['provider'].lower()}" for one in found)
        teach = f"There are: {there}." if there else "Say hf.providers() in your application, or try holdfast up --demo"
        raise RequestInvalid(f"No worker offers {task_type} with {provider}.", fix=teach)
    if offer["missing"]:
        raise RequestInvalid(
            f"{offer['provider']} is not set up for {task_type}: {offer['missing']}",
            fix="Set it up where the workers run, and start them again.",
        )


def prepare(folder: Path | None) -> None:
    from holdfast.cli.pipeline import make_folder

    if folder:
        make_folder(folder)


async def go_on(
    server: "Server",
    made: dict[str, Any],
    known: "Known | None",
    *,
    wait: bool,
    patience: "timedelta | None",
    save: Path | None,
    as_json: bool,
) -> int:
    """A batch has begun: wait for it if that was asked, or say how to follow it, and whether anybody takes it up."""
    if wait or save:
        task = made["task_id"]
        return await telling.wait_and_tell(server, task, patience, known=known, folder=save, as_json=as_json)
    if as_json:
        printing.answer(made)
        return 0
    typer.echo(made["task_id"])
    printing.say(("Follow it: ", "dim"), (f"holdfast batch watch {made['task_id']}", "bold"), err=True)
    why = await server.ask("GET", f"/api/v1/tasks/{made['task_id']}/why")
    if why["reason"] in STUCK:
        printing.say(printing.readable(f"{why['sentence']} {why['fix']}").rstrip(), err=True)
    return 0


def row(batch: dict[str, Any], now: datetime) -> tuple[printing.Part, ...]:
    counts = batch["job_counts"]
    jobs, parked = sum(counts.values()), counts.get("PARKED", 0)
    ended = sum(counts.get(status, 0) for status in ("COMPLETED", "PARTIAL_COMPLETE", "FAILED", "CANCELLED"))
    return (
        batch["task_type"],
        batch["provider"],
        telling.state(batch),
        telling.inputs_of(batch) if batch["manifest"]["inputs"] is not None else "",
        (f"{ended} of {jobs}" if jobs else "") + (f", {parked} parked" if parked else ""),
        telling.cost_of(batch),
        printing.age(datetime.fromisoformat(batch["created_at"]), now),
    )


def facts_of(batch: dict[str, Any]) -> list[tuple[str, printing.Part]]:
    """What there is to know of a batch beside its jobs."""
    from holdfast.cli.funnel import cents
    from holdfast.cli.jobs import took_of

    cancel = "yes, its worker is told" if batch["cancel_requested"] and not batch["finished_at"] else ""
    again = batch["next_poll_at"]
    found: list[tuple[str, printing.Part]] = [
        ("batch", batch["task_id"]),
        ("type", f"{batch['task_type']} with {batch['provider']}"),
        ("models", ", ".join(batch["models"])),
        ("state", telling.state(batch)),
        ("error", batch["error"] or ""),
        ("inputs", telling.inputs_of(batch)),
        ("next", printing.shown(datetime.fromisoformat(again)) if again else ""),
        ("cancel", cancel),
        ("made", printing.shown(datetime.fromisoformat(batch["created_at"]))),
        ("took", took_of(batch)),
        ("cost", cents(batch["cost_cents"])),
        ("retry of", batch["retry_of"] or ""),
    ]
    return [(name, value) for name, value in found if value]


def provider_row(one: dict[str, Any]) -> tuple[printing.Part, ...]:
    answers = {True: ("yes", "green"), False: ("no", "red"), None: ("", "")}[one["healthy"]]
    waits = [f"{one[name]} {name}" for name in ("parked", "failing", "waiting") if one[name]]
    return (
        (one["provider"], "bold"),
        one["task_type"],
        ("yes", "green") if one["configured"] else ("no", "yellow"),
        ("ready", "green") if one["ready"] else ("none", "yellow"),
        answers,
        f"{one['open_jobs']}" + (f" ({', '.join(waits)})" if waits else ""),
        ", ".join(one["models"]),
    )
