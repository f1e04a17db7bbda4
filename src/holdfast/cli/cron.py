"""`holdfast cron`: what the clock starts, when it does next, and what a person does about it."""

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.access import Store, current_user, with_store
from holdfast.cli.options import Answer, DryRun, Json, Yes, asks_store, confirm, group
from holdfast.cli.printing import (
    Cell,
    format_age,
    format_json,
    format_time,
    format_when,
    print_facts,
    print_json,
    print_line,
    print_more,
    print_started,
    print_table,
    to_moment,
)
from holdfast.errors import RequestInvalid

if TYPE_CHECKING:
    from holdfast.schedules.store import FilledRun, Schedules

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="What the schedule is called.")]

upcoming_listed = 5
runs_listed = 10
lines_listed = 20
most_filled = 10_000
schedules_at_most = 1000


@group(app)
@asks_store
async def list_all(store: Store) -> Answer:
    """List the schedules: what each starts, when it is due next, when it last was."""
    found = await schedules_of(store).read(limit=schedules_at_most)
    yield [as_object(one) for one in found]
    heads = ("name", "cron", "starts", "next", "last", "note")
    none = ("There are no schedules. Declare one: ", ('hf.cron("0 2 * * *", task)', "bold"))
    print_table(heads, [row_of(one) for one in found], elastic=("name", "starts", "note"), none=none)


@app.command()
@asks_store
async def show(store: Store, name: Name) -> Answer:
    """Show one of them: what it starts and with what, its next due times, its newest runs."""
    from holdfast.schedules.store import times_of

    found, runs = await schedules_of(store).one(name), await schedules_of(store).runs(name, runs_listed)
    now = to_moment(found["now"])
    upcoming = [] if found["paused_at"] else list(islice(times_of(found).after(now), upcoming_listed))
    yield as_object(found) | {"upcoming": upcoming, "runs": runs}
    print_facts(
        [
            ("schedule", found["name"]),
            ("cron", f"{found['cron']}  {found['timezone']}"),
            ("starts", target_of(found)),
            ("with", format_json(found["target"].get("payload") or {})),
            ("missed", found["missed"]),
            ("due time in", found["at_field"] or ""),
            *(("" if place else "next", format_when(due, now)) for place, due in enumerate(upcoming)),
            ("note", (note, "yellow") if (note := note_of(found)) else ""),
        ]
    )
    if runs:
        rows = [(format_time(one.due_at), one.kind, one.by, str(one.task_id)) for one in runs]
        print_table(("due", "kind", "by", "task"), rows)


@app.command()
@asks_store
async def run(store: Store, name: Name) -> Answer:
    """Start one run at once; its next due time stays."""
    task = await schedules_of(store).run_now(name, current_user())
    yield {"name": name, "task_id": task}
    print_started(str(task), "Started ")


@app.command()
@asks_store
async def pause(store: Store, name: Name) -> Answer:
    """Let the clock start nothing of it."""
    await schedules_of(store).pause(name, current_user())
    now = await schedules_of(store).one(name)
    yield as_object(now)
    print_line((name, "bold"), " is paused.")


@app.command()
@asks_store
async def resume(store: Store, name: Name) -> Answer:
    """Let the clock start it again, from its next due time on; what fell due meanwhile is not run."""
    await schedules_of(store).resume(name)
    now = await schedules_of(store).one(name)
    yield as_object(now)
    next_at = f": next {format_when(now['next_at'], now['now'])}" if now["next_at"] else ""
    print_line((name, "bold"), f" goes on{next_at}.")


@app.command()
def backfill(
    name: Name,
    start: Annotated[str, typer.Option("--from", metavar="TIME", help="From here on: 2030-01-01, or with a time.")],
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Up to here; up to now by default.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Run what has no run yet: once for each due time between two days or times, the oldest first.

    Times without a zone are those of the schedule. Asked again, it starts nothing that it has started.
    """
    preview = with_store(lambda store: fill(store, name, start, end, dry_run=True))
    if not dry_run and len(preview) > 1 and not yes:
        confirm(f"Start {len(preview)} runs of {name}?")
    done = preview
    if preview and not dry_run:
        done = with_store(lambda store: fill(store, name, start, end, dry_run=False))
    if as_json:
        print_json({"name": name, "dry_run": dry_run, "items": done})
        return
    if not done:
        print_line("Every due time there has its run, or is still to come.", err=True)
        return
    print_table(("due", "task"), [(format_time(one.due_at), str(one.task_id or "")) for one in done[:lines_listed]])
    print_more(len(done) - lines_listed)
    print_line(f"{len(done):,} {'would be started' if dry_run else 'started'}.", err=True)


@app.command("rm")
@asks_store
async def remove(store: Store, name: Name) -> Answer:
    """Forget a schedule. One that an application still declares is there again at its next start."""
    live = (await schedules_of(store).one(name))["live"]
    await schedules_of(store).remove(name)
    yield {"name": name, "removed": True}
    print_line((name, "bold"), " is forgotten.")
    if live:
        print_line("An application that is there declares it, and will again at its next start.", err=True)


def schedules_of(store: Store) -> "Schedules":
    from holdfast.schedules.store import Schedules

    return Schedules.over(store)


async def fill(store: Store, name: str, start: str, end: str | None, *, dry_run: bool) -> "list[FilledRun]":
    """Backfill page after page."""
    from holdfast.schedules.store import times_of

    found = await schedules_of(store).one(name)
    zone = times_of(found).zone
    since: datetime | None = read_moment(start, zone)
    until = to_moment(found["now"]) if end is None else read_moment(end, zone)
    filled: list[FilledRun] = []
    while since:
        page = await schedules_of(store).backfill(name, since, until, by=current_user(), dry_run=dry_run)
        filled += page.items
        since = page.next
        if len(filled) > most_filled:
            raise RequestInvalid(
                f"There are more than {most_filled:,} due times without a run.", fix="Name a shorter range."
            )
    return filled


def read_moment(text: str, zone: Any) -> datetime:
    """A day or a time as people write it; in the schedule's time zone, unless it names another."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time. Write 2030-01-31, or 2030-01-31T02:00.") from None
    return read if read.tzinfo else read.replace(tzinfo=zone)


def as_object(schedule: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schedule.items() if name not in ("now", "definition")}


def row_of(one: dict[str, Any]) -> tuple[Cell, ...]:
    now = to_moment(one["now"])
    next_at = "" if one["paused_at"] or not one["next_at"] else format_age(one["next_at"], now)
    last = format_age(one["last_at"], now) if one["last_at"] else ""
    zone = "" if one["timezone"] == "UTC" else f" {one['timezone']}"
    return (one["name"], "bold"), f"{one['cron']}{zone}", target_of(one), next_at, last, (note_of(one), "yellow")


def target_of(one: dict[str, Any]) -> str:
    return f"{'graph ' if one['starts'] == 'dag' else ''}{one['target']['name']}"


def note_of(one: dict[str, Any]) -> str:
    """What a reader should know: it is refused, it is paused, no application declares it."""
    notes = []
    if one["paused_at"]:
        by = f" by {one['paused_by']}" if one["paused_by"] else ""
        notes.append(f"paused {format_age(one['paused_at'], one['now'])}{by}")
    if one["error"]:
        notes.append(f"refused: {one['error']}")
    if not one["live"]:
        notes.append("no live application declares it")
    return "; ".join(notes)
