"""Holdfast: a durable task engine for Python on Postgres.

The public names are imported when they are first used: commands start fast, and the watchdog of the embedded Postgres
passes through here with nothing but the standard library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.errors import Fatal, RateLimited, SchemaInvalid, TaskCancelled, TaskFailed, Transient
    from holdfast.kernel.running import cancelled, current, output, progress, spend, step, usage
    from holdfast.kernel.task import Later, Moved, Partial
    from holdfast.questions.asking import ask
    from holdfast.sdk.client import Holdfast
    from holdfast.sdk.handle import Handle
    from holdfast.sdk.task import Task

__version__: str

__all__ = [
    "Fatal",
    "Handle",
    "Holdfast",
    "Later",
    "Moved",
    "Partial",
    "RateLimited",
    "SchemaInvalid",
    "Task",
    "TaskCancelled",
    "TaskFailed",
    "Transient",
    "__version__",
    "ask",
    "cancelled",
    "current",
    "output",
    "progress",
    "spend",
    "step",
    "usage",
]

ROOMS = {
    "errors": ("Fatal", "RateLimited", "SchemaInvalid", "TaskCancelled", "TaskFailed", "Transient"),
    "kernel.running": ("cancelled", "current", "output", "progress", "spend", "step", "usage"),
    "kernel.task": ("Later", "Moved", "Partial"),
    "questions.asking": ("ask",),
    "sdk.client": ("Holdfast",),
    "sdk.handle": ("Handle",),
    "sdk.task": ("Task",),
}
HOMES = {name: room for room, names in ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("holdfast")
    if name in HOMES:
        return getattr(import_module(f"holdfast.{HOMES[name]}"), name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
