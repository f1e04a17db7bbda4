"""Pauses: with jitter, so that many processes do not act in step, and with backoff, longer after each failure.

The numbers come from the system, not from the generator that a whole process shares: a handler that seeds that one
would make all workers pause alike, and each pause would take a number out of its sequence.
"""

from collections.abc import Iterator
from random import SystemRandom

SYSTEM = SystemRandom()


def jitter(seconds: float, spread: float = 0.3) -> float:
    """About as many seconds: up to that share of them more or less."""
    return seconds * SYSTEM.uniform(1 - spread, 1 + spread)


def backoff(first: float, longest: float, *, factor: float = 2.0, spread: float = 0.3) -> Iterator[float]:
    """Pauses in seconds, each longer than the one before. After a success, begin a new one."""
    pause = min(first, longest)
    while True:
        yield jitter(pause, spread)
        pause = min(pause * factor, longest)


def pause_after(first: float, failures: int, longest: float) -> float:
    """The pause after so many failures, without jitter: for those that are counted elsewhere."""
    return float(min(first * 2 ** min(failures, 30), longest))
