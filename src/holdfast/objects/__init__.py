"""Objects: where bytes live, for uploads, inputs and outputs. A door with a folder or a bucket behind it.

A client brings and fetches an object by a link that is signed for it alone and runs out; everything else is done by
servers and workers. What of its promise a link enforces by itself differs with the place (docs/operations/objects.md);
whoever takes an upload for granted copies it first, then checks the copy.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from holdfast.settings import Settings


@dataclass(frozen=True)
class Upload:
    """How a client sends one object: this method, to this address, with exactly these headers."""

    url: str
    method: str
    headers: dict[str, str]
    expires_at: datetime


@dataclass(frozen=True)
class Download:
    """Where a client fetches one object."""

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

    async def sign_upload(
        self,
        key: str,
        *,
        content_type: str,
        size: int | None,
        sha256: str | None,
        most_bytes: int,
        now: datetime,
        lasting: timedelta,
        server: str,
    ) -> Upload:
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
