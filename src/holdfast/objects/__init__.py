"""Objects: where bytes live, for uploads, inputs and outputs. One protocol over a folder, a bucket or a server.

A client sends and fetches an object by a link that is signed for it alone and expires; everything else is done by
servers and workers. What of its promise a link enforces by itself differs with the place (docs/operations/objects.md);
code that relies on an upload copies it first, then checks the copy. Keys are ours, no client chooses one; all the same
they are refused where one could lead to another place, as are content types and promises that no link can carry.
"""

import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote, urlsplit

from holdfast.errors import RequestInvalid, TaskExpired, UploadTooLarge
from holdfast.settings import Settings

lasting_most = timedelta(days=7)  # what S3 allows
download_lasting = timedelta(hours=1)
key_most_bytes = 900  # S3 allows 1,024, with a prefix
segment_most_bytes = 255
name_most = 150
TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+( *; *[A-Za-z0-9_.-]+=[A-Za-z0-9_.+-]+)*")
SHA256 = re.compile(r"[0-9a-f]{64}")


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

    async def sign_download(
        self, key: str, *, filename: str, content_type: str, now: datetime, lasting: timedelta, server: str
    ) -> Download:
        """A link that gives this object, to be saved under this name."""

    async def find(self, key: str) -> Found | None:
        """The object, if it is there."""

    async def sha256(self, key: str) -> str:
        """The checksum of what is there now, in hex. Raises ObjectMissing."""

    async def copy(self, source: str, target: str) -> None:
        """Keep what `source` is now as `target`; later writes to `source` do not show there. Raises ObjectMissing."""

    async def fetch(self, key: str, path: Path) -> None:
        """Write the object into a file, whatever its size. Raises ObjectMissing, and then there is no file."""

    async def put(self, key: str, path: Path, *, content_type: str) -> Found:
        """Keep a file under this key, in the place of what was there; whole or not at all.

        Raises UploadTooLarge where it goes through a server to a place that takes no file of that size by a link.
        """

    async def delete(self, prefix: str) -> int:
        """Remove everything below `prefix/`; how many there were."""

    async def keys(self, prefix: str) -> list[Found]:
        """Everything below `prefix/`, in the order of the keys."""


def check_key(key: str) -> str:
    """The key itself. Raises RequestInvalid for what could leave its place."""
    parts = key.split("/")
    sound = all(
        part not in ("", ".", "..") and len(part.encode("utf-8", "replace")) <= segment_most_bytes for part in parts
    )
    if (
        not sound
        or parts[0].startswith(".")
        or len(key.encode("utf-8", "replace")) > key_most_bytes
        or not key.isprintable()
    ):
        raise RequestInvalid(
            f"{key[:200]!r} is not a key of an object.", fix="Write it as users/42/tasks/7/inputs/a.csv"
        )
    return key


def check_link(key: str, content_type: str, lasting: timedelta) -> None:
    """Raise RequestInvalid where no link can be signed."""
    check_key(key)
    if len(content_type) > name_most or not TYPE.fullmatch(content_type):
        raise RequestInvalid(f"{content_type[:200]!r} is not a content type.", fix="Write it as text/csv")
    if not timedelta(0) < lasting <= lasting_most:
        raise RequestInvalid(f"A link cannot last {lasting}.", fix=f"Let it last up to {lasting_most.days} days.")


def check_upload(upload: UploadSpec, lasting: timedelta) -> None:
    """Raise RequestInvalid or UploadTooLarge for a promise that cannot be kept."""
    check_link(upload.key, upload.content_type, lasting)
    if upload.size is not None and upload.size < 0:
        raise RequestInvalid(f"A file cannot have {upload.size} bytes.")
    if (upload.size or 0) > upload.most_bytes:
        raise UploadTooLarge(f"{upload.size} bytes; {upload.most_bytes} are allowed.", fix="Send a smaller file.")
    if upload.sha256 is not None and not SHA256.fullmatch(upload.sha256):
        raise RequestInvalid("The sha256 is not 64 hexadecimal digits in lower case.")


def check_kept(whose: str, until: datetime | None, now: datetime) -> None:
    """Raise TaskExpired for the files of a task that were kept until a moment that has passed."""
    if until and until <= now:
        raise TaskExpired(f"{whose}; its files were kept until {until.isoformat()}.", fix="Make a new one.")


async def sign_kept(
    objects: Objects, key: str, name: str, content_type: str, *, until: datetime | None, now: datetime, server: str
) -> Download:
    """A link to a file, good for an hour, but for no longer than the file is kept."""
    return await objects.sign_download(
        key, filename=name.replace("/", "-"), content_type=content_type, now=now, server=server,
        lasting=min(download_lasting, until - now) if until else download_lasting,
    )  # fmt: skip


def attachment(filename: str) -> str:
    """The value of Content-Disposition that has this name saved: plain for old clients, then whole (RFC 5987)."""
    seen = "".join(
        "_" if letter in '/\\"' or unicodedata.category(letter)[0] == "C" else letter for letter in filename
    ).strip(" .")
    stem, dot, suffix = seen.rpartition(".")
    name = (
        f"{stem[: name_most - len(suffix) - 1]}.{suffix}" if dot and len(suffix) < 20 else seen[:name_most]
    ) or "file"
    plain = "".join(letter if letter.isascii() and letter not in "%;" else "_" for letter in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


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
