"""The agents that come with Holdfast: what each reads, what it writes, what it costs.

Polars is imported when an agent runs, not before, so that a server that only takes orders does not need it.
"""

from holdfast.lifecycles.analysis.agents.job import Agent, Job


def run_unified_profiler(job: Job) -> None:
    """What is in the table, column by column: profile.json and report.html."""
    from holdfast.lifecycles.analysis.agents.profiler import profile

    profile(job)


UNIFIED_PROFILER = Agent("unified-profiler", run_unified_profiler, title="Profile of the data", credits=1)


def run_score_risk(job: Job) -> None:
    """How risky the table is to use or to share, from 0 to 100: risk.json and risk.html."""
    from holdfast.lifecycles.analysis.agents.risk import score_risk

    score_risk(job)


def run_detect_drift(job: Job) -> None:
    """What changed against the baseline: drift.json and drift.html."""
    from holdfast.lifecycles.analysis.agents.drift import detect_drift

    detect_drift(job)


def run_suggest_cleaning(job: Job) -> None:
    """What to clean, and a script that does it: cleaning.json, cleaning.html and clean.py."""
    from holdfast.lifecycles.analysis.agents.cleaning import suggest_cleaning

    suggest_cleaning(job)


SCORE_RISK = Agent("score-risk", run_score_risk, title="Risk of the data", credits=1)
DETECT_DRIFT = Agent("detect-drift", run_detect_drift, title="Drift against a baseline", credits=1, needs_baseline=True)
SUGGEST_CLEANING = Agent("suggest-cleaning", run_suggest_cleaning, title="Suggestions for cleaning", credits=1)

AGENTS = (UNIFIED_PROFILER, SCORE_RISK, DETECT_DRIFT, SUGGEST_CLEANING)
