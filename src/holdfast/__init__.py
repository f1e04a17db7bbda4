"""Holdfast: a durable task engine for Python on Postgres.

The public names are imported when they are first used: commands start fast, and the watchdog of the embedded Postgres
passes through here with nothing but the standard library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.distribution import __version__

if TYPE_CHECKING:
    from holdfast.approvals.asking import ask
    from holdfast.engine.task import Later, Moved, Partial
    from holdfast.errors import Fatal, RateLimited, SchemaInvalid, TaskCancelled, TaskFailed, Transient
    from holdfast.execution.context import cancelled, current, output, progress, spend, step, usage
    from holdfast.sdk.client import Holdfast
    from holdfast.sdk.handle import Handle
    from holdfast.sdk.task import Task

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

MODULES = {
    "errors": ("Fatal", "RateLimited", "SchemaInvalid", "TaskCancelled", "TaskFailed", "Transient"),
    "execution.context": ("cancelled", "current", "output", "progress", "spend", "step", "usage"),
    "engine.task": ("Later", "Moved", "Partial"),
    "approvals.asking": ("ask",),
    "sdk.client": ("Holdfast",),
    "sdk.handle": ("Handle",),
    "sdk.task": ("Task",),
}
MODULE_OF = {name: module for module, names in MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in MODULE_OF:
        return getattr(import_module(f"holdfast.{MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
