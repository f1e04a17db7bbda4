"""`holdfast lifecycle`: what is declared, drawn and proven.

NAME is a lifecycle that the database knows, or one in a file of your own: `review.py:REVIEW`, `package.module:REVIEW`.
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holdfast.cli.access import Store, with_store
from holdfast.cli.options import Answer, Json, makes_store
from holdfast.cli.printing import print_table
from holdfast.errors import DeclarationInvalid, LifecycleUnknown

if TYPE_CHECKING:
    from holdfast.engine.lifecycle.model import Lifecycle

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A declared name, or one of your own as review.py:REVIEW.")]


@app.command("ls")
@makes_store
async def list_all(store: Store) -> Answer:
    """List the declared lifecycles."""
    lifecycles = await store.lifecycles()
    yield [lifecycle.definition() for lifecycle in lifecycles]
    print_table(
        ("name", "version", "queue", "states", "starts in"),
        [(one.name, str(one.version), one.queue or "", str(len(one.states)), one.start) for one in lifecycles],
    )


@app.command()
def show(name: Name, as_json: Json = False) -> None:
    """Show who acts in each state, and which verb leads where."""
    from holdfast.engine.lifecycle import render

    lifecycle = find(name)
    typer.echo(json.dumps(lifecycle.definition(), indent=2) if as_json else render.matrix(lifecycle).rstrip("\n"))


@app.command()
def draw(
    name: Name,
    form: Annotated[Literal["svg", "mermaid"], typer.Option("--as", help="The form of the picture.")] = "svg",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file instead of stdout.")] = None,
    state: Annotated[str | None, typer.Option(help="Mark this state as the current one (svg).")] = None,
) -> None:
    """Draw a lifecycle."""
    from holdfast.engine.lifecycle import render

    lifecycle = find(name)
    try:
        picture = render.mermaid(lifecycle) if form == "mermaid" else render.svg(lifecycle, state)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if output:
        output.write_text(picture)
        typer.echo(f"Drawn into {output}.", err=True)
    else:
        typer.echo(picture.rstrip("\n"))


@app.command()
def declare(name: Annotated[str, typer.Argument(help="One of your own, as review.py:REVIEW.")]) -> None:
    """Write a lifecycle of your own into the database, which enforces it from then on."""
    lifecycle = load(name)
    version = with_store(lambda store: store.declare(lifecycle), makes=True)
    typer.echo(f"{lifecycle.name} is declared, version {version}.")


@app.command()
def verify(as_json: Json = False) -> None:
    """Replay the history of every task against the declared moves."""
    problems = with_store(lambda store: store.verify(), makes=True)
    if as_json:
        typer.echo(json.dumps([{"task_id": str(task), "problem": problem} for task, problem in problems]))
    else:
        typer.echo("\n".join(f"{task}  {problem}" for task, problem in problems) or "Every history holds.")
    raise typer.Exit(1 if problems else 0)


def find(name: str) -> "Lifecycle":
    """The lifecycle of that name, from a file or from the database. Raises LifecycleUnknown or DeclarationInvalid."""
    if ":" in name:
        return load(name)
    declared = {lifecycle.name: lifecycle for lifecycle in with_store(lambda store: store.lifecycles(), makes=True)}
    if name not in declared:
        raise LifecycleUnknown(name, fix=f"Declared are: {', '.join(declared) or 'none'}. Your own: file.py:NAME.")
    return declared[name]


def load(name: str) -> "Lifecycle":
    """The lifecycle under that name in a file or a module. Raises LifecycleUnknown or DeclarationInvalid."""
    from holdfast.engine.lifecycle.model import Lifecycle

    place, _, attribute = name.rpartition(":")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            if spec is None or spec.loader is None:
                raise FileNotFoundError(place)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, "")
            module = importlib.import_module(place)
        found = getattr(module, attribute)
    except DeclarationInvalid:
        raise
    except Exception as error:
        raise LifecycleUnknown(
            f"{name}: {type(error).__name__}: {error}", fix="Name it as file.py:NAME or package.module:NAME."
        ) from error
    if not isinstance(found, Lifecycle):
        raise LifecycleUnknown(f"{name} is a {type(found).__name__}.", fix="Name a Lifecycle.")
    return found
