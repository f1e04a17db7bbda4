"""How a worker is configured, as the supervisor passes it to its runners."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from holdfast.errors import RequestInvalid

lease_seconds = 4.0
"""A task is taken over this long after the last sign of life of its machine. Heartbeats come three times as often."""


@dataclass(frozen=True)
class WorkerConfig:
    """One worker: where its tasks are defined, what it serves, and how much at once."""

    app: str
    queues: Sequence[str] = ()
    slots: int = 20
    batch: int = 500
    """Results in one call at most. Lists of 200 drained 0.94 times as fast, of 50 0.65 times, and lists of 1,000, which
    leave nothing to do beside them, 0.68 times (1,000 slots; `python -m bench sizes`)."""
    calls: int = 2
    """At once. One drained 0.58 times as fast as two, three 1.05 times, four 0.99 times (`python -m bench sizes`)."""
    lease_seconds: float = lease_seconds
    poll_seconds: float = 1.0
    grace_seconds: float = 10.0
    cancel_seconds: float = 5.0
    name: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")

    def __post_init__(self) -> None:
        for number in ("slots", "batch", "calls", "lease_seconds", "poll_seconds", "cancel_seconds"):
            if getattr(self, number) <= 0:
                raise RequestInvalid(f"{number} is {getattr(self, number)}.", fix="Give more than 0.")
        if self.lease_seconds < 1:
            raise RequestInvalid("A lease of less than a second would be lost by a hiccup.", fix="Give 1 or more.")

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self.lease_seconds)
