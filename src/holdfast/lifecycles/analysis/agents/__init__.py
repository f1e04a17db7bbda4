"""The agents that come with Holdfast: what each reads, what it writes, what it costs.

Polars is imported when an agent runs, not before, so that a server that only takes orders does not need it.
"""

from holdfast.lifecycles.analysis.agents.job import Agent, Job


def run_unified_profiler(job: Job) -> None:
    """What is in the table, column by column: profile.json and report.html."""
    from holdfast.lifecycles.analysis.agents.profiler import profile

    profile(job)


UNIFIED_PROFILER = Agent("unified-profiler", run_unified_profiler, title="Profile of the data", credits=1)

AGENTS = (UNIFIED_PROFILER,)
