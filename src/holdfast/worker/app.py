"""Finding the application: `package.module:attribute`, or a file."""

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from holdfast.errors import AppInvalid
from holdfast.sdk.client import Holdfast


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
    apps = {id(one): one for one in vars(module).values() if isinstance(one, Holdfast)}
    if len(apps) != 1:
        raise AppInvalid(
            f"{place} has {len(apps) or 'no'} Holdfast applications.",
            fix=f"Name one: {place}:hf" if apps else "Make one: hf = Holdfast()",
        )
    return next(iter(apps.values()))


def load_module(place: str) -> ModuleType:
    """A module by its dotted name, as Python would find it from here; or a file. Raises AppInvalid."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
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
    except AppInvalid:
        raise
    except Exception as error:
        raise AppInvalid(
            f"{place}: {type(error).__name__}: {error}", fix="Name it as package.module:attribute or file.py:attribute."
        ) from error
    return module
