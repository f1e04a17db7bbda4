"""What agents and tools of your own are made of: `from holdfast.analysis import Agent, Job, Tool`."""

from holdfast.lifecycles.analysis.job import Agent, InputFile, Job, Options, cannot_read, wrong_format
from holdfast.lifecycles.analysis.tools import PROFILE_MY_DATA, Tool

__all__ = ["PROFILE_MY_DATA", "Agent", "InputFile", "Job", "Options", "Tool", "cannot_read", "wrong_format"]
