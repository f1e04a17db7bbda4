"""The clock of schedules: every server and every worker starts what is due. There is no leader to lose.

All may look at the same moment: a due time is run once, by the first that has the lock.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta

from holdfast.backoff import jitter
from holdfast.engine.store.calls import Calls
from holdfast.errors import DatabaseError, HoldfastError
from holdfast.schedules.store import Due, Schedules

log = logging.getLogger("holdfast.schedules")

tick_every = timedelta(seconds=1)
rest_at_most = timedelta(seconds=5)


async def tick_on(store: Calls, declared: Sequence[str] = ()) -> None:
    """Tick until cancelled, and say that those that are declared here still are. A database away is asked again."""
    schedules = Schedules.over(store)
    quiet = True
    while True:
        rest = tick_every
        try:
            if declared:
                await schedules.see(declared)
            await tick(schedules)
            until = await schedules.rest()
            rest = rest_at_most if until is None else min(max(until, timedelta(0)), rest_at_most)
            quiet = True
        except Exception as error:
            if quiet:
                log.warning("schedules could not be looked at", extra={"error": str(error)})
            quiet = False
        # With jitter: all who sleep until the same due time would otherwise wake in step.
        await asyncio.sleep(rest.total_seconds() + jitter(tick_every.total_seconds() / 6, 0.7))


async def tick(schedules: Schedules) -> int:
    """Start what is due now; how many runs that made. What one schedule refuses does not keep the others."""
    started = 0
    passed: set[str] = set()
    while due := [one for one in await schedules.due() if one.name not in passed]:
        for one in due:
            made = await fire(schedules, one)
            if not made:
                passed.add(one.name)
            started += made
    return started


async def fire(schedules: Schedules, due: Due) -> int:
    """Start what is owed of one; how many runs that made."""
    try:
        fired = await schedules.fire(due)
    except DatabaseError:
        raise
    except HoldfastError as error:  # written by another release, or with another set of time zones
        log.error("a schedule cannot be read", extra={"schedule": due.name, "error": str(error)})
        return 0
    if fired.status == "refused":
        log.error("a schedule's target is refused", extra={"schedule": due.name, "error": fired.problem})
    elif fired.started:
        log.info("a schedule has started", extra={"schedule": due.name, "tasks": fired.started})
    return fired.started
