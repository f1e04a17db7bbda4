"""The clock loop: what time alone decides, done by every process that is there. There is no leader to lose.

Each sweeps on its own, a little out of step with the others; what one has locked the others skip.
"""

import asyncio
import logging
from datetime import timedelta

from holdfast.backoff import jitter
from holdfast.engine.store.commands import Store

log = logging.getLogger("holdfast.sweeper")

sweep_every = timedelta(seconds=0.5)
partitions_every = timedelta(hours=1)
rows_per_sweep = 500


async def sweep_on(store: Store, every: timedelta = sweep_every) -> None:
    """Sweep until cancelled. A database that is away is asked again; nothing else stops it."""
    loop = asyncio.get_running_loop()
    partitions_due = loop.time()
    quiet = True
    while True:
        try:
            if loop.time() >= partitions_due:
                await store.make_partitions()
                partitions_due = loop.time() + partitions_every.total_seconds()
            swept = await store.sweep(rows_per_sweep)
            if swept.reaped:
                log.warning("took leases back from lost workers", extra={"tasks": swept.reaped})
            if swept.expired:
                log.info("ended tasks whose time limit had passed", extra={"tasks": swept.expired})
            more = max(swept.reaped, swept.expired, swept.due) >= rows_per_sweep
            quiet = True
        except Exception as error:
            if quiet:
                log.warning("sweep failed", extra={"error": str(error)})
            more, quiet = False, False
        # Jitter on every pause: after a database restart all processes would otherwise sweep in step.
        await asyncio.sleep(0 if more else jitter(every.total_seconds()))
