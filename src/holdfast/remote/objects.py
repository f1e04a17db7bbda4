"""Files through a server, for a host that has an address and a key and nothing else. It satisfies `objects.Objects`.

Bytes go by links that the server signs for one file each: straight to the bucket, or to the server's own folder; never
through JSON. A transfer that breaks off starts again, from the beginning and by a new link. Nothing stays open between
two calls, so any event loop may call, and leaves nothing behind when it ends.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from holdfast.backoff import jitter
from holdfast.engine.store import encode
from holdfast.errors import (
    AccessError,
    HoldfastError,
    ObjectMissing,
    ObjectsUnreachable,
    RequestInvalid,
    UploadTooLarge,
)
from holdfast.execution.threads import in_thread
from holdfast.objects import Download, Found, Upload, UploadSpec
from holdfast.objects.scratch import whole_file
from holdfast.remote.server import Server, open_server
from holdfast.settings import Settings

T = TypeVar("T")

UNDER = "/internal/objects"
PROMISED = (ObjectMissing, ObjectsUnreachable, RequestInvalid, UploadTooLarge)
FINAL = (*PROMISED, AccessError)
tries = 4
pause_seconds = 0.2
moved_at_once = 1 << 20
brief = timedelta(seconds=90)
"""For what a server asks a bucket within a minute."""
long = timedelta(hours=1)


class ServerObjects:
    """The files of a server, whatever its place for them is."""

    def __init__(self, settings: Settings) -> None:
        self.label = f"the files of {', '.join(settings.servers)}"
        self._settings = settings
        self._answered: str | None = None

    async def sign_upload(self, upload: UploadSpec, *, now: datetime, lasting: timedelta, server: str) -> Upload:
        """By the clock of the database, and where this host reaches the server. Raises UploadTooLarge."""
        return await self._sign(Upload, "upload-url", {**vars(upload), "lasting_seconds": lasting})

    async def sign_download(
        self, key: str, *, filename: str, content_type: str, now: datetime, lasting: timedelta, server: str
    ) -> Download:
        """By the clock of the database, and where this host reaches the server."""
        fields = {"key": key, "filename": filename, "content_type": content_type, "lasting_seconds": lasting}
        return await self._sign(Download, "download-url", fields)

    async def _sign(self, kind: type[T], path: str, fields: Mapping[str, Any]) -> T:
        async with self._open_server() as server:
            return encode.from_json(kind, await link_to(server, path, fields))

    async def find(self, key: str) -> Found | None:
        found = await self._ask("find", {"key": key})
        return encode.from_json(Found, found) if found else None

    async def sha256(self, key: str) -> str:
        """Raises ObjectMissing."""
        return str((await self._ask("sha256", {"key": key}, within=long))["sha256"])

    async def copy(self, source: str, target: str) -> None:
        """Raises ObjectMissing."""
        await self._ask("copy", {"source": source, "target": target}, within=long)

    async def fetch(self, key: str, path: Path) -> None:
        """Raises ObjectMissing."""
        async with self._open_server() as server:

            async def receive() -> None:
                link = await link_to(server, "download-url", {"key": key})
                async with server.fetch(link["url"], at_once=moved_at_once) as parts:
                    with whole_file(path) as file:
                        async for part in parts:
                            await in_thread(file.write, part)

            await retry_transfer(receive)

    async def put(self, key: str, path: Path, *, content_type: str) -> Found:
        """Raises UploadTooLarge for more than the server's place takes at once."""
        size = await in_thread(lambda: path.stat().st_size)
        promise = {"key": key, "content_type": content_type, "size": size}
        async with self._open_server() as server:

            async def send() -> None:
                link = await link_to(server, "upload-url", promise)
                with await in_thread(lambda: path.open("rb")) as file:
                    await server.send(link, pieces(file), size)

            await retry_transfer(send)
        return Found(key, size)

    async def delete(self, prefix: str) -> int:
        """After a lost answer it is called again, and then counts only what was left."""
        return int((await self._ask("delete", {"prefix": prefix}, within=long))["objects"])

    async def keys(self, prefix: str) -> list[Found]:
        found: list[Found] = []
        after: str | None = None
        while True:
            page = await self._ask("keys", {"prefix": prefix, "after": after}, within=long)
            found += [encode.from_json(Found, one) for one in page["items"]]
            if (after := page["next"]) is None:
                return found

    async def _ask(self, path: str, fields: Mapping[str, Any], within: timedelta = brief) -> Any:
        async with self._open_server() as server:
            return await server.request("POST", f"{UNDER}/{path}", fields, within=within)

    @contextlib.asynccontextmanager
    async def _open_server(self) -> AsyncIterator[Server]:
        """The servers; the one that answered last is asked first. Raises only what `Objects` does."""
        try:
            async with open_server(self._settings, first=self._answered) as server:
                yield server
                self._answered = server.address
        except PROMISED:
            raise
        except HoldfastError as error:
            fix = error.fix or "Look at HOLDFAST_API, HOLDFAST_KEY and the server's log: holdfast doctor"
            raise ObjectsUnreachable(f"{self.label}: {error.title} {error.detail}".rstrip(), fix=fix) from error


async def link_to(server: Server, path: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A link; one to the server's own folder leads where it has just answered."""
    link = await server.request("POST", f"{UNDER}/{path}", fields, within=brief)
    return {**link, "url": f"{server.address}{link['url']}" if link["url"].startswith("/") else link["url"]}


async def retry_transfer(transfer: Callable[[], Awaitable[None]]) -> None:
    """Try a few times. Raises a final error at once, and any other after the last try."""
    for number in range(1, tries + 1):
        try:
            await transfer()
            break
        except FINAL:
            raise
        except HoldfastError:
            if number == tries:
                raise
        await asyncio.sleep(jitter(pause_seconds * 2**number))


async def pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await in_thread(file.read, moved_at_once):
        yield piece
