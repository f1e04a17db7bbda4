"""The command line: a command is one call into a layer below.

Tables and answers go to stdout, everything else to stderr. A command imports what it needs when it runs, so that
`holdfast --help` stays fast.
"""

import io
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import (
    batch,
    bulk,
    cost,
    cron,
    dag,
    dataset,
    db,
    inbox,
    ingest,
    keys,
    lifecycle,
    models,
    pipeline,
    questions,
    queues,
    webhooks,
)
from holdfast.cli.access import INTERRUPTED
from holdfast.cli.init import init
from holdfast.cli.look import events, ls, show, why
from holdfast.cli.options import Json
from holdfast.cli.printing import clean
from holdfast.cli.search import search
from holdfast.cli.tasks import cancel, retry, start, watch
from holdfast.cli.upload import upload
from holdfast.cli.worker import workers
from holdfast.errors import HoldfastError

app = typer.Typer(
    name="holdfast",
    help="Durable tasks for Python on Postgres.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
App = Annotated[str, typer.Option("--app", help="Your tasks: module:attribute or file.py. [HOLDFAST_APP]")]
Slots = Annotated[int, typer.Option(min=1, help="How many tasks run at once in each process.")]
RUN, TASKS, LOOK, OPERATE = "Run", "Tasks", "Look", "Operate"


def main(arguments: list[str] | None = None) -> None:
    """Run the command; an error of ours becomes its message and its exit code."""
    signal.signal(signal.SIGINT, lambda *_: sys.exit(INTERRUPTED))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names may have letters that this terminal lacks
    try:
        app(arguments)
    except HoldfastError as error:
        typer.secho(error.title, fg="red", err=True)
        text = "\n".join(part for part in (error.detail, error.fix) if part)
        typer.echo(clean(text, lines=True), err=True)
        sys.exit(error.exit_code)


@app.command(rich_help_panel=RUN)
def up(
    demo: Annotated[bool, typer.Option("--demo", help="With sample work that moves.")] = False,
    workers: Annotated[int | None, typer.Option(min=0, help="How many workers to start beside the server.")] = None,
    app: App = "",
) -> None:
    """Start Holdfast: the database (unless HOLDFAST_URL names one), the server, and workers. Ctrl-C stops it."""
    from holdfast.cli.up import run_demo, run_with
    from holdfast.settings import read_settings

    settings = read_settings()
    if demo:
        run_demo(settings, workers)
    else:
        run_with(settings, app or settings.app, workers)


@app.command(rich_help_panel=RUN)
def dev(
    file: Annotated[Path, typer.Argument(help="The file with your tasks.", exists=True, dir_okay=False)],
    slots: Slots = 20,
) -> None:
    """Run your tasks while you write them: database, server and a worker that starts again when a file is saved."""
    from holdfast.cli.up import run_dev
    from holdfast.settings import read_settings

    run_dev(read_settings(), file, slots)


@app.command(rich_help_panel=RUN)
def worker(
    app: App = "",
    queue: Annotated[list[str] | None, typer.Option(help="Serve this; again for more. Else the tasks' own.")] = None,
    slots: Slots = 20,
    processes: Annotated[int, typer.Option(min=1, help="How many processes run them.")] = 1,
    batch: Annotated[int, typer.Option(help="How many results go in one call at most; 1: each by itself.")] = 500,
    lease: Annotated[str, typer.Option(help="How long after its last sign of life a worker counts as lost.")] = "4s",
    grace: Annotated[str, typer.Option(help="How long tasks may run on after SIGTERM.")] = "10s",
) -> None:
    """Run tasks: claim them, run them, settle them. Ctrl-C or SIGTERM ends it at no cost to what runs.

    With HOLDFAST_API and HOLDFAST_KEY, and without HOLDFAST_URL, it speaks to that server and needs no database.
    """
    from holdfast.cli.worker import run
    from holdfast.durations import parse_duration
    from holdfast.errors import AppInvalid
    from holdfast.settings import read_settings
    from holdfast.worker.config import WorkerConfig

    settings = read_settings()
    app = app or settings.app
    if not app:
        raise AppInvalid("The application is not named.", fix="Name them: --app module:hf, or HOLDFAST_APP.")
    seconds = [parse_duration(one).total_seconds() for one in (lease, grace)]
    run(
        WorkerConfig(app, tuple(queue or ()), slots, batch, lease_seconds=seconds[0], grace_seconds=seconds[1]),
        processes,
    )


COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    RUN: (init,),
    TASKS: (start, upload, ingest.ingest, watch, cancel, retry, questions.answer),
    LOOK: (ls, show, why, events, search),
    OPERATE: (workers,),
}
GROUPS: dict[str, dict[str, typer.Typer]] = {
    TASKS: {"pipeline": pipeline.app, "dag": dag.app, "batch": batch.app, "dataset": dataset.app},
    LOOK: {"runs": ingest.app, "cost": cost.app},
    OPERATE: {
        "inbox": inbox.app, "bulk": bulk.app, "cron": cron.app, "questions": questions.app, "webhooks": webhooks.app,
        "queues": queues.app, "keys": keys.app, "lifecycle": lifecycle.app, "models": models.app, "db": db.app,
    },
}  # fmt: skip
for panel, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
for panel, groups in GROUPS.items():
    for name, group in groups.items():
        app.add_typer(group, name=name, rich_help_panel=panel)


@app.command(rich_help_panel=OPERATE)
def doctor(as_json: Json = False) -> None:
    """Look at everything Holdfast needs here and say what is missing. Changes nothing."""
    from holdfast.cli.doctor import examine, leave

    checks = examine()
    if as_json:
        typer.echo(json.dumps([vars(check) for check in checks], indent=2))
    else:
        for check in checks:
            mark = typer.style("ok  ", fg="green") if check.ok else typer.style("FAIL", fg="red", bold=True)
            typer.echo(f"{mark}  {check.name:<10} {check.finding}")
            if check.fix:
                typer.echo(f"{'':<17}{check.fix}")
    leave(max((check.exit_code for check in checks if not check.ok), default=0))


@app.command(rich_help_panel=OPERATE)
def version(as_json: Json = False) -> None:
    """Print the version."""
    from holdfast import __version__

    python = ".".join(map(str, sys.version_info[:3]))
    typer.echo(json.dumps({"holdfast": __version__, "python": python}) if as_json else f"holdfast {__version__}")
