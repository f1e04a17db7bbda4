"""Finding the application: `package.module:attribute`, or a file. What fails in it is reported with its place."""

import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from holdfast.errors import AppInvalid
from holdfast.sdk.client import Holdfast
from holdfast.sdk.session import forbid_calls

HOLDFAST = f"{Path(__file__).parents[1]}{os.sep}"
HOW_TO_NAME = "Name it as package.module:attribute or file.py:attribute."
FIX = "Fix it and start again."

frames_at_most = 6


def load_app(name: str) -> Holdfast:
    """The Holdfast of that name. Without an attribute, the only one in the module. Raises AppInvalid."""
    place, _, attribute = name.rpartition(":") if ":" in name else (name, "", "")
    module = load_module(place)
    if attribute:
        found = getattr(module, attribute, None)
        if not isinstance(found, Holdfast):
            kind = "not there" if found is None else f"a {type(found).__name__}"
            raise AppInvalid(f"{name}: {attribute} is {kind}.", fix="Name the Holdfast(...) of your application.")
        return found
    apps = {id(one): (name, one) for name, one in reversed(vars(module).items()) if isinstance(one, Holdfast)}
    if len(apps) != 1:
        names = " or ".join(sorted(f"{place}:{one}" for one, _ in apps.values()))
        raise AppInvalid(
            f"{place} has {len(apps) or 'no'} Holdfast applications.",
            fix=f"Name one: {names}" if apps else "Make one: hf = Holdfast()",
        )
    ((_, app),) = apps.values()
    return app


def load_module(place: str) -> ModuleType:
    """A module by its dotted name, as Python would find it from here; or a file. Raises AppInvalid."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        with forbid_calls():
            return import_from(place)
    except Exception as error:
        if is_misnamed(place, error):
            raise AppInvalid(f"{place}: {type(error).__name__}: {error}", fix=HOW_TO_NAME) from error
        raise AppInvalid(
            f"{place}: {describe_error(error)}", fix=error.fix or FIX if isinstance(error, AppInvalid) else FIX
        ) from error


def import_from(place: str) -> ModuleType:
    if not place.endswith(".py"):
        return importlib.import_module(place)
    path = Path(place).resolve()
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise FileNotFoundError(f"there is no file {os.fspath(path)}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def is_misnamed(place: str, error: Exception) -> bool:
    """Whether there is no such place, rather than a mistake in what is there."""
    if isinstance(error, ModuleNotFoundError):
        return not place.endswith(".py") and f"{place}.".startswith(f"{error.name}.")
    return isinstance(error, FileNotFoundError) and not own_frames(error)


def describe_error(error: Exception) -> str:
    """The error, and below it where it happened: the last places in code of the user's."""
    if isinstance(error, SyntaxError):
        code = f"\n    {error.text.strip()}" if error.text else ""
        return f"{type(error).__name__}: {error.msg}\n  {error.filename}:{error.lineno}{code}"
    what = error.detail if isinstance(error, AppInvalid) else f"{type(error).__name__}: {error}"
    places = [f"  {one.filename}:{one.lineno}\n    {one.line}" for one in own_frames(error)[-frames_at_most:]]
    return "\n".join([what, *places])


def own_frames(error: Exception) -> list[traceback.FrameSummary]:
    """The way to the error, without Python's import machinery and without Holdfast."""
    passed_over = "<frozen ", str(importlib.__file__), HOLDFAST
    return [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(passed_over)]
