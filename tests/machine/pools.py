"""What callers may say: small pools, so that histories meet themselves again.

A pool can be drawn from in two ways: by a seeded random generator, and by Hypothesis.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any, Generic, TypeVar

from hypothesis import strategies as st

from holdfast.engine.task import Cancelled, Done, Failed, Later, Moved, Outcome, Partial, Policy, Submission

T = TypeVar("T")


@dataclass(frozen=True)
class Pool(Generic[T]):
    """Something to choose from."""

    draw: Callable[[Random], T]
    strategy: st.SearchStrategy[T]


def among(*values: T) -> Pool[T]:
    """One of these; what is named twice is chosen twice as often."""
    return Pool(lambda random: random.choice(values), st.sampled_from(values))


def whole(least: int, most: int) -> Pool[int]:
    return Pool(lambda random: random.randint(least, most), st.integers(least, most))


def several(pool: Pool[T], least: int, most: int) -> Pool[list[T]]:
    return Pool(
        lambda random: [pool.draw(random) for _ in range(random.randint(least, most))],
        st.lists(pool.strategy, min_size=least, max_size=most),
    )


def some_of(values: Sequence[T]) -> Pool[list[T]]:
    """At least one of these, none twice; half of the time all, in any order."""
    return Pool(
        lambda random: random.sample(values, random.choice([random.randint(1, len(values)), len(values)])),
        st.one_of(
            st.lists(st.sampled_from(values), min_size=1, max_size=len(values), unique=True), st.permutations(values)
        ),
    )


def either(*pools: Pool[Any]) -> Pool[Any]:
    return Pool(lambda random: random.choice(pools).draw(random), st.one_of(*(pool.strategy for pool in pools)))


def made(make: Callable[..., T], *given: Pool[Any], **named: Pool[Any]) -> Pool[T]:
    return Pool(
        lambda random: make(
            *[pool.draw(random) for pool in given], **{name: pool.draw(random) for name, pool in named.items()}
        ),
        st.builds(make, *(pool.strategy for pool in given), **{name: pool.strategy for name, pool in named.items()}),
    )


ALL_QUEUES = ["default", "polled", "analysis", "pipeline", "ingest_item"]
NAMES = ["a", "b"]
LIMIT_KEYS = {"one": 1, "two": 2}

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
MOMENT = timedelta.resolution

which = whole(0, 40)
picks = several(which, 0, 3)
rarely = among(None, None, None, None, 1, 2, 5)
flags = among(False, True)
mostly = among(True, True, True, False)
few = whole(1, 4)
sweeps = among(None, 500, 500, 1)
twists = among(0, 0, 0, 0, 0, 1, -1, 2)
"""How a lease is falsified: not at all, by its attempt, by its token."""

policies: Pool[Policy] = among("cancel", "skip", "ignore")
several_policies = several(policies, 1, 3)
keys = among("k1", "k2", "k3")
run_keys = among("r1", "r2")
child_keys = among(None, "c1", "c2")
payloads = whole(0, 1)
queue = among(*ALL_QUEUES)
queues = some_of(ALL_QUEUES)
names: Pool[list[str] | None] = among(None, ["a"], ["b"], ["a", "b"])
limit_keys = among(*sorted(LIMIT_KEYS))
limits = whole(1, 3)
amounts = several(among(0.5, 1.0, 2.0, 3.0), 1, 4)
delays = among(None, None, None, SECOND, MINUTE)
leases = among(5 * SECOND, 30 * SECOND, 10 * MINUTE, 20 * HOUR)
whiles = among(
    SECOND / 2, 2 * SECOND, 6 * SECOND, 31 * SECOND, 5 * MINUTE, 16 * MINUTE, 61 * MINUTE, 121 * MINUTE, 27 * HOUR
)
long_whiles = among(11 * MINUTE, 31 * MINUTE, 121 * MINUTE, 27 * HOUR)
brinks = among(-MOMENT, timedelta(), MOMENT)
"""Just before, exactly at, and just after."""
verbs = among(None, None, None, "upload_urls", "process", "files_missing", "cancel", "limit", "claim", "x")
"""None is the one that leads on."""
steps = among(None, "s1", "s2", "s3")
few_steps = among(None, "s1", "s1", "s2")
states = among("next", None, "IN_PROGRESS", "FETCHED", "INDEXED", "Completed", "FAILED", "NOWHERE")

plain: dict[str, Pool[Any]] = {
    "name": among(*NAMES),
    "priority": among(0, 0, 5, 9),
    "delay": delays,
    "max_attempts": among(None, 1, 2, 3, 4),
    "limit_key": among(None, None, "one", "two"),
}
dispatch_tasks = made(Submission, lifecycle=among("dispatch"), **plain)
limited_tasks = made(
    Submission, lifecycle=among("polled", "pipeline"), time_limit=among(None, 10 * MINUTE), **plain
)  # fmt: skip
other_tasks = either(limited_tasks, made(Submission, lifecycle=among("dispatch", "analysis"), **plain))
beginnings: Pool[list[Submission]] = several(other_tasks, 1, 3)
items = made(Submission, lifecycle=among("ingest_item", "ingest_item", "dispatch"), **plain)
runs = several(items, 1, 3)

results = among(None, {"ok": True})
categories = among(None, "RateLimited", "Transient", "Transient", "Transient", "SchemaInvalid", "Fatal")
failures = made(Failed, categories, among("no"), step=steps, retry_after=delays)
outcomes: Pool[Outcome] = either(
    made(Done, results),
    made(Partial, results),
    made(Moved, among("IN_PROGRESS", "FETCHED", "CONTENT_EXTRACTED", "NOWHERE"), results, delay=delays),
    made(Later, delay=delays, kind=among(None, "provider_poll", "rate_budget")),
    failures,
    failures,
    made(Cancelled, among(None, "told to")),
)
several_outcomes = several(outcomes, 3, 3)
