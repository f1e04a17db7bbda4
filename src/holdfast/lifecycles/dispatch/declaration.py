"""Leased dispatch: a task is claimed, run under a lease, and completed exactly once. A graph gathers such tasks."""

from holdfast.engine.lifecycle.model import Display, Lifecycle, blocked, clock, final, gather, work

DISPATCH = Lifecycle(
    "dispatch",
    start="Queued",
    blocked="Blocked",
    cancel="Canceled",
    queue="default",
    states=[
        blocked("Blocked", unblock="Queued", display=Display("Blocked", "gray", "link", "Waiting for other tasks")),
        work("Queued", claim="Running", display=Display("Queued", "blue", "clock", "Waiting for a worker")),
        work(
            "Running", done="Completed", retry="Failed", fail="Dead",
            display=Display("Running", "indigo", "play", "A worker is on it"),
        ),
        clock("Failed", due="Queued", display=Display("Failed", "orange", "rotate", "Will be tried again")),
        final("Completed", "done", progress=100, display=Display("Completed", "green", "check", "Done")),
        final("Dead", "failed", display=Display("Dead", "red", "x", "Gave up; see the inbox")),
        final("Canceled", "cancelled", display=Display("Canceled", "gray", "ban", "Canceled")),
    ],
)  # fmt: skip

DAG = Lifecycle(
    "dag",
    start="Running",
    cancel="Canceled",
    queue="default",  # of no meaning: no worker ever holds a run
    effects="dag_effects",
    states=[
        gather(
            "Running", done="Completed", partial="Partial", fail="Failed",
            display=Display("Running", "indigo", "play", "Its nodes are being worked on"),
        ),
        final("Completed", "done", progress=100, display=Display("Completed", "green", "check", "All of it is done")),
        final("Partial", "partial", progress=100, display=Display("Partial", "yellow", "check", "Some nodes failed")),
        final("Failed", "failed", display=Display("Failed", "red", "x", "No node completed")),
        final("Canceled", "cancelled", display=Display("Canceled", "gray", "ban", "Canceled")),
    ],
)  # fmt: skip
