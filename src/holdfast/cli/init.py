"""`holdfast init`: a small project that runs."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import Json
from holdfast.cli.printing import print_facts, print_json, print_line

PROJECT = Path(__file__).parent / "project"
FILES = ("app.py", "test_app.py", "README.md")


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to; made if it is not there.")] = Path("."),
    as_json: Json = False,
) -> None:
    """Write a small project that runs: two tasks, a test, a README.

    Nothing that is there is overwritten.
    """
    existing = [name for name in FILES if (folder / name).exists()]
    if existing:
        raise typer.BadParameter(
            f"{folder} has {', '.join(existing)} already. Nothing was written; name another folder."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            shutil.copyfile(PROJECT / name, folder / name)
    except OSError as error:
        raise typer.BadParameter(f"{folder}: {error.strerror}.") from None
    if as_json:
        print_json({"folder": str(folder), "files": list(FILES)})
        return
    print_line("Written: ", (", ".join(str(folder / name) for name in FILES), "bold"))
    go, command = "" if folder == Path(".") else f"cd {shlex.quote(str(folder))} && ", command_name()
    print_facts(
        [
            ("Run it", f"{go}{command} dev app.py"),
            ("Use it", f"""{go}{command} start greet '{{"name": "Ada"}}' --wait"""),
            ("Test it", "pytest"),
        ]
    )


def command_name() -> str:
    """The command as it was called; its plain name, where that finds the same one."""
    name = Path(sys.argv[0])
    if name.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m holdfast"
    found = shutil.which("holdfast")
    if name.name != "holdfast" or (found and Path(found).samefile(name)):
        return "holdfast"
    return shlex.quote(str(name.absolute()))
