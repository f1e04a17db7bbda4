"""RPC of handlers whose worker speaks HTTP: each needs proof that the caller holds a task."""

from typing import Any

from fastapi import APIRouter, HTTPException

from holdfast.api.leases import Held
from holdfast.engine.lease_rpc import rpcs_of
from holdfast.engine.store.commands import Store
from holdfast.http.access import GuardedMany, make_router
from holdfast.http.fields import Json
from holdfast.lifecycles import services

BY_NAME: dict[str, Any] = {service.__name__.lower(): service for service in services()}


class Request(Held):
    """A lease, and the arguments by name."""

    given: dict[str, Json]


def routes(store: Store) -> APIRouter:
    router = make_router("/internal", "workers", "worker", guard=GuardedMany)

    @router.post("/rpc/{service}/{method}")
    @router.post("/rooms/{service}/{method}", include_in_schema=False)  # as workers of the release before call it
    async def call(service: str, method: str, asked: Request) -> Json:
        """Answer what a handler asks. 409 `lease-lost` if the caller does not hold the task."""
        kind = BY_NAME.get(service)
        rpc = rpcs_of(kind).get(method) if kind else None
        if kind is None or rpc is None:
            raise HTTPException(404)
        lease = asked.proof()
        await store.check_held(lease)
        return await rpc.call(kind.over(store), lease, asked.given)

    return router
