"""Leased dispatch: a task is claimed, run under a lease, and completed exactly once."""

from holdfast.kernel.lifecycle import Display, Lifecycle, blocked, clock, final, work

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
