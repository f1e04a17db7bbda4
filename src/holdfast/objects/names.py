"""Keys, content types and names of files, checked before anything is signed or touched.

Keys are ours, no client chooses one; they are refused all the same where one could lead to another place.
"""

import re
import unicodedata
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from holdfast.errors import RequestInvalid, UploadTooLarge

if TYPE_CHECKING:
    from holdfast.objects import UploadSpec

lasting_most = timedelta(days=7)  # what S3 allows
key_most_bytes = 900  # S3 allows 1,024, with a prefix
segment_most_bytes = 255
name_most = 150
TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+( *; *[A-Za-z0-9_.-]+=[A-Za-z0-9_.+-]+)*")
SHA256 = re.compile(r"[0-9a-f]{64}")


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


def check_upload(upload: "UploadSpec", lasting: timedelta) -> None:
    """Raise RequestInvalid or UploadTooLarge for a promise that cannot be kept."""
    check_link(upload.key, upload.content_type, lasting)
    if upload.size is not None and upload.size < 0:
        raise RequestInvalid(f"A file cannot have {upload.size} bytes.")
    if (upload.size or 0) > upload.most_bytes:
        raise UploadTooLarge(f"{upload.size} bytes; {upload.most_bytes} are allowed.", fix="Send a smaller file.")
    if upload.sha256 is not None and not SHA256.fullmatch(upload.sha256):
        raise RequestInvalid("The sha256 is not 64 hexadecimal digits in lower case.")


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
