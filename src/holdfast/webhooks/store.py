"""Webhooks: endpoints that hear how tasks end, signed as Standard Webhooks says. The functions of sql/, as Python.

An endpoint stands somewhere in the engine's feed. What it is to hear becomes a delivery, in the same transaction in
which it moves on; a delivery is sent until the endpoint takes it, always under the same id. So an endpoint hears of
everything at least once, and tells by the id what it has heard before.
"""

import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls, require_one
from holdfast.errors import WebhookUnknown

Kind = Literal["completed", "partial", "failed", "cancelled", "moved"]
State = Literal["pending", "done", "failed"]


@dataclass(frozen=True)
class Webhook:
    """An endpoint. `disabled_why`, if it gets nothing more; `missed_at`, when moves were gone before they were sent."""

    id: UUID
    name: str
    url: str
    kinds: Sequence[str]
    lifecycle: str | None
    task_name: str | None
    owner: str | None
    paused_at: datetime | None
    disabled_at: datetime | None
    disabled_why: str | None
    missed_at: datetime | None
    created_at: datetime
    created_by: str
    waiting: int
    failed: int


@dataclass(frozen=True)
class Delivery:
    """One event for one endpoint, and what became of it."""

    id: UUID
    webhook_id: UUID
    task_id: UUID
    version: int
    kind: str
    state: State
    tries: int
    due_at: datetime
    status: int | None
    error: str | None
    made_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True)
class Taken:
    """A delivery that this process sends."""

    id: UUID
    taken: UUID
    webhook_id: UUID
    url: str
    secret: str = field(repr=False)
    body: str
    tries: int


@dataclass(frozen=True)
class Sent:
    """How a try went: the status of the answer, or what was wrong; and the wait that was asked for."""

    status: int | None
    error: str | None = None
    wait: timedelta | None = None


class Webhooks(Calls):
    """The webhooks of an installation."""

    async def add(
        self,
        url: str,
        name: str,
        *,
        kinds: Sequence[str] | None = None,
        lifecycle: str | None = None,
        task_name: str | None = None,
        owner: str | None = None,
        by: str = "",
    ) -> tuple[UUID, str]:
        """A webhook that hears of what happens from now on: its id, and its secret, this once.

        Raises RequestInvalid or LifecycleUnknown.
        """
        secret = new_secret()
        filters = (encode.text(lifecycle), encode.text(task_name), encode.text(owner), encode.text(by))
        given = (encode.text(url), secret, encode.text(name), None if kinds is None else list(kinds), *filters)
        return await self._call("add_webhook", *given, repeatable=False), secret

    async def all(self) -> list[Webhook]:
        """The webhooks, by name."""
        return await self._records(Webhook, "webhooks")

    async def read(self, webhook: UUID) -> Webhook:
        """One of them. Raises WebhookUnknown."""
        missing = WebhookUnknown(f"No webhook has the id {webhook}.", fix="GET /api/v1/webhooks lists them.")
        return require_one(await self._records(Webhook, "webhooks", webhook), missing)

    async def pause(self, webhook: UUID) -> None:
        """Send nothing; what happens meanwhile is kept. Raises WebhookUnknown."""
        await self._call("pause_webhook", webhook)

    async def resume(self, webhook: UUID) -> None:
        """Send again; one that was disabled hears of what happens from now on. Raises WebhookUnknown."""
        await self._call("resume_webhook", webhook)

    async def remove(self, webhook: UUID) -> None:
        """Remove it, and all that was to be sent. Raises WebhookUnknown."""
        await self._call("remove_webhook", webhook, repeatable=False)

    async def test(self, webhook: UUID) -> UUID:
        """Send something that says nothing; the id of the delivery. Raises WebhookUnknown or RequestInvalid."""
        made: UUID = await self._call("test_webhook", webhook, repeatable=False)
        return made

    async def deliveries(
        self, webhook: UUID, *, state: State | None = None, before: UUID | None = None, limit: int = 50
    ) -> list[Delivery]:
        """What was sent and what is to be, the newest first. Raises WebhookUnknown."""
        return await self._records(Delivery, "deliveries", webhook, state, before, limit)

    async def redeliver(self, webhook: UUID, delivery: UUID) -> None:
        """Send a delivery again, whatever became of it. Raises WebhookUnknown."""
        await self._call("redeliver", webhook, delivery)

    # For delivery

    async def pump(self, limit: int = 500) -> int:
        """Make deliveries of what has happened, for every webhook; how many."""
        made = 0
        for row in await self._table("pumped_webhooks"):
            more = True
            while more:
                pumped = (await self._table("pump_webhook", row[0], limit))[0]
                made, more = made + pumped["made"], pumped["more"]
        return made

    async def take(self, n: int, *, each: int) -> list[Taken]:
        """Deliveries to send now, so many of one endpoint in flight at most. This process has a minute for them."""
        return await self._records(Taken, "take_deliveries", n, each, repeatable=False)

    async def end(self, delivery: Taken, sent: Sent) -> str:
        """Say how it went: done, pending (it is tried again), failed, or lost (somebody else sends it by now)."""
        problem = None if sent.error is None else encode.readable(sent.error)
        return str(await self._call("end_delivery", delivery.id, delivery.taken, sent.status, problem, sent.wait))

    async def forget(self) -> int:
        """Forget deliveries that were made a month ago; how many."""
        return int(await self._call("forget_deliveries"))


def new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
