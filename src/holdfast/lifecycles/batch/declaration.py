"""Batches sent to outside providers: submitted, polled until every job has ended, merged."""

from holdfast.kernel.lifecycle import Display, Lifecycle, after, final, work

BATCH = Lifecycle(
    "batch",
    start="PENDING",
    cancel="CANCELLED",
    fail="FAILED",
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
