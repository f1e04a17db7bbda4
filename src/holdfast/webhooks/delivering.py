"""Every process that serves sends what is due; there is no leader to lose.

What has happened becomes deliveries, what is due is taken for a minute and sent, all at the same time. A process that
dies loses nothing: what it had taken is due again after that minute.
"""

import asyncio
import logging
from datetime import timedelta

from holdfast.backoff import jitter
from holdfast.remote.fetch.guard import Guard
from holdfast.webhooks.store import Taken, Webhooks

log = logging.getLogger("holdfast.webhooks")

look_every = timedelta(seconds=1)
in_flight_most = 200
in_flight_each = 8


class Deliverer:
    """What one process does for webhooks."""

    def __init__(self, webhooks: Webhooks, guard: Guard) -> None:
        self.webhooks = webhooks
        self.guard = guard
        self.in_flight: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Deliver until cancelled; what is in flight then is sent again, by another process.

        A database that is away is asked again; nothing else stops it.
        """
        quiet = True
        try:
            while True:
                try:
                    await self.send_due()
                    quiet = True
                except Exception as error:
                    if quiet:
                        log.warning("webhooks wait", extra={"error": str(error)})
                    quiet = False
                pause = jitter(look_every.total_seconds())
                if self.in_flight:  # one that has landed leaves room for the next
                    await asyncio.wait(self.in_flight, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.sleep(pause)
        finally:
            for task in self.in_flight:
                task.cancel()

    async def send_due(self) -> int:
        """Pump, and begin to send what is due; how many deliveries that is."""
        await self.webhooks.pump()
        free = in_flight_most - len(self.in_flight)
        taken = await self.webhooks.take(free, each=in_flight_each) if free else []
        for one in taken:
            task = asyncio.create_task(self.deliver(one))
            self.in_flight.add(task)
            task.add_done_callback(self.in_flight.discard)
        return len(taken)

    async def deliver(self, delivery: Taken) -> None:
        """Send it, and say how that went. If that cannot be recorded, it is sent again."""
        from holdfast.webhooks.sending import send  # httpx2 takes its time to import, and most have no webhooks

        about = {"delivery": str(delivery.id), "webhook": str(delivery.webhook_id), "tries": delivery.tries}
        try:
            sent = await send(delivery, self.guard)
            state = await self.webhooks.end(delivery, sent)
        except Exception as error:
            log.warning("a delivery broke", extra={**about, "error": str(error)})
            return
        if state == "failed":
            log.warning("a delivery has failed for good", extra={**about, "error": sent.error})
