"""`holdfast cron`: what the clock starts, when it does next, and what a person does about it."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from holdfast.cli import printing
from holdfast.cli.asking import ask, caller
from holdfast.cli.inbox import confirm
from holdfast.cli.options import Json
from holdfast.cli.tasks import say_started
from holdfast.errors import RequestInvalid

if TYPE_CHECKING:
    from holdfast.engine.store.commands import Store
    from holdfast.schedules import Run, Schedules

app = typer.Typer(invoke_without_command=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="What the schedule is called.")]

upcoming_shown = 5
runs_shown = 10
lines_shown = 20
most_filled = 10_000
schedules_at_most = 1000


@app.callback()
def schedules(context: typer.Context, as_json: Json = False) -> None:
    """See what the clock starts; run it, pause it, catch up on it."""
    if not context.invoked_subcommand:
        list_all(as_json)


@app.command("ls")
def list_all(as_json: Json = False) -> None:
    """List the schedules: what each starts, when it is due next, when it last was."""
    found = ask(lambda store: of(store).read(limit=schedules_at_most))
    if as_json:
        printing.answer([shown(one) for one in found])
    elif not found:
        printing.say("There are no schedules. Declare one: ", ('hf.cron("0 2 * * *", task)', "bold"), err=True)
    else:
        heads = ("name", "cron", "starts", "next", "last", "note")
        printing.table(heads, [row(one) for one in found], elastic=("name", "starts", "note"))


@app.command()
def show(name: Name, as_json: Json = False) -> None:
    """Show one of them: what it starts and with what, its next due times, its newest runs."""

    async def question(store: "Store") -> "tuple[dict[str, Any], list[Run]]":
        return await of(store).one(name), await of(store).runs(name, runs_shown)

    found, runs = ask(question)
    upcoming = upcoming_of(found)
    if as_json:
        printing.answer(shown(found) | {"upcoming": upcoming, "runs": [vars(one) for one in runs]})
        return
    now = moment(found["now"])
    facts: list[tuple[str, printing.Part]] = [
        ("schedule", found["name"]), ("cron", f"{found['cron']}  {found['timezone']}"), ("starts", target(found)),
        ("with", printing.pretty(found["target"].get("payload") or {})), ("missed", found["missed"]),
    ]  # fmt: skip
    if found["at_field"]:
        facts.append(("due time in", found["at_field"]))
    facts += [("next" if not place else "", when(due, now)) for place, due in enumerate(upcoming)]
    if said := note(found):
        facts.append(("note", (said, "yellow")))
    printing.facts(facts)
    if runs:
        rows = [(printing.shown(one.due_at), one.kind, one.by, str(one.task_id)) for one in runs]
        printing.table(("due", "kind", "by", "task"), rows)


@app.command()
def run(name: Name, as_json: Json = False) -> None:
    """Start one run at once; its next due time stays."""

    async def question(store: "Store") -> UUID:
        return await of(store).run_now(name, caller())

    task = ask(question)
    if as_json:
        printing.answer({"name": name, "task_id": task})
    else:
        say_started(str(task), "Started ")


@app.command()
def pause(name: Name, as_json: Json = False) -> None:
    """Let the clock start nothing of it."""
    change(name, lambda schedules: schedules.pause(name, caller()), "is paused", as_json)


@app.command()
def resume(name: Name, as_json: Json = False) -> None:
    """Let the clock start it again, from its next due time on; what fell due meanwhile is not run."""
    change(name, lambda schedules: schedules.resume(name), "goes on", as_json)


@app.command()
def backfill(
    name: Name,
    start: Annotated[str, typer.Option("--from", metavar="TIME", help="From here on: 2030-01-01, or with a time.")],
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Up to here; up to now by default.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be run.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before more than one.")] = False,
    as_json: Json = False,
) -> None:
    """Run what has no run yet: once for each due time between two days or times, the oldest first.

    Times without a zone are those of the schedule. Asked again, it starts nothing that it has started.
    """
    would = fill(name, start, end, dry_run=True)
    if not dry_run and len(would) > 1 and not yes:
        confirm(f"Start {len(would)} runs of {name}?")
    done = would if dry_run or not would else fill(name, start, end, dry_run=False)
    if as_json:
        items = [{"due_at": due, "task_id": task} for due, task in done]
        printing.answer({"name": name, "dry_run": dry_run, "items": items})
        return
    if not done:
        printing.say("Every due time there has its run, or is still to come.", err=True)
        return
    printing.table(("due", "task"), [(printing.shown(due), str(task or "")) for due, task in done[:lines_shown]])
    if len(done) > lines_shown:
        printing.say((f"... and {len(done) - lines_shown:,} more, with --json", "dim"))
    printing.say(f"{len(done):,} {'would be started' if dry_run else 'started'}.", err=True)


@app.command("rm")
def remove(name: Name, as_json: Json = False) -> None:
    """Forget a schedule. One that an application still declares is there again at its next start."""

    async def question(store: "Store") -> bool:
        live = (await of(store).one(name))["live"]
        await of(store).remove(name)
        return bool(live)

    live = ask(question)
    if as_json:
        printing.answer({"name": name, "removed": True})
        return
    printing.say((name, "bold"), " is forgotten.")
    if live:
        printing.say("An application that is there declares it, and will again at its next start.", err=True)


def of(store: "Store") -> "Schedules":
    from holdfast.schedules import Schedules

    return Schedules.over(store)


def fill(name: str, start: str, end: str | None, *, dry_run: bool) -> list[tuple[datetime, UUID | None]]:
    """Backfill page after page."""
    from holdfast.schedules import times_of

    async def question(store: "Store") -> list[tuple[datetime, UUID | None]]:
        found = await of(store).one(name)
        zone = times_of(found).zone
        since: datetime | None = read_moment(start, zone)
        until = moment(found["now"]) if end is None else read_moment(end, zone)
        filled: list[tuple[datetime, UUID | None]] = []
        while since:
            page = await of(store).backfill(name, since, until, by=caller(), dry_run=dry_run)
            filled += page.items
            since = page.next
            if len(filled) > most_filled:
                raise RequestInvalid(
                    f"There are more than {most_filled:,} due times without a run.", fix="Name a shorter range."
                )
        return filled

    return ask(question)


def read_moment(text: str, zone: Any) -> datetime:
    """A day or a time as people write it; in the schedule's time zone, unless it names another."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time. Write 2030-01-31, or 2030-01-31T02:00.") from None
    return read if read.tzinfo else read.replace(tzinfo=zone)


def change(name: str, verb: "Callable[[Schedules], Awaitable[None]]", words: str, as_json: bool) -> None:
    """Do it, and tell how the schedule is now."""

    async def question(store: "Store") -> dict[str, Any]:
        await verb(of(store))
        return await of(store).one(name)

    found = ask(question)
    if as_json:
        printing.answer(shown(found))
        return
    next_at = "" if found["paused_at"] or not found["next_at"] else when(moment(found["next_at"]), moment(found["now"]))
    printing.say((name, "bold"), f" {words}{f': next {next_at}' if next_at else ''}.")


def shown(schedule: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schedule.items() if name not in ("now", "definition")}


def row(one: dict[str, Any]) -> tuple[printing.Part, ...]:
    now = moment(one["now"])
    next_at = "" if one["paused_at"] or not one["next_at"] else printing.age(moment(one["next_at"]), now)
    last = printing.age(moment(one["last_at"]), now) if one["last_at"] else ""
    zone = "" if one["timezone"] == "UTC" else f" {one['timezone']}"
    return (one["name"], "bold"), f"{one['cron']}{zone}", target(one), next_at, last, (note(one), "yellow")


def target(one: dict[str, Any]) -> str:
    return f"{'graph ' if one['starts'] == 'dag' else ''}{one['target']['name']}"


def note(one: dict[str, Any]) -> str:
    """What a reader should know: it is refused, it rests, nobody declares it."""
    said = []
    if one["paused_at"]:
        by = f" by {one['paused_by']}" if one["paused_by"] else ""
        said.append(f"paused {printing.age(moment(one['paused_at']), moment(one['now']))}{by}")
    if one["error"]:
        said.append(f"refused: {one['error']}")
    if not one["live"]:
        said.append("no live application declares it")
    return "; ".join(said)


def upcoming_of(schedule: dict[str, Any]) -> list[datetime]:
    from holdfast.schedules import times_of

    return [] if schedule["paused_at"] else list(
        islice(times_of(schedule).after(moment(schedule["now"])), upcoming_shown)
    )  # fmt: skip


def when(due: datetime, now: datetime) -> str:
    return f"{printing.shown(due)} ({printing.age(due, now)})"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
