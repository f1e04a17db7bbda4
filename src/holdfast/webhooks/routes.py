"""Webhooks over HTTP, for operators: endpoints, and what was sent to them. A secret is shown once."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from pydantic import AfterValidator, BaseModel, Field

from holdfast.engine.store.commands import Store
from holdfast.http.access import Operator, make_router
from holdfast.http.fields import Body, Name, refuse_nul
from holdfast.http.shapes import Items, Limit, Page, page
from holdfast.remote.fetch.guard import Guard
from holdfast.settings import read_settings
from holdfast.webhooks.store import Delivery, Kind, State, Webhook, Webhooks


class NewWebhook(Body):
    """Where to send what. Without `on`: how tasks end. A filter that is left out lets everything through."""

    url: Annotated[
        str, Field(min_length=1, max_length=2000, pattern="^[Hh][Tt][Tt][Pp][Ss]?://"), AfterValidator(refuse_nul)
    ]
    name: Name | None = None
    on: Annotated[list[Kind], Field(min_length=1, max_length=5)] | None = None
    lifecycle: Name | None = None
    task_name: Name | None = None
    owner: Name | None = None


class Made(BaseModel):
    """The webhook's id, and the secret to verify what it sends, which is not shown again."""

    id: UUID
    secret: str


class Queued(BaseModel):
    """The delivery that is on its way."""

    delivery_id: UUID


class Removed(BaseModel):
    id: UUID


def routes(store: Store) -> APIRouter:
    router = make_router("/api/v1/webhooks", "webhooks", "operator")
    webhooks = Webhooks.over(store)

    @router.post("", status_code=201)
    async def add(asked: NewWebhook, caller: Operator) -> Made:
        """Tell an endpoint what happens from now on."""
        from holdfast.webhooks.sending import check_url  # httpx2 takes its time to import

        await check_url(asked.url, Guard(read_settings().fetch_networks))
        made, secret = await webhooks.add(
            asked.url, asked.name or asked.url[:200], kinds=asked.on, lifecycle=asked.lifecycle,
            task_name=asked.task_name, owner=asked.owner, by=caller.name,
        )  # fmt: skip
        return Made(id=made, secret=secret)

    @router.get("")
    async def list_webhooks() -> Items[Webhook]:
        """The webhooks by name, with what waits and what has failed, each counted up to a thousand."""
        return Items(items=await webhooks.all())

    @router.get("/{webhook_id}")
    async def read(webhook_id: UUID) -> Webhook:
        """One of them."""
        return await webhooks.read(webhook_id)

    @router.delete("/{webhook_id}")
    async def remove(webhook_id: UUID) -> Removed:
        """Remove it, and all that was to be sent."""
        await webhooks.remove(webhook_id)
        return Removed(id=webhook_id)

    @router.post("/{webhook_id}/pause")
    async def pause(webhook_id: UUID) -> Webhook:
        """Send nothing for now; what happens meanwhile is kept."""
        await webhooks.pause(webhook_id)
        return await webhooks.read(webhook_id)

    @router.post("/{webhook_id}/resume")
    async def resume(webhook_id: UUID) -> Webhook:
        """Send again. One that was disabled hears of what happens from now on."""
        await webhooks.resume(webhook_id)
        return await webhooks.read(webhook_id)

    @router.post("/{webhook_id}/test", status_code=202)
    async def test(webhook_id: UUID) -> Queued:
        """Send something that says nothing, to see whether it arrives."""
        return Queued(delivery_id=await webhooks.test(webhook_id))

    @router.get("/{webhook_id}/deliveries")
    async def deliveries(
        webhook_id: UUID, state: State | None = None, cursor: UUID | None = None, limit: Limit = 50
    ) -> Page[Delivery, UUID]:
        """What was sent and what is to be, the newest first."""
        found = await webhooks.deliveries(webhook_id, state=state, before=cursor, limit=limit)
        return page(found, limit, lambda last: last.id)

    @router.post("/{webhook_id}/deliveries/{delivery_id}/redeliver", status_code=202)
    async def redeliver(webhook_id: UUID, delivery_id: UUID) -> Queued:
        """Send one again, whatever became of it, under the same id."""
        await webhooks.redeliver(webhook_id, delivery_id)
        return Queued(delivery_id=delivery_id)

    return router
