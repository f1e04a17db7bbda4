"""The API inside somebody else's server: `app.mount("/holdfast", hf.asgi())`.

It opens connections of its own, in the loop of that server: when the server starts if it runs `hf.lifespan`, otherwise
with the first request. Who can reach that server is not ours to know, so each caller needs a key, on loopback
as well.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI
from starlette.requests import Request
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.api.app import close_app, make_app
from holdfast.api.chores import chores
from holdfast.apps import offer_bundled
from holdfast.apps.documents.embedders import embedder_at_hand
from holdfast.engine.opening import open_database
from holdfast.errors import DatabaseError
from holdfast.http.problem import refusal
from holdfast.objects import open_objects
from holdfast.sdk.client import Holdfast
from holdfast.sdk.session import no_database


class Mounted:
    """An ASGI application that opens the database when it is first needed. It may be closed, and used again."""

    def __init__(self, hf: Holdfast) -> None:
        self._hf = hf
        self._opening = asyncio.Lock()
        self._app: FastAPI | None = None
        self._stack = contextlib.AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":  # it is the whole server, not a part of one
            await Router(lifespan=self._lifespan)(scope, receive, send)
            return
        answer: ASGIApp
        try:
            answer = await self.open()
        except DatabaseError as error:
            answer = refusal(Request(scope), error)
        await answer(scope, receive, send)

    async def open(self) -> FastAPI:
        """Raises AppInvalid, SettingInvalid, a DatabaseError or a MigrationError."""
        if self._hf.settings.is_remote:
            raise no_database()
        async with self._opening:
            if self._app is None:
                async with contextlib.AsyncExitStack() as stack:
                    opening = await stack.enter_async_context(open_database(self._hf.settings))
                    await self._hf.declare(opening.store)
                    await offer_bundled(opening.store)
                    objects = open_objects(self._hf.settings)
                    await stack.enter_async_context(chores(opening.store, objects, self._hf.settings))
                    self._app = make_app(
                        opening.pool,
                        database=opening.address.label,
                        objects=objects,
                        embedder=embedder_at_hand(self._hf.settings),
                        loopback=False,
                        address=opening.address,
                    )
                    stack.callback(close_app, self._app)
                    self._stack = stack.pop_all()
            return self._app

    async def close(self) -> None:
        """End the streams, give the connections back. The next request opens again."""
        async with self._opening:
            self._app = None
            await self._stack.aclose()

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        await self.open()
        try:
            yield
        finally:
            await self.close()
