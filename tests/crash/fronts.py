"""Where faults come from: several fronts at once, each with its kinds of faults and the pauses between them.

The seed decides which kind comes next on each front and after what pause. Each fault is one line of history: its kind,
when it began and ended, and what it struck.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.crash.history import History

ClaimCursor = tuple[tuple[float, float], tuple[str, ...]]
"""The shortest and the longest pause, and the kinds of faults."""


class Fronts:
    """Strikes on every front; on that of the name `x` by the method `_x`, which says whether anybody was struck."""

    fronts: Mapping[str, ClaimCursor]

    def __init__(self, history: History, seed: int) -> None:
        self.history = history
        self.seed = seed
        self._resting = asyncio.Event()
        self._under_way: set[asyncio.Task[bool]] = set()

    async def rage(self, seconds: float) -> None:
        """Strike for so long; then let what is under way pass."""
        fronts = [asyncio.create_task(self._front(name)) for name in self.fronts]
        await asyncio.wait(fronts, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        self._resting.set()
        await asyncio.gather(*fronts)
        await asyncio.gather(*self._under_way)

    async def _front(self, name: str) -> None:
        pauses, kinds = self.fronts[name]
        strike: Callable[[str, random.Random], Awaitable[bool]] = getattr(self, f"_{name}")
        chance = random.Random(f"{self.seed} {name}")  # noqa: S311
        bag: list[str] = []
        while not self._resting.is_set():
            bag = bag or chance.sample(kinds, len(kinds))
            kind, pause = bag.pop(), chance.uniform(*pauses)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._resting.wait(), pause)
                return
            for _ in range(100):
                if self._resting.is_set() or await strike(kind, chance):
                    break
                await asyncio.sleep(0.1)  # nobody is there to be struck

    def _say(self, kind: str, began: float, **more: Any) -> bool:
        self.history.say("fault", kind, began=began, ended=time.time(), **more)
        return True
