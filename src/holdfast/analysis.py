"""What agents and tools of your own are made of: `from holdfast.analysis import Agent, Job, Tool`."""

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.lifecycles.analysis.tools import Agent, InputFile, Job, Options, Tool, cannot_read, wrong_format

if TYPE_CHECKING:
    from holdfast.apps.agents import PROFILE_MY_DATA

__all__ = ["PROFILE_MY_DATA", "Agent", "InputFile", "Job", "Options", "Tool", "cannot_read", "wrong_format"]


def __getattr__(name: str) -> Any:
    """The bundled tool is imported when an application asks for it."""
    if name == "PROFILE_MY_DATA":
        return importlib.import_module("holdfast.apps.agents").PROFILE_MY_DATA
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
