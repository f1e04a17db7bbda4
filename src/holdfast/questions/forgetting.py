"""Questions of tasks that ended a month ago are forgotten, by every process that serves."""

import asyncio
import logging
import random
from datetime import timedelta

from holdfast.questions import Questions

log = logging.getLogger("holdfast.questions")

forget_every = timedelta(hours=1)


async def forget_on(questions: Questions, every: timedelta = forget_every) -> None:
    """Forget until cancelled. A database that is away is asked again; nothing else stops it."""
    while True:
        more = False
        try:
            more = await questions.forget() > 0
        except Exception as error:
            log.warning("questions not forgotten", extra={"error": str(error)})
        await asyncio.sleep(0 if more else every.total_seconds() * random.uniform(0.7, 1.3))  # noqa: S311
