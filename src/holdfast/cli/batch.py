"""`holdfast batch`: send work to a provider, follow its jobs, do again what failed. Asks the server."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from holdfast.cli.access import Server, with_server
from holdfast.cli.batch_results import Item, Known, error_rate, names_in, print_items, read_items
from holdfast.cli.dataset import read_dataset
from holdfast.cli.files import make_folder, print_paths, save_file
from holdfast.cli.kinds import Kind
from holdfast.cli.options import Answer, Json, Limit, Patience, asks_server, group
from holdfast.cli.printing import (
    MARKS,
    Cell,
    format_age,
    format_cost,
    format_time,
    is_terminal,
    print_columns,
    print_line,
    print_more,
    print_table,
)
from holdfast.cli.watcher import urgency, why_waiting
from holdfast.errors import RequestInvalid, TaskNotFound

if TYPE_CHECKING:
    from holdfast.cli.files import Sources

app = typer.Typer()

Batch = dict[str, Any]
Id = Annotated[str, typer.Argument(metavar="ID", help="A batch's id, or the beginning of it.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end, and show the jobs meanwhile.")]
Save = Annotated[
    Path | None,
    typer.Option("--save", metavar="FOLDER", help="Wait, then save result.json and manifest.json.", file_okay=False),
]

KINDS = {
    "transcription": ("wav", "mp3", "flac", "m4a", "mp4", "ogg", "oga", "opus", "aac", "amr", "webm"),
    "completion": ("jsonl", "ndjson", "txt"),
}
ANSWERS = {
    "--adopt EXTERNAL_ID": "it was begun, and is called so there:",
    "--resubmit": "it was never begun, and is to be sent:",
    "--go-on": "it is to be looked for again:",
    "--give-up": "it has failed:",
}
"""What can be decided about a parked job that the provider may not know; else `--go-on` and `--give-up`."""

jobs_listed = 50


@app.command()
def submit(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES", help="Files, folders, or addresses (https://, s3://...)."),
    ] = None,
    provider: Annotated[str, typer.Option(help="Who does it; `holdfast batch providers` lists them.")] = "local",
    task_type: Annotated[
        str | None, typer.Option("--type", metavar="transcription|completion", help="Unless the names make it clear.")
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help="Use this one; again for more.")] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="The files of a dataset, or its id; again for more.")
    ] = None,
    samples: Annotated[bool, typer.Option("--samples", help="The recordings that come with Holdfast.")] = False,
    wait: Wait = False,
    save: Save = None,
    patience: Patience = None,
    as_json: Json = False,
) -> None:
    """Send recordings to be transcribed, or prompts to be completed.

    Prompts come in files, one in a line: .jsonl or .txt. Files are uploaded, addresses are passed on as they are.
    With --wait the exit code says how it ended: 0 completed, 1 failed, 6 partly, 7 cancelled, 124 not in time.

    holdfast batch submit --samples --wait

    holdfast batch submit calls/ --provider local --save out/

    holdfast batch submit s3://bucket/monday.wav --provider aws
    """
    from holdfast.apps.providers.local.speech import sample_recordings
    from holdfast.cli.batch_results import transcripts_of_samples
    from holdfast.cli.files import Document, upload_sources

    sources = find_inputs(files or (), task_type)
    if samples:
        sources.documents.extend(Document(path.name, path) for path, _ in sample_recordings())
    sources.print_left_out()
    if not sources.documents and not dataset:
        raise typer.BadParameter(
            "Name what is to be done: files, folders or addresses; --dataset NAME; or --samples to try it."
        )
    if save:
        make_folder(save)

    async def send(server: Server) -> int:
        found = [await read_dataset(server, name) for name in dataset or ()]
        listed = [one for each in found for one in each["items"]]
        kind = task_type or guess_type([*(one.name for one in sources.documents), *(one["name"] for one in listed)])
        await check_offer(server, kind, provider)
        names = await upload_sources(server, sources, quiet=as_json)
        body = {
            "task_type": kind, "provider": provider, "urls": list(names), "models": model or [],
            "dataset_ids": [one["dataset_id"] for one in found],
        }  # fmt: skip
        made = await server.ask("POST", "/batch/tasks", body, key=uuid4().hex)
        known = Known(names | {one["uri"]: one["name"] for one in listed}, transcripts_of_samples(sources.documents))
        watched = BATCH if as_json else replace(BATCH, rename=known.with_names)
        end = partial(print_end, known=known, save=save)
        return await watched.follow(server, made, patience, end, wait=wait or save is not None, as_json=as_json)

    raise typer.Exit(with_server(send))


@group(app)
@asks_server
def list_batches(
    server: Server,
    status: Annotated[str | None, typer.Option(help="In this state, such as IN_PROGRESS or FAILED.")] = None,
    limit: Limit = 20,
) -> Answer:
    """List batches, the newest first."""
    return BATCH.list_newest(server, limit, status=status and status.upper())


@app.command()
@asks_server
async def show(
    server: Server,
    batch: Id,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FOLDER", help="Save result.json and manifest.json.", file_okay=False),
    ] = None,
) -> Answer:
    """A batch: its jobs and how each stands, those that wait for a person, what failed and why."""
    if save:
        make_folder(save)
    now = await BATCH.ask(server, "GET", batch)
    known = Known(await names_in(server, now))
    items, downloads, gone = await read_results(server, now, known, save)
    yield {**now, "items": items, **downloads}
    if gone:
        print_line((gone, "yellow"), err=True)
    again = now["next_poll_at"]
    own: dict[str, Cell] = {
        "type": name_of(now), "models": ", ".join(now["models"]), "inputs": describe_inputs(now),
        "next": format_time(again) if again else "",
    }  # fmt: skip
    names = ("type", "models", "state", "error", "inputs", "next", "cancel", "made", "took", "cost", "retry of")
    BATCH.print_facts(now, names, own)
    print_jobs(known.with_names(now))
    if failed := [one for one in items if one["status"] != "ok"]:
        print_items(failed, known)
    print_parked(now)
    await print_still_running(server, now)
    print_paths(downloads.get("saved", ()))
    if now["result_uri"] and not save and downloads["downloads"]:
        command = f"holdfast batch show {now['task_id']} --save FOLDER"
        print_line("The results: ", (command, "bold"), err=True)


@app.command("watch")
@asks_server
async def watch_batch(
    server: Server, batch: Id, patience: Patience = None, save: Save = None, as_json: Json = False
) -> int:
    """Follow a batch until it has ended. The exit code says how: 0, 1, 6 partly done, 7, 124."""
    if save:
        make_folder(save)
    made = {"task_id": await BATCH.find(server, batch)}
    return await BATCH.follow(server, made, patience, partial(print_end, save=save), wait=True, as_json=as_json)


@app.command("retry-failed")
@asks_server
async def retry_failed(
    server: Server,
    batch: Id,
    wait: Wait = False,
    save: Save = None,
    patience: Patience = None,
    as_json: Json = False,
) -> int:
    """Do again what failed in a batch, and only that: a new batch, linked to it."""
    if save:
        make_folder(save)
    made = await BATCH.ask(server, "POST", batch, "/retry-failed", key=uuid4().hex)
    end, is_awaited = partial(print_end, save=save), wait or save is not None
    return await BATCH.follow(server, made, patience, end, wait=is_awaited, as_json=as_json)


@app.command()
@asks_server
async def resolve(
    server: Server,
    batch: Id,
    job: Annotated[int, typer.Argument(metavar="JOB", min=1, help="The number of the job that is PARKED.")],
    go_on: Annotated[bool, typer.Option("--go-on", help="Try again what it was at.")] = False,
    adopt: Annotated[
        str | None, typer.Option(metavar="EXTERNAL_ID", help="It was begun: this is the provider's name for it.")
    ] = None,
    resubmit: Annotated[bool, typer.Option("--resubmit", help="It was never begun: send it.")] = False,
    give_up: Annotated[bool, typer.Option("--give-up", help="It has failed.")] = False,
    note: Annotated[str | None, typer.Option(help="For the history.")] = None,
) -> Answer:
    """Decide what a job is that waits for a person; then the batch goes on.

    Look at the provider first: a job that runs there and is sent again runs twice.
    """
    given = {"go_on": go_on, "adopt": adopt is not None, "resubmit": resubmit, "give_up": give_up}
    chosen = [action for action, is_given in given.items() if is_given]
    if len(chosen) != 1:
        raise typer.BadParameter("Say one of --go-on, --adopt EXTERNAL_ID, --resubmit and --give-up.")
    body = {"action": chosen[0], "external_job_id": adopt, "note": note}
    answer = await BATCH.ask(server, "POST", batch, f"/jobs/{job}/resolve", body)
    yield answer
    print_line(f"Job {job} is {answer['status']}.")
    print_line(("Follow it: ", "dim"), (f"holdfast batch watch {answer['task_id']}", "bold"), err=True)


@app.command()
@asks_server
async def providers(server: Server) -> Answer:
    """Who does what here: what is set up, whether a worker is there for it, how its open jobs fare."""
    found = (await server.ask("GET", "/batch/providers"))["items"]
    yield found
    if not found:
        print_line("No worker offers batches. An application does, with one line more:", err=True)
        print_line(("  hf.providers()", "bold"), "   # LOCAL, AWS and OPENAI", err=True)
        print_line("Its worker then offers them: ", ("holdfast worker --app MODULE:NAME", "bold"), err=True)
        print_line("The sample application has them: ", ("holdfast up --demo", "bold"), err=True)
        return
    heads = ("provider", "type", "set up", "worker", "answers", "open", "models")
    print_table(heads, [provider_row(one) for one in found], elastic=("models",))
    for one in found:
        name = (f"{one['provider']} {one['task_type']}: ", "bold")
        if one["missing"]:
            print_line(name, one["missing"], err=True)
        elif one["error"]:
            print_line(name, (one["error"], "red"), err=True)
    if not any(one["ready"] for one in found):
        print_line("No worker is there. Start one: ", ("holdfast worker --app MODULE:NAME", "bold"), err=True)


# What is sent


def find_inputs(given: Sequence[str], task_type: str | None = None) -> "Sources":
    """All that was named, each once; of folders the recordings and prompts. Raises BadParameter or RequestInvalid."""
    from holdfast.cli.files import ADDRESSES, find_sources

    def why_not(path: Path) -> str | None:
        kind = kind_of(path.name)
        return None if kind and task_type in (None, kind) else "of another kind"

    return find_sources(given, addresses=ADDRESSES, why_not=why_not)


def kind_of(name: str) -> str | None:
    """Which type of task takes what is called so."""
    from holdfast.cli.files import basename

    ending = basename(name).rpartition(".")[2].lower()
    return next((kind for kind, endings in KINDS.items() if ending in endings), None)


def guess_type(names: Sequence[str]) -> str:
    """The type of task that takes all of these. Raises BadParameter if the names do not make it clear."""
    kinds = {name: kind_of(name) for name in names}
    found = {kind for kind in kinds.values() if kind}
    if len(found) > 1:
        both = " and ".join(next(name for name, kind in kinds.items() if kind == one) for one in KINDS)
        raise typer.BadParameter(f"These are recordings and prompts: {both}. Make a batch of each.")
    if not found:
        raise typer.BadParameter(
            f"It is not clear what is to be done with {next(iter(kinds), 'this')}. "
            "Say it: --type transcription, or --type completion."
        )
    return found.pop()


async def check_offer(server: Server, task_type: str, provider: str) -> None:
    """Raise RequestInvalid for what no worker offers, before anything is uploaded for it."""
    found = (await server.ask("GET", "/batch/providers"))["items"]
    offer = next((one for one in found if (one["task_type"], one["provider"]) == (task_type, provider.upper())), None)
    if offer is None:
        offered = ", ".join(f"{one['task_type']} with {one['provider'].lower()}" for one in found)
        fix = (
            f"There are: {offered}." if found else "Call hf.providers() in your application, or try holdfast up --demo"
        )
        raise RequestInvalid(f"No worker offers {task_type} with {provider}.", fix=fix)
    if offer["missing"]:
        raise RequestInvalid(
            f"{offer['provider']} is not set up for {task_type}: {offer['missing']}",
            fix="Set it up where the workers run, and start them again.",
        )


# Following it


async def print_end(server: Server, batch: Batch, *, save: Path | None, known: Known | None = None) -> Answer:
    """How it has ended, and what became of the inputs, which is saved if that was asked."""
    known = known or Known(await names_in(server, batch))
    items, downloads, gone = await read_results(server, batch, known, save)
    rate = error_rate(items, known)
    yield {**batch, "items": items, **downloads, **({} if rate is None else {"word_error_rate": rate})}
    if gone:
        print_line((gone, "yellow"), err=True)
    again = None
    if batch["manifest"]["uri"] and batch["manifest"]["failed"]:
        again = ("Do again what failed, and only that", f"holdfast batch retry-failed {batch['task_id']} --wait")
    await BATCH.print_end(server, batch, describe_inputs(batch), again)
    print_items(items, known)
    await print_still_running(server, batch)
    print_paths(downloads.get("saved", ()))


async def read_results(
    server: Server, batch: Batch, known: Known, save: Path | None
) -> tuple[list[Item], dict[str, Any], str]:
    """What became of the inputs; the links to its files, or where they were saved too; or why they are gone."""
    has_files = batch["manifest"]["uri"]
    links, gone = await BATCH.read_links(server, batch, "downloads") if has_files else ([], "")
    items = await read_items(server, links, known)
    saved = [await save_file(server, one["url"], one["name"], save) for one in links] if save else []
    return items, {"downloads": None if gone else links, **({"saved": saved} if save else {})}, gone


async def why(server: Server, batch: Batch) -> str:
    return describe_parked(batch) or await why_waiting(server, batch["task_id"])


def describe_parked(batch: Batch) -> str:
    """A line about the jobs that wait for a person; empty if none does."""
    parked = [job for job in batch["jobs"] if job["status"] == "PARKED"]
    if not parked:
        return ""
    which = f"Job {parked[0]['number']} waits" if len(parked) == 1 else f"{len(parked)} jobs wait"
    return f"{which} for a person. What to do: holdfast batch show {batch['task_id']}"


# What is printed


def name_of(batch: Batch) -> str:
    return f"{batch['task_type']} with {batch['provider']}"


def own_cells(batch: Batch) -> dict[str, Cell]:
    counts = batch["job_counts"]
    jobs, parked = sum(counts.values()), counts.get("PARKED", 0)
    ended = sum(counts.get(status, 0) for status in ("COMPLETED", "PARTIAL_COMPLETE", "FAILED", "CANCELLED"))
    return {
        "type": batch["task_type"],
        "inputs": describe_inputs(batch) if batch["manifest"]["inputs"] is not None else "",
        "jobs": (f"{ended} of {jobs}" if jobs else "") + (f", {parked} parked" if parked else ""),
    }


BATCH = Kind(
    path="/batch/tasks", lifecycle="batch", id_field="task_id", noun="batch", plural="batches",
    listing="holdfast batch ls", example="holdfast batch submit --samples --wait",
    columns=("type", "provider", "state", "inputs", "jobs", "cost", "made"), own_cells=own_cells, elastic=("inputs",),
    name=name_of, why=why, following="holdfast batch watch", cancelling="holdfast cancel", is_claimed=True,
    remark=describe_parked,
)  # fmt: skip


def describe_inputs(batch: Batch) -> str:
    """How many inputs there are, and what became of them."""
    counts = batch["manifest"]
    if counts["inputs"] is None:
        return "Its inputs are not counted yet"
    bad = "".join(f", {counts[name]:,} {name}" for name in ("failed", "invalid") if counts[name])
    return f"{counts['ok']:,} of {counts['inputs']:,} ok{bad}"


def print_jobs(batch: Batch) -> None:
    """The jobs in a table: the urgent ones, if not all fit."""
    pairs = sorted(zip(batch["jobs"], batch["parts"], strict=True), key=lambda pair: urgency(pair[1]))[:jobs_listed]
    jobs = [(job, MARKS[part["status"]]) for job, part in sorted(pairs, key=lambda pair: int(pair[0]["number"]))]
    print_columns(
        {
            "job": [str(job["number"]) for job, _ in jobs],
            "model": [job["model"] or "" for job, _ in jobs],
            "status": [
                (f"{sign} {job['status']}", style) if is_terminal() else job["status"] for job, (sign, style) in jobs
            ],
            "provider says": [job["provider_status"] or "" for job, _ in jobs],
            "inputs": [f"{job['ok'] if job['finished_at'] else job['done']:,} of {job['inputs']:,}" for job, _ in jobs],
            "its id there": [job["external_job_id"] or "" for job, _ in jobs],
            "next": ["" if batch["finished_at"] else next_look(job) for job, _ in jobs],
            "cost": [format_cost(job) for job, _ in jobs],
            "error": [job["error"] or "" for job, _ in jobs],
        },
        elastic=("error", "its id there", "provider says"),
    )
    print_more(len(batch["jobs"]) - len(jobs))


def next_look(job: dict[str, Any]) -> str:
    """When the provider is asked again."""
    if job["finished_at"] or not job["due_at"]:
        return ""
    return format_age(job["due_at"]) if is_terminal() else str(job["due_at"])


def print_parked(batch: Batch) -> None:
    """Each job that waits for a person, why, and the commands that decide about it."""
    for job in batch["jobs"]:
        if job["status"] != "PARKED" or batch["finished_at"]:
            continue
        print_line((f"Job {job['number']} waits for a person. ", "magenta"), job["error"] or "")
        print_line(f"Look for {job['external_job_id'] or job['token']} at {batch['provider']}, then say what it is:")
        answers = ANSWERS
        if job["external_job_id"]:
            answers = {"--go-on": "what it was at is to be tried again:", "--give-up": ANSWERS["--give-up"]}
        for option, meaning in answers.items():
            print_line((f"  {meaning}", "dim"))
            print_line((f"    holdfast batch resolve {batch['task_id']} {job['number']} {option}", "bold"))


async def print_still_running(server: Server, batch: Batch) -> None:
    """What this batch left running at its provider, and which task stops it."""
    if not batch["stopped_by"]:
        return
    running = [job for job in batch["jobs"] if job["may_be_running"]]
    try:
        stop = await server.ask("GET", f"/api/v1/tasks/{batch['stopped_by']}")
    except TaskNotFound:
        stop = {"state": "gone"}
    names = ", ".join(job["external_job_id"] or job["token"] for job in running[:5])
    more = ", ..." if len(running) > 5 else ""
    left = f"{batch['provider']} may still be at work on {names}{more}. " if running else "Nothing is left running. "
    print_line((left, "yellow" if running else "dim"), err=True)
    print_line("Stopped by: ", (f"holdfast show {batch['stopped_by']}", "bold"), f" ({stop['state']})", err=True)


def provider_row(one: dict[str, Any]) -> tuple[Cell, ...]:
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
