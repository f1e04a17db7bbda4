"""Ground to test on: a real Postgres for every test, with a clock that is moved instead of waited for.

The names are imported when they are first used: pytest passes through here at every start, for its plugin.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.testing.clock import Clock
    from holdfast.testing.engine import Engine, Ran
    from holdfast.testing.ground import Database, Ground

__all__ = ["Clock", "Database", "Engine", "Ground", "Ran"]

MODULES = {"Clock": "clock", "Database": "ground", "Engine": "engine", "Ground": "ground", "Ran": "engine"}


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return getattr(import_module(f"holdfast.testing.{MODULES[name]}"), name)
    raise AttributeError(f"module 'holdfast.testing' has no attribute {name!r}")
