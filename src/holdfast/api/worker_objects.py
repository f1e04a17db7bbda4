"""Files for workers that know this server only: each method of `Objects` has a route, for the role worker.

Bytes do not pass here: a worker gets a link that is signed for one file. Keys are checked by the place itself.
"""

import bisect
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from holdfast.engine.store.commands import Store
from holdfast.errors import RequestInvalid
from holdfast.http.access import make_router
from holdfast.http.fields import Body, Real, Text, Whole
from holdfast.http.shapes import Page
from holdfast.objects import Download, Found, Objects, Upload, UploadSpec, lasting_most

keys_in_a_page = 10_000
lasting_by_default = timedelta(hours=1)
ANY_TYPE = "application/octet-stream"
HERE = ""  # a worker knows best under which address it has reached this server

Size = Annotated[Whole, Field(ge=0, le=1 << 60)]
Lasting = Annotated[Real, Field(gt=0, le=lasting_most.total_seconds())]


class Named(Body):
    key: Text


class Linking(Named):
    """A file that a link is to be for."""

    content_type: Text = ANY_TYPE
    lasting_seconds: Lasting = lasting_by_default.total_seconds()


class Sending(Linking):
    """A file to be sent: of `size` bytes, or of `most_bytes` at most."""

    size: Size | None = None
    sha256: Text | None = None
    most_bytes: Size | None = None


class Fetching(Linking):
    filename: Text = "file"


class Checksum(BaseModel):
    sha256: str


class Copying(Body):
    source: Text
    target: Text


class Below(Body):
    prefix: Text


class Listing(Below):
    """Of everything below the prefix, what comes after a key."""

    after: Text | None = None


class Number(BaseModel):
    objects: int


def routes(store: Store, objects: Objects) -> APIRouter:
    """The routes, whatever the place is."""
    router = make_router("/internal/objects", "workers", "worker")

    @router.post("/upload-url")
    async def upload_url(asked: Sending) -> Upload:
        """A link that takes one file. 413 `upload-too-large` for more than the place takes by one."""
        most = asked.size if asked.most_bytes is None else asked.most_bytes
        if most is None:
            raise RequestInvalid("size and most_bytes are missing.", fix="Send one of them.")
        upload = UploadSpec(asked.key, asked.content_type, most, asked.size, asked.sha256)
        lasting = timedelta(seconds=asked.lasting_seconds)
        return await objects.sign_upload(upload, now=await store.now(), lasting=lasting, server=HERE)

    @router.post("/download-url")
    async def download_url(asked: Fetching) -> Download:
        """A link that gives one file, if it is there."""
        return await objects.sign_download(
            asked.key, filename=asked.filename, content_type=asked.content_type, now=await store.now(),
            lasting=timedelta(seconds=asked.lasting_seconds), server=HERE,
        )  # fmt: skip

    @router.post("/find")
    async def find(asked: Named) -> Found | None:
        """The file, without its bytes; null if it is not there."""
        return await objects.find(asked.key)

    @router.post("/sha256")
    async def sha256(asked: Named) -> Checksum:
        """The checksum of what is there now. 404 `object-missing`."""
        return Checksum(sha256=await objects.sha256(asked.key))

    @router.post("/copy", status_code=204)
    async def copy(asked: Copying) -> None:
        """Keep what `source` is now as `target`. 404 `object-missing`."""
        await objects.copy(asked.source, asked.target)

    @router.post("/delete")
    async def delete(asked: Below) -> Number:
        """Remove everything below `prefix/`; how many there were."""
        return Number(objects=await objects.delete(asked.prefix))

    @router.post("/keys")
    async def keys(asked: Listing) -> Page[Found, str]:
        """Everything below `prefix/` by its key, ten thousand at a time; `next` is to be sent as `after`."""
        found = await objects.keys(asked.prefix)
        begin = 0 if asked.after is None else bisect.bisect_right(found, asked.after, key=lambda one: one.key)
        page = found[begin : begin + keys_in_a_page]
        return Page(items=page, next=page[-1].key if begin + len(page) < len(found) else None)

    return router
