"""The links of the local folder: each lets its bearer upload or download one object, without a key, until it expires.

Bodies go to the disk as they arrive, so a server needs the same memory for any size. A bucket has links of its own;
then these routes are not there. An uploaded file never opens as a page of this server: a browser saves it, or opens it
in a sandbox without scripts.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse
from starlette.requests import ClientDisconnect

from holdfast.engine.store.commands import Store
from holdfast.errors import ObjectMissing, UploadIncomplete
from holdfast.http.access import make_router
from holdfast.objects import Objects, attachment
from holdfast.objects.local import Folder, Received

stall_most = timedelta(minutes=1)
upload_most = timedelta(hours=1)

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private",
}
BODY = {"requestBody": {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}}
FILE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file", "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}},
    206: {"description": "The part of it that Range asks for"},
}


def routes(store: Store, folder: Objects) -> APIRouter:
    """The routes of a folder; for a bucket none."""
    router = make_router("/objects", "objects")
    if not isinstance(folder, Folder):
        return router

    @router.put("/{token}", openapi_extra=BODY)
    async def upload(token: str, request: Request) -> Received:
        """Bring a file, as the answer that has this link says: with its Content-Type, size and sha256. Works once."""
        link = folder.read_link(token, "PUT")
        link.check_time(await store.now())
        length = request.headers.get("content-length", "")
        link.check_request(request.headers.get("content-type", ""), int(length) if length.isdecimal() else None)
        await folder.check_unused(link)
        return await folder.receive(link, receive_body(request))

    @router.get("/{token}", responses=FILE, response_class=Response)
    async def download(token: str) -> FileResponse:
        """Fetch a file."""
        return await answer(token)

    @router.head("/{token}", responses=FILE, response_class=Response)
    async def look(token: str) -> FileResponse:
        """What fetching it would answer, without the file."""
        return await answer(token)

    async def answer(token: str) -> FileResponse:
        link = folder.read_link(token, "GET")
        link.check_time(await store.now())
        if not await folder.find(link.key):
            raise ObjectMissing(fix="It was removed; nothing brings it back.")
        headers = HEADERS | {"Content-Disposition": attachment(link.filename)}
        return FileResponse(folder.path(link.key), media_type=link.content_type, headers=headers)

    return router


async def receive_body(request: Request) -> AsyncIterator[bytes]:
    """The body, as it arrives. Raises UploadIncomplete for a client that disconnects, stalls or takes too long."""
    parts = request.stream()
    clock = asyncio.get_running_loop().time
    last_moment = clock() + upload_most.total_seconds()
    try:
        while True:
            async with asyncio.timeout_at(min(last_moment, clock() + stall_most.total_seconds())):
                part = await anext(parts, None)
            if part is None:
                return
            yield part
    except ClientDisconnect:
        raise UploadIncomplete("The connection broke off.", fix="Send it again, by the same URL.") from None
    except TimeoutError:
        raise UploadIncomplete("It came too slowly.", fix="Send it again, by the same URL.") from None
