"""Files are deleted when their time has come, by every process that serves; there is no leader to lose.

What is due is a row that one process takes for five minutes. A store that refuses holds up nothing but that row, which
comes back later; whatever was deleted twice was deleted once.
"""

import asyncio
import logging
import random
from datetime import timedelta

from holdfast.errors import HoldfastError
from holdfast.lifecycles.analysis.analyses import Analyses
from holdfast.objects import Objects

log = logging.getLogger("holdfast.cleaner")

clean_every = timedelta(seconds=10)


async def clean(analyses: Analyses, objects: Objects) -> int:
    """Delete what is due; answers how many folders it tried."""
    taken = await analyses.take_cleanups()
    for one in taken:
        try:
            number = await objects.delete(one.prefix)
        except Exception as error:  # whatever it was: this one comes back, and the others are next
            said = error.detail if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
            log.warning("files not deleted", extra={"task_id": str(one.task_id), "error": said})
            await analyses.end_cleanup(one, 0, said)
        else:
            await analyses.end_cleanup(one, number)
    return len(taken)


async def clean_on(analyses: Analyses, objects: Objects, every: timedelta = clean_every) -> None:
    """Delete until cancelled. A database that is away is asked again; nothing else stops it."""
    while True:
        try:
            more = await clean(analyses, objects) > 0
        except Exception as error:
            log.warning("cleaning failed", extra={"error": str(error)})
            more = False
        await asyncio.sleep(0 if more else every.total_seconds() * random.uniform(0.7, 1.3))  # noqa: S311
