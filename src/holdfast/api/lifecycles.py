"""The declared lifecycles: as JSON, as a matrix, as Mermaid, as a picture."""

from typing import Any, Literal

from fastapi import APIRouter, Response

from holdfast.engine.lifecycle import render
from holdfast.engine.lifecycle.model import Lifecycle
from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import ROLES
from holdfast.errors import LifecycleUnknown
from holdfast.http.access import make_router
from holdfast.http.shapes import Items

Format = Literal["json", "matrix", "mermaid", "svg"]


def routes(store: Store) -> APIRouter:
    router = make_router("/api/v1/lifecycles", "lifecycles", *ROLES)

    @router.get("")
    async def list_lifecycles() -> Items[dict[str, Any]]:
        """The newest version of each."""
        return Items(items=[lifecycle.definition() for lifecycle in await store.lifecycles()])

    @router.get("/{name}", response_model=None, responses={404: {"description": "Not declared."}})
    async def read_lifecycle(name: str, format: Format = "json") -> Response | dict[str, Any]:  # noqa: A002
        """One lifecycle, in the form that is asked for."""
        lifecycle = choose(name, await store.lifecycles())
        match format:
            case "json":
                return lifecycle.definition()
            case "svg":
                policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
                return Response(render.svg(lifecycle), media_type="image/svg+xml", headers=policy)
            case "mermaid":
                return Response(render.mermaid(lifecycle), media_type="text/plain")
            case "matrix":
                return Response(render.matrix(lifecycle), media_type="text/plain")

    return router


def choose(name: str, lifecycles: list[Lifecycle]) -> Lifecycle:
    """The one of this name. Raises LifecycleUnknown."""
    for lifecycle in lifecycles:
        if lifecycle.name == name:
            return lifecycle
    raise LifecycleUnknown(name, fix=f"Declared are: {', '.join(lifecycle.name for lifecycle in lifecycles)}.")
