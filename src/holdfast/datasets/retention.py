"""Generations are forgotten when their time has come, by every process that serves; there is no leader to lose."""

import asyncio
import logging
import random
from datetime import timedelta

from holdfast.datasets import Datasets

log = logging.getLogger("holdfast.datasets")

forget_every = timedelta(minutes=10)


async def forget_on(datasets: Datasets, every: timedelta = forget_every) -> None:
    """Forget until cancelled. A database that is away is asked again; nothing else stops it."""
    while True:
        try:
            more = await datasets.forget() > 0
        except Exception as error:
            log.warning("forgetting failed", extra={"error": str(error)})
            more = False
        await asyncio.sleep(0 if more else every.total_seconds() * random.uniform(0.7, 1.3))  # noqa: S311
