"""Multi-stage pipelines: one job, its stages in order, resumed after the last one that finished."""

from holdfast.engine.lifecycle.model import Display, Lifecycle, after, final, work

ORPHANED = "Job timed out or was orphaned"

PIPELINE = Lifecycle(
    "pipeline",
    start="PENDING",
    cancel="CANCELLED",
    fail="FAILED",
    effects="pipeline_effects",
    states=[
        work(
            "PENDING", claim="RUNNING", limit=after(hours=2, to="FAILED", message=ORPHANED),
            display=Display("Pending", "blue", "clock", "Waiting for a worker"),
        ),
        work(
            "RUNNING", done="COMPLETED", partial="PARTIAL",
            limit=after(hours=2, to="FAILED", per_task=True, message=ORPHANED),
            progress=(0, 100), display=Display("Running", "indigo", "play", "Going through its stages"),
        ),
        final("COMPLETED", "done", progress=100, display=Display("Completed", "green", "check", "Every stage is done")),
        final("PARTIAL", "partial", display=Display("Partial", "yellow", "check", "Some stages failed")),
        final("FAILED", "failed", display=Display("Failed", "red", "x", "The job failed")),
        final("CANCELLED", "cancelled", display=Display("Cancelled", "gray", "ban", "Cancelled")),
    ],
)  # fmt: skip
