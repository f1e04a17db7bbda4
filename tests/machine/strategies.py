"""What callers may say: small pools, so that histories meet themselves again."""

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from holdfast.kernel.task import Cancelled, Done, Failed, Later, Moved, Partial, Policy, Submission

ALL_QUEUES = ["default", "batch", "analysis", "pipeline", "ingest_item"]
NAMES = ["a", "b"]
LIMIT_KEYS = {"one": 1, "two": 2}

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

which = st.integers(0, 40)
picks = st.lists(which, min_size=0, max_size=3)
rarely = st.sampled_from([None, None, None, None, 1, 2, 5])
flags = st.booleans()
mostly = st.sampled_from([True, True, True, False])
few = st.integers(1, 4)
sweeps = st.sampled_from([None, 500, 500, 1])
twists = st.sampled_from([0, 0, 0, 0, 0, 1, -1, 2])
"""How a lease is falsified: not at all, by its attempt, by its token."""

policies: st.SearchStrategy[Policy] = st.sampled_from(["cancel", "skip", "ignore"])
several_policies = st.lists(policies, min_size=1, max_size=3)
keys = st.sampled_from(["k1", "k2", "k3"])
run_keys = st.sampled_from(["r1", "r2"])
child_keys = st.sampled_from([None, "c1", "c2"])
payloads = st.integers(0, 1)
queue = st.sampled_from(ALL_QUEUES)
queues = st.one_of(st.lists(queue, min_size=1, max_size=5, unique=True), st.permutations(ALL_QUEUES))
names = st.sampled_from([None, ["a"], ["b"], ["a", "b"]])
limit_keys = st.sampled_from(sorted(LIMIT_KEYS))
limits = st.integers(1, 3)
amounts = st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=1, max_size=4)
delays = st.sampled_from([None, None, None, SECOND, MINUTE])
leases = st.sampled_from([5 * SECOND, 30 * SECOND, 10 * MINUTE, 20 * HOUR])
whiles = st.sampled_from(
    [SECOND / 2, 2 * SECOND, 6 * SECOND, 31 * SECOND, 5 * MINUTE, 16 * MINUTE, 61 * MINUTE, 121 * MINUTE, 27 * HOUR]
)
long_whiles = st.sampled_from([11 * MINUTE, 31 * MINUTE, 121 * MINUTE, 27 * HOUR])
verbs = st.sampled_from([None, None, None, "upload_urls", "process", "files_missing", "cancel", "limit", "claim", "x"])
"""None is the one that leads on."""
steps = st.sampled_from([None, "s1", "s2", "s3"])
few_steps = st.sampled_from([None, "s1", "s1", "s2"])
states = st.sampled_from(["next", None, "IN_PROGRESS", "FETCHED", "INDEXED", "Completed", "FAILED", "NOWHERE"])

plain: dict[str, Any] = {
    "name": st.sampled_from(NAMES),
    "priority": st.sampled_from([0, 0, 5, 9]),
    "delay": delays,
    "max_attempts": st.sampled_from([None, 1, 2, 3, 4]),
    "limit_key": st.sampled_from([None, None, "one", "two"]),
}
dispatch_tasks = st.builds(Submission, lifecycle=st.just("dispatch"), **plain)
limited_tasks = st.builds(
    Submission,
    lifecycle=st.sampled_from(["batch", "pipeline"]),
    time_limit=st.sampled_from([None, 10 * MINUTE]),
    **plain,
)
other_tasks = limited_tasks | st.builds(Submission, lifecycle=st.sampled_from(["dispatch", "analysis"]), **plain)
beginnings = st.lists(other_tasks, min_size=1, max_size=3)
items = st.builds(Submission, lifecycle=st.sampled_from(["ingest_item", "ingest_item", "dispatch"]), **plain)
runs = st.lists(items, min_size=1, max_size=3)

forward = Done({"ok": True})
results = st.sampled_from([None, {"ok": True}])
categories = st.sampled_from([None, "RateLimited", "Transient", "Transient", "Transient", "SchemaInvalid", "Fatal"])
failures = st.builds(Failed, categories, st.just("no"), step=steps, retry_after=delays)
outcomes = st.one_of(
    st.builds(Done, results),
    st.builds(Partial, results),
    st.builds(
        Moved, st.sampled_from(["IN_PROGRESS", "FETCHED", "CONTENT_EXTRACTED", "NOWHERE"]), results, delay=delays
    ),
    st.builds(Later, delay=delays, kind=st.sampled_from([None, "provider_poll", "rate_budget"])),
    failures,
    failures,
    st.builds(Cancelled, st.sampled_from([None, "told to"])),
)
several_outcomes = st.lists(outcomes, min_size=3, max_size=3)
