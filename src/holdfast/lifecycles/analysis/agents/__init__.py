"""The agents that come with Holdfast: what each reads, what it writes, what it costs."""

from holdfast.lifecycles.analysis.agents.job import Agent, Job


def nothing(job: Job) -> None:
    raise NotImplementedError


AGENTS = (
    Agent("unified-profiler", nothing),
    Agent("score-risk", nothing),
    Agent("detect-drift", nothing, needs_baseline=True),
    Agent("suggest-cleaning", nothing),
)
