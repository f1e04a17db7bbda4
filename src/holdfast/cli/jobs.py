"""Jobs of pipelines: waiting for one, telling how its stages ended, bringing home what they wrote."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from holdfast.cli import printing
from holdfast.cli.ids import find_newest
from holdfast.cli.polling import OUTCOMES, poll
from holdfast.cli.upload import place_for
from holdfast.cli.watching import EXIT_CODES, TIMED_OUT
from holdfast.errors import HoldfastError, RequestInvalid, ServerUnreachable, TaskExpired

if TYPE_CHECKING:
    from holdfast.cli.calling import Server

Job = dict[str, Any]
Files = list[dict[str, Any]]

errors_shown = 10
longest_summary = 2000


async def wait_and_tell(
    server: "Server", job: str, patience: timedelta | None, *, folder: Path | None = None, as_json: bool = False
) -> int:
    """Show how it goes until it has ended or patience has; say how, fetch what it wrote; the exit code."""
    from holdfast.cli.board import Board

    try:
        with Board(quiet=as_json) as board:
            now = await poll(
                lambda: server.ask("GET", f"/pipeline/jobs/{job}"), board, patience,
                reason=lambda now: reason(server, now),
            )  # fmt: skip
    except ServerUnreachable:
        printing.say("Follow it when the server is back: ", (f"holdfast pipeline show {job}", "bold"), err=True)
        raise
    except (asyncio.CancelledError, HoldfastError):
        say_it_goes_on(job)
        raise
    outcome = OUTCOMES.get(now["status"])
    files, _ = await outputs_of(server, now)
    saved = await save_all(server, files, folder) if folder and outcome else []
    if as_json:
        printing.answer({**now, "outputs": files, **({"saved": saved} if folder else {})})
    else:
        say_end(now)
        if not outcome and (why := await reason(server, now)):
            printing.say(why, err=True)
        say_stages(now)
        say_files(files, saved)
    return EXIT_CODES[outcome] if outcome else TIMED_OUT


async def reason(server: "Server", job: Job) -> str:
    """Why it does not go on; empty if a worker has it."""
    why = await server.ask("GET", f"/api/v1/tasks/{job['job_id']}/why")
    return "" if why["reason"] == "leased" else printing.readable(f"{why['sentence']} {why['fix']}").rstrip()


async def find(server: "Server", given: str) -> UUID:
    """The one job whose id begins so, of the newest. Raises TaskNotFound or RequestInvalid."""
    return await find_newest(server, "pipeline", given, word="job", listing="holdfast pipeline jobs")


# What it wrote


async def outputs_of(server: "Server", job: Job) -> tuple[Files, str]:
    """The files with their links; or none, and why."""
    try:
        return (await server.ask("GET", f"/pipeline/jobs/{job['job_id']}/outputs"))["outputs"], ""
    except TaskExpired as gone:
        return [], gone.detail


async def save_all(server: "Server", files: Files, folder: Path) -> list[str]:
    """Download all. Where two stages wrote the same name, each has a folder of its stage. Raises RequestInvalid."""
    times = Counter(one["name"] for one in files)
    named = [one["name"] if times[one["name"]] == 1 else f"{one['stage']}/{one['name']}" for one in files]
    return [str(await save(server, one["url"], name, folder)) for one, name in zip(files, named, strict=True)]


async def save(server: "Server", url: str, name: str, folder: Path) -> Path:
    """Download one file, whole or not at all, in the place of what was there."""
    try:
        target = place_for(name, folder)
        part = target.with_name(f"{target.name}.part")
        try:
            async with server.fetch(url) as pieces:
                with part.open("wb") as stream:
                    async for piece in pieces:
                        stream.write(piece)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise RequestInvalid(f"{folder / name} cannot be written: {error.strerror or error}.") from error
    return target


# In words


def state(job: Job, *, err: bool = False) -> printing.Part:
    return printing.state({"state": job["status"], "outcome": OUTCOMES.get(job["status"]), "actor": "worker"}, err=err)


def say_it_goes_on(job: str) -> None:
    printing.say("It goes on. Follow it: ", (f"holdfast watch {job}", "bold"), err=True)
    printing.say("Cancel it: ", (f"holdfast cancel {job}", "bold"), err=True)


def say_end(job: Job) -> None:
    """How it ended, in a line or two beside the answer."""
    from holdfast.cli.funnel import cents

    counts = Counter(one["status"] for one in job["stages"])
    told = ", ".join(f"{number} {status}" for status, number in counts.items())
    why = f" {job['error'].rstrip('.')}." if job["error"] else ""
    took = f", {span}" if (span := took_of(job)) else ""
    words = f":{why} Stages: {told}; cost {cents(job['cost_cents'])}{took}"
    printing.say(state(job, err=True), words, (f"  {job['job_id']}", "dim"), err=True)
    if job["status"] not in OUTCOMES:
        printing.say("Not in time.", err=True)
        say_it_goes_on(job["job_id"])
    elif job["status"] in ("PARTIAL", "FAILED"):
        printing.say("Run it again from the first stage that did not complete:", err=True)
        printing.say((f"  holdfast retry {job['job_id']}", "bold"), err=True)


def took_of(job: Job) -> str:
    if not job["started_at"] or not job["finished_at"]:
        return ""
    span = datetime.fromisoformat(job["finished_at"]) - datetime.fromisoformat(job["started_at"])
    return printing.lasting(span, fine=True)


def say_stages(job: Job) -> None:
    """The stages in a table, then what they did not bring about, then the summary."""
    from holdfast.cli.board import MARKS, taken

    lines = []
    for one in job["stages"]:
        sign, style = MARKS[one["status"]]
        status = (f"{sign} {one['status']}", style) if printing.on_terminal() else one["status"]
        lines.append((one["name"], status, taken(one), one["reason"] or about(one)))
    if lines:
        printing.table(("stage", "status", "took", "about"), lines, elastic=("about",))
    for one in job["stages"]:
        say_errors(one["name"], one["status"], one["errors"])
    if job["summary"] is not None:
        printing.say(("summary", "dim"))
        text = job["summary"] if isinstance(job["summary"], str) else printing.pretty(job["summary"])
        printing.block(text, most=longest_summary)


def about(stage: dict[str, Any]) -> str:
    """What a stage has to show: its files, and how many errors."""
    number = len(stage["errors"])
    errors = [f"{number} error{'' if number == 1 else 's'}"] if number else []
    found = [f"{name} is {printing.to_json(value)} from now on" for name, value in (stage["settings"] or {}).items()]
    return ", ".join([*errors, *(one["name"] for one in stage["outputs"]), *found])


def say_errors(stage: str, status: str, errors: Sequence[Any]) -> None:
    for one in errors[:errors_shown]:
        printing.say((f"{stage} ", "bold"), (f"{status}: ", ""), str(one))
    if len(errors) > errors_shown:
        printing.say((f"{stage}: {len(errors) - errors_shown} more, with --json", "dim"))


def say_files(files: Files, saved: Sequence[str]) -> None:
    """Where the files are: in the folder they were saved to, or behind links."""
    for path in saved:
        typer.echo(printing.clean(path))
    if saved or not files:
        return
    named = [(one["name"], one["stage"], printing.size(one["bytes"])) for one in files]
    if not printing.on_terminal():
        rows = [(*about, one["url"]) for about, one in zip(named, files, strict=True)]
        printing.table(("file", "stage", "size", "link"), rows)
        return
    printing.say(("files, by links that are good for an hour", "dim"))
    for about, one in zip(named, files, strict=True):
        printing.say("  ".join(about))
        typer.echo(f"  {printing.clean(one['url'])}")  # whole, so that it can be clicked on
