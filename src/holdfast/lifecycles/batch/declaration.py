"""Batches sent to outside providers: submitted, polled until every job has ended, merged.

A batch that ends while a provider may be at work for it leaves a task behind that stops it.
"""

from datetime import timedelta

from holdfast.engine.lifecycle.model import Backoff, Display, Lifecycle, after, final, work

BATCH = Lifecycle(
    "batch",
    start="PENDING",
    cancel="CANCELLED",
    fail="FAILED",
    effects="batch_effects",
    # It is claimed hundreds of times: not each loss is its own fault, and what a provider has done is not thrown away
    # because our storage is away.
    crash_budget=10,
    max_attempts=20,
    backoff=Backoff(timedelta(seconds=5), timedelta(minutes=15)),
    states=[
        work(
            "PENDING", to=["IN_PROGRESS"],
            display=Display("Pending", "blue", "clock", "Waiting to be sent to the provider"),
        ),
        work(
            "IN_PROGRESS", done="COMPLETED", partial="PARTIAL_COMPLETE",
            limit=after(hours=26, wake=True, per_task=True),
            display=Display("In progress", "indigo", "refresh", "The provider is working on it"),
        ),
        final("COMPLETED", "done", progress=100, display=Display("Completed", "green", "check", "All inputs are done")),
        final(
            "PARTIAL_COMPLETE", "partial", progress=100,
            display=Display("Partly complete", "yellow", "check", "Some inputs failed"),
        ),
        final("FAILED", "failed", display=Display("Failed", "red", "x", "No input could be done")),
        final("CANCELLED", "cancelled", display=Display("Cancelled", "gray", "ban", "Cancelled")),
    ],
)  # fmt: skip

BATCH_STOP = Lifecycle(
    "batch_stop",
    start="STOPPING",
    cancel="CANCELLED",
    fail="LEFT_RUNNING",
    queue="batch",
    effects="batch_effects",
    max_attempts=20,
    backoff=Backoff(timedelta(seconds=5), timedelta(minutes=30)),
    states=[
        work("STOPPING", done="STOPPED", display=Display("Stopping", "orange", "ban", "The provider is asked to stop")),
        final("STOPPED", "done", progress=100, display=Display("Stopped", "green", "check", "Nothing runs any more")),
        final("LEFT_RUNNING", "failed", display=Display("Left running", "red", "x", "It could not be stopped")),
        final("CANCELLED", "cancelled", display=Display("Cancelled", "gray", "ban", "It is not stopped any more")),
    ],
)  # fmt: skip
