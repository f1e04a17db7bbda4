"""The tool profile-my-data: its agents, what each reads, what it writes, what it costs.

Polars is imported when an agent runs, not before, so that a server that only takes orders does not need it.
"""

from functools import partial
from importlib import import_module
from typing import Any

from holdfast.distribution import install_hint
from holdfast.errors import Fatal
from holdfast.lifecycles.analysis.tools import Agent, Job, Tool


def load(module: str, name: str) -> Any:
    """Something of one of these agents, imported now. Raises Fatal where polars is not installed."""
    try:
        return getattr(import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name != "polars":
            raise
        message = f"This worker cannot read tables. Install what it needs: {install_hint('analysis')}"
        raise Fatal(message, code="AGENT_ERROR") from None


def run(module: str, function: str, job: Job) -> None:
    load(module, function)(job)


def agent(name: str, title: str, module: str, function: str, options: str, *, needs_baseline: bool = False) -> Agent:
    """An agent in a module of this folder."""
    return Agent(
        name, partial(run, module, function), title,
        needs_baseline=needs_baseline, options=partial(load, "options", options),
    )  # fmt: skip


UNIFIED_PROFILER, SCORE_RISK, DETECT_DRIFT, SUGGEST_CLEANING = AGENTS = (
    # What is in the table, column by column: profile.json and report.html.
    agent("unified-profiler", "Profile of the data", "profiler", "profile", "ProfilerOptions"),
    # How risky the table is to use or to share, from 0 to 100: risk.json and risk.html.
    agent("score-risk", "Risk of the data", "risk", "score_risk", "RiskOptions"),
    # What changed against the baseline: drift.json and drift.html.
    agent("detect-drift", "Drift against a baseline", "drift", "detect_drift", "DriftOptions", needs_baseline=True),
    # What to clean, and a script that does it: cleaning.json, cleaning.html and clean.py.
    agent("suggest-cleaning", "Suggestions for cleaning", "cleaning", "suggest_cleaning", "CleaningOptions"),
)

PROFILE_MY_DATA = Tool("profile-my-data", AGENTS, title="Profile my data")
