"""The agents that come with Holdfast: what each reads, what it writes, what it costs.

Polars is imported when an agent runs, not before, so that a server that only takes orders does not need it.
"""

from collections.abc import Callable
from importlib import import_module

from holdfast.errors import Fatal
from holdfast.lifecycles.analysis.agents.job import Agent, Job


def loaded(module: str, function: str) -> Callable[[Job], None]:
    """An agent whose module is imported when it runs. It raises Fatal where polars is not installed."""

    def run(job: Job) -> None:
        try:
            agent = getattr(import_module(f"{__name__}.{module}"), function)
        except ModuleNotFoundError as error:
            if error.name != "polars":
                raise
            said = "This worker cannot read tables. Install what it needs: pip install 'holdfast[analysis]'"
            raise Fatal(said, code="AGENT_ERROR") from None
        agent(job)

    return run


# What is in the table, column by column: profile.json and report.html.
UNIFIED_PROFILER = Agent("unified-profiler", loaded("profiler", "profile"), title="Profile of the data")
# How risky the table is to use or to share, from 0 to 100: risk.json and risk.html.
SCORE_RISK = Agent("score-risk", loaded("risk", "score_risk"), title="Risk of the data")
# What changed against the baseline: drift.json and drift.html.
DETECT_DRIFT = Agent(
    "detect-drift", loaded("drift", "detect_drift"), title="Drift against a baseline", needs_baseline=True
)
# What to clean, and a script that does it: cleaning.json, cleaning.html and clean.py.
SUGGEST_CLEANING = Agent("suggest-cleaning", loaded("cleaning", "suggest_cleaning"), title="Suggestions for cleaning")

AGENTS = (UNIFIED_PROFILER, SCORE_RISK, DETECT_DRIFT, SUGGEST_CLEANING)
