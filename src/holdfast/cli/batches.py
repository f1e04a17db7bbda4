"""Batches: waiting for one, telling how its jobs and its inputs ended, bringing home the results."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from holdfast.cli import printing
from holdfast.cli.ids import find_newest
from holdfast.cli.jobs import save, took_of
from holdfast.cli.outcomes import Item, Known, heard, links_of, names_in, read_items, say_items
from holdfast.cli.polling import OUTCOMES, poll
from holdfast.cli.watching import EXIT_CODES, TIMED_OUT
from holdfast.errors import HoldfastError, ServerUnreachable, TaskNotFound

if TYPE_CHECKING:
    from holdfast.cli.calling import Server

Batch = dict[str, Any]

jobs_listed = 50
many_jobs = 1_000


async def wait_and_tell(
    server: "Server",
    batch: str,
    patience: timedelta | None,
    *,
    known: Known | None = None,
    folder: Path | None = None,
    as_json: bool = False,
) -> int:
    """Show how it goes until it has ended or patience has; say how, save what came of it; the exit code."""
    from holdfast.cli.lanes import Lanes

    async def look() -> Batch:
        found = await server.ask("GET", f"/batch/tasks/{batch}")
        if len(found["jobs"]) > many_jobs and found["status"] not in OUTCOMES:
            await asyncio.sleep(len(found["jobs"]) / many_jobs)  # they are many to read, for the server too
        return known.in_errors(found) if known and not as_json else found

    try:
        with Lanes(quiet=as_json) as lanes:
            now = await poll(look, lanes, patience, reason=lambda now: reason(server, now), remark=parked_in)
    except ServerUnreachable:
        printing.say("Follow it when the server is back: ", (f"holdfast batch watch {batch}", "bold"), err=True)
        raise
    except (asyncio.CancelledError, HoldfastError):
        say_it_goes_on(batch)
        raise
    await tell(server, now, known or Known(await names_in(server, now)), folder, as_json=as_json)
    outcome = OUTCOMES.get(now["status"])
    return EXIT_CODES[outcome] if outcome else TIMED_OUT


async def tell(server: "Server", batch: Batch, known: Known, folder: Path | None, *, as_json: bool) -> None:
    """How it stands, what became of the inputs, and where the files are."""
    links, gone = await links_of(server, batch)
    items = await read_items(server, links, known)
    saved = [str(await save(server, one["url"], one["name"], folder)) for one in links] if folder else []
    if as_json:
        rate = heard(items, known)
        told = {**batch, "items": items, "downloads": None if gone else links}
        told |= {"saved": saved} if folder else {}
        printing.answer(told | ({} if rate is None else {"word_error_rate": rate}))
        return
    say_end(batch)
    if batch["status"] not in OUTCOMES and (why := await reason(server, batch)):
        printing.say(why, err=True)
    say_items(items, known)
    await say_left(server, batch)
    for path in saved:
        typer.echo(printing.clean(path))


async def reason(server: "Server", batch: Batch) -> str:
    """Why it does not go on: a job that waits for a person, or what the engine says. Empty if a worker has it."""
    if said := parked_in(batch):
        return said
    why = await server.ask("GET", f"/api/v1/tasks/{batch['task_id']}/why")
    return "" if why["reason"] == "leased" else printing.readable(f"{why['sentence']} {why['fix']}").rstrip()


def parked_in(batch: Batch) -> str:
    """A line about the jobs that wait for a person; empty if none does."""
    parked = [job for job in batch["jobs"] if job["status"] == "PARKED"]
    if not parked:
        return ""
    which = f"Job {parked[0]['number']} waits" if len(parked) == 1 else f"{len(parked)} jobs wait"
    return f"{which} for a person. What to do: holdfast batch show {batch['task_id']}"


async def find(server: "Server", given: str) -> UUID:
    """The one batch whose id begins so, of the newest. Raises TaskNotFound or RequestInvalid."""
    return await find_newest(server, "batch", given, word="batch", listing="holdfast batch ls")


async def read(server: "Server", given: str) -> Batch:
    return await server.ask("GET", f"/batch/tasks/{await find(server, given)}")


# In words


def state(batch: Batch, *, err: bool = False) -> printing.Part:
    told = {"state": batch["status"], "outcome": OUTCOMES.get(batch["status"]), "actor": "worker"}
    return printing.state(told, err=err)


def say_it_goes_on(batch: str) -> None:
    printing.say("It goes on. Follow it: ", (f"holdfast batch watch {batch}", "bold"), err=True)
    printing.say("Cancel it: ", (f"holdfast cancel {batch}", "bold"), err=True)


def say_end(batch: Batch) -> None:
    """How it ended, in a line or two beside the answer."""
    from holdfast.cli.funnel import cents

    why = f" {batch['error'].removesuffix('.')}." if batch["error"] else ""
    took = f", {span}" if (span := took_of(batch)) else ""
    words = f":{why} {inputs_of(batch)}; cost {cents(batch['cost_cents'])}{took}"
    printing.say(state(batch, err=True), words, (f"  {batch['task_id']}", "dim"), err=True)
    if batch["status"] not in OUTCOMES:
        printing.say("Not in time.", err=True)
        say_it_goes_on(batch["task_id"])
    elif batch["manifest"]["uri"] and batch["manifest"]["failed"]:
        printing.say("Do again what failed, and only that:", err=True)
        printing.say((f"  holdfast batch retry-failed {batch['task_id']} --wait", "bold"), err=True)


def inputs_of(batch: Batch) -> str:
    """How many inputs there are, and what became of them."""
    counts = batch["manifest"]
    if counts["inputs"] is None:
        return "Its inputs are not counted yet"
    bad = "".join(f", {counts[name]:,} {name}" for name in ("failed", "invalid") if counts[name])
    return f"{counts['ok']:,} of {counts['inputs']:,} ok{bad}"


def say_jobs(batch: Batch) -> None:
    """The jobs in a table: those that are not over first, if not all fit."""
    from holdfast.cli.lanes import MARKS, counted, order_of

    chosen = sorted(batch["jobs"], key=lambda job: (order_of(job), job["number"]))[:jobs_listed]
    rows = []
    for job in sorted(chosen, key=lambda job: int(job["number"])):
        sign, style = MARKS[job["status"]]
        rows.append(
            (
                str(job["number"]),
                job["model"] or "",
                (f"{sign} {job['status']}", style) if printing.on_terminal() else job["status"],
                job["provider_status"] or "",
                f"{job['ok'] if job['finished_at'] else job['done']:,} of {job['inputs']:,}",
                job["external_job_id"] or "",
                "" if batch["finished_at"] else next_of(job),
                cost_of(job),
                job["error"] or "",
            )
        )
    heads = ["job", "model", "status", "provider says", "inputs", "its id there", "next", "cost", "error"]
    kept = [place for place, _ in enumerate(heads) if any(printing.cleaned(row[place])[0] for row in rows)]
    if rows:
        picked = [[row[place] for place in kept] for row in rows]
        printing.table([heads[place] for place in kept], picked, elastic=("error", "its id there", "provider says"))
    rest = [job for job in batch["jobs"] if job not in chosen]
    if rest:
        printing.say((f"... and {len(rest):,} more, with --json: {counted(rest)}", "dim"))


def next_of(job: dict[str, Any]) -> str:
    """When the provider is asked again."""
    if job["finished_at"] or not job["due_at"]:
        return ""
    return (
        printing.age(datetime.fromisoformat(job["due_at"]), datetime.now(UTC))
        if printing.on_terminal()
        else job["due_at"]
    )


def cost_of(job: dict[str, Any]) -> str:
    from holdfast.cli.funnel import cents

    return cents(job["cost_cents"]) if job["cost_cents"] else ""


def say_parked(batch: Batch) -> None:
    """Each job that waits for a person, why, and the commands that answer."""
    for job in batch["jobs"]:
        if job["status"] != "PARKED" or batch["finished_at"]:
            continue
        printing.say((f"Job {job['number']} waits for a person. ", "magenta"), job["error"] or "")
        printing.say(f"Look for {job['external_job_id'] or job['token']} at {batch['provider']}, then say what it is:")
        for words, meaning in answers(job):
            printing.say((f"  {meaning}", "dim"))
            printing.say((f"    holdfast batch resolve {batch['task_id']} {job['number']} {words}", "bold"))


def answers(job: dict[str, Any]) -> Sequence[tuple[str, str]]:
    """What can be said of a job that is parked."""
    if job["external_job_id"]:
        return [("--go-on", "what it was at is to be tried again:"), ("--give-up", "it has failed:")]
    return [
        ("--adopt EXTERNAL_ID", "it was begun, and is called so there:"),
        ("--resubmit", "it was never begun, and is to be sent:"),
        ("--go-on", "it is to be looked for again:"),
        ("--give-up", "it has failed:"),
    ]


async def say_left(server: "Server", batch: Batch) -> None:
    """What this batch left running at its provider, and who stops it."""
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
    printing.say((left, "yellow" if running else "dim"), err=True)
    printing.say("Who stops it: ", (f"holdfast show {batch['stopped_by']}", "bold"), f" ({stop['state']})", err=True)


def say_failed(items: Sequence[Item], known: Known) -> None:
    failed = [one for one in items if one["status"] != "ok"]
    if failed:
        say_items(failed, known)
