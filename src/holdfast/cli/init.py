"""`holdfast init`: a small project that runs."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import printing
from holdfast.cli.options import Json

PROJECT = Path(__file__).parent / "project"
FILES = ("app.py", "test_app.py", "README.md")


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to; made if it is not there.")] = Path("."),
    as_json: Json = False,
) -> None:
    """Write a small project that runs: two tasks, a test, a README.

    Nothing that is there is overwritten.
    """
    there = [name for name in FILES if (folder / name).exists()]
    if there:
        raise typer.BadParameter(f"{folder} has {', '.join(there)} already. Nothing was written; name another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            shutil.copyfile(PROJECT / name, folder / name)
    except OSError as error:
        raise typer.BadParameter(f"{folder}: {error.strerror}.") from None
    if as_json:
        printing.answer({"folder": str(folder), "files": list(FILES)})
        return
    printing.say("Written: ", (", ".join(str(folder / name) for name in FILES), "bold"))
    go = "" if folder == Path(".") else f"cd {folder} && "
    printing.facts(
        [
            ("Run it", f"{go}holdfast worker --app app:hf"),
            ("Use it", """holdfast start greet '{"name": "Ada"}' --wait"""),
            ("Test it", "pytest"),
        ]
    )
