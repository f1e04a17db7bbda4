"""Objects: where bytes live, for uploads, inputs and outputs. One protocol over a folder, a bucket or a server.

A client sends and fetches an object by a link that is signed for it alone and expires; everything else is done by
servers and workers. What of its promise a link enforces by itself differs with the place (docs/operations/objects.md);
code that relies on an upload copies it first, then checks the copy.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from holdfast.settings import Settings


@dataclass(frozen=True)
class UploadSpec:
    """An object that a client is about to send: of this size and checksum where they are known."""

    key: str
    content_type: str
    most_bytes: int
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Upload:
    """How to send one object: this method, to this address, with exactly these headers.

    An address that begins with `/` is one of the server that signed it.
    """

    url: str
    method: str
    headers: dict[str, str]
    expires_at: datetime


@dataclass(frozen=True)
class Download:
    """Where to fetch one object. An address that begins with `/` is one of the server that signed it."""

    url: str
    expires_at: datetime


@dataclass(frozen=True)
class Found:
    """An object that is there."""

    key: str
    bytes: int


class Objects(Protocol):
    """A place for objects. All of it raises ObjectsUnreachable, and RequestInvalid for what cannot be a key."""

    label: str
    """The place in words, without credentials."""

    async def sign_upload(self, upload: UploadSpec, *, now: datetime, lasting: timedelta, server: str) -> Upload:
        """A link that takes this object, of this size if it is known. Raises UploadTooLarge."""
        ...

    async def sign_download(
        self, key: str, *, filename: str, content_type: str, now: datetime, lasting: timedelta, server: str
    ) -> Download:
        """A link that gives this object, to be saved under this name."""
        ...

    async def find(self, key: str) -> Found | None:
        """The object, if it is there."""
        ...

    async def sha256(self, key: str) -> str:
        """The checksum of what is there now, in hex. Raises ObjectMissing."""
        ...

    async def copy(self, source: str, target: str) -> None:
        """Keep what `source` is now as `target`; later writes to `source` do not show there. Raises ObjectMissing."""
        ...

    async def fetch(self, key: str, path: Path) -> None:
        """Write the object into a file, whatever its size. Raises ObjectMissing, and then there is no file."""
        ...

    async def put(self, key: str, path: Path, *, content_type: str) -> Found:
        """Keep a file under this key, in the place of what was there; whole or not at all.

        Raises UploadTooLarge where it goes through a server to a place that takes no file of that size by a link.
        """
        ...

    async def delete(self, prefix: str) -> int:
        """Remove everything below `prefix/`; how many there were."""
        ...

    async def keys(self, prefix: str) -> list[Found]:
        """Everything below `prefix/`, in the order of the keys."""
        ...


def folder_of(settings: Settings) -> Path | None:
    """The folder that these settings name; None if they name a bucket."""
    if settings.objects is None:
        return settings.home / "objects"
    parts = urlsplit(settings.objects)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def open_objects(settings: Settings) -> Objects:
    """The place that these settings name, ready to be used; a bucket is not asked yet. Raises SettingInvalid."""
    if folder := folder_of(settings):
        from holdfast.objects.local import Folder

        return Folder(folder).open()
    from holdfast.objects.cloud import open_bucket

    return open_bucket(settings.objects or "")
