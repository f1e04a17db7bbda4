"""Where faults come from: several groups at once, each with its kinds of faults and the pauses between them.

The seed decides which kind of a group comes next and after what pause. Each fault is one line of history: its kind,
when it began and ended, and what it struck.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.crash.history import History

FaultGroup = tuple[tuple[float, float], tuple[str, ...]]
"""The shortest and the longest pause, and the kinds of faults."""


class Faults:
    """Strikes with every group; with that of the name `x` by the method `_x`, which returns whether it struck."""

    groups: Mapping[str, FaultGroup]

    def __init__(self, history: History, seed: int) -> None:
        self.history = history
        self.seed = seed
        self._resting = asyncio.Event()
        self._under_way: set[asyncio.Task[bool]] = set()

    async def strike(self, seconds: float) -> None:
        """Strike for so long; then let what is under way pass."""
        groups = [asyncio.create_task(self._strike_group(name)) for name in self.groups]
        await asyncio.wait(groups, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        self._resting.set()
        await asyncio.gather(*groups)
        await asyncio.gather(*self._under_way)

    async def _strike_group(self, name: str) -> None:
        pauses, kinds = self.groups[name]
        strike: Callable[[str, random.Random], Awaitable[bool]] = getattr(self, f"_{name}")
        rng = random.Random(f"{self.seed} {name}")  # noqa: S311
        bag: list[str] = []
        while not self._resting.is_set():
            bag = bag or rng.sample(kinds, len(kinds))
            kind, pause = bag.pop(), rng.uniform(*pauses)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._resting.wait(), pause)
                return
            for _ in range(100):
                if self._resting.is_set() or await strike(kind, rng):
                    break
                await asyncio.sleep(0.1)  # there is nothing to be struck

    def _say(self, kind: str, began: float, **more: Any) -> bool:
        self.history.say("fault", kind, began=began, ended=time.time(), **more)
        return True
