"""The command line: a command is one call into a layer below.

Tables and answers go to stdout, everything else to stderr. A command imports what it needs when it runs, so that
`holdfast --help` stays fast.
"""

import io
import json
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from holdfast.cli.access import INTERRUPTED
from holdfast.cli.ingest import ingest
from holdfast.cli.init import init
from holdfast.cli.look import events, ls, show, why
from holdfast.cli.options import Json
from holdfast.cli.printing import clean
from holdfast.cli.questions import answer
from holdfast.cli.search import search
from holdfast.cli.tasks import cancel, retry, start, watch
from holdfast.cli.upload import upload
from holdfast.cli.worker import workers
from holdfast.errors import HoldfastError

RUN, TASKS, LOOK, OPERATE = "Run", "Tasks", "Look", "Operate"
GROUPS = {
    "pipeline": (TASKS, "Run pipelines, and look after their jobs."),
    "dag": (TASKS, "Run graphs of tasks, and look after their runs."),
    "batch": (TASKS, "Have providers transcribe recordings and complete prompts, in batches."),
    "dataset": (TASKS, "Look at datasets, and at what was current when; or keep files under a name, for batches."),
    "runs": (LOOK, "List the runs of `holdfast ingest`, or look after one."),
    "cost": (LOOK, "Show what models have cost, or their prices."),
    "inbox": (OPERATE, "See what waits for a person; retry, resolve or discard what failed."),
    "bulk": (OPERATE, "Cancel or retry many tasks at once."),
    "cron": (OPERATE, "See what the clock starts; run it, pause it, catch up on it."),
    "questions": (OPERATE, "List what tasks ask people."),
    "webhooks": (OPERATE, "List the endpoints that learn how tasks end, or add, test, pause and remove one."),
    "queues": (OPERATE, "List the queues, or make, pause and resume one."),
    "keys": (OPERATE, "Keys to the server: create, list, revoke."),
    "lifecycle": (OPERATE, "Lifecycles: list, show, draw, declare, verify."),
    "models": (OPERATE, "List the models that run on this machine, or install one."),
    "db": (OPERATE, "The database: its address, a shell in it, its schema."),
}
"""Groups of commands: the panel in `holdfast --help`, and the help. The module has the group's name, but for `runs`."""


def keep_default(param: Any) -> Any:
    """The parameter, whose default is taken as it is. To coerce it too, Typer imports pydantic: 0.1 s of CPU."""
    coerce = type(param).process_value

    def process(context: Any, value: Any) -> Any:
        is_kept = value is param.default and not param.required
        return value if is_kept else coerce(param, context, value)

    param.process_value = process
    return param


class Command(TyperCommand):
    """A command that starts fast if only defaults are given."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [keep_default(one) for one in super().get_params(ctx)]


class LazyGroup(TyperGroup):
    """A group whose module is imported when one of its commands runs, so that all others start fast."""

    def load(self) -> TyperGroup:
        module = import_module(f"holdfast.cli.{'ingest' if self.name == 'runs' else self.name}")
        found = get_group(module.app)
        found.name, found.help = self.name, self.help
        return found

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.load().make_context(info_name, args, parent=parent, **extra)


class Commands(TyperGroup):
    """The commands, and behind them the groups."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, (panel, text) in GROUPS.items():
            self.commands[name] = LazyGroup(name=name, help=text, rich_help_panel=panel)

    def get_params(self, ctx: Any) -> list[Any]:
        return [keep_default(one) for one in super().get_params(ctx)]


app = typer.Typer(
    name="holdfast",
    cls=Commands,
    help="Durable tasks for Python on Postgres.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
App = Annotated[str, typer.Option("--app", help="Your tasks: module:attribute or file.py. [HOLDFAST_APP]")]
Slots = Annotated[int, typer.Option(min=1, help="How many tasks run at once in each process.")]


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
        raise AppInvalid("The application is not named.", fix="Name it: --app module:hf, or HOLDFAST_APP.")
    seconds = [parse_duration(one).total_seconds() for one in (lease, grace)]
    run(
        WorkerConfig(app, tuple(queue or ()), slots, batch, lease_seconds=seconds[0], grace_seconds=seconds[1]),
        processes,
    )


COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    RUN: (init,),
    TASKS: (start, upload, ingest, watch, cancel, retry, answer),
    LOOK: (ls, show, why, events, search),
    OPERATE: (workers,),
}
for panel, commands in COMMANDS.items():
    for command in commands:
        app.command(cls=Command, rich_help_panel=panel)(command)


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
