"""The files of a user task, from the promise to the copy that workers read.

What a client uploads goes where only its link leads (`uploads/`). `/process` takes a copy of each file and looks at the
copy: its size, and its checksum if one was promised. The copy's key is new each time and is known to the database only
by the move that queues the task, so neither a late upload nor a second `/process` can change what a worker reads.
"""

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from holdfast.lifecycles.analysis.job import parameters_most_bytes
from holdfast.objects import Download, Objects, Upload, UploadSpec

table_most_bytes = 5 * 1024**3  # what S3 takes in one PUT, and copies in one call
download_lasting = timedelta(hours=1)


@dataclass(frozen=True)
class Promise:
    """A file that a client is about to upload."""

    role: str
    filename: str
    content_type: str
    size: int | None = None
    sha256: str | None = None


PARAMETERS = Promise("parameters", "parameters.json", "application/json")


async def placed(objects: Objects, promises: Iterable[Promise], found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The promises with a place for each, as the move to UPLOADING writes them down; and whether it is there already.

    The same promise has the same place, whoever asks at the same time, so that links can be renewed during a long
    upload. What is there already stays if its checksum was promised and nothing was found wrong with it; otherwise the
    next upload has a new place.
    """
    refused = (found["note"] or {}).get("missing", []) if found["state"] == "UPLOAD_FAILED" else []
    return [await place_of(objects, one, found, is_refused=one.role in refused) for one in promises]


async def place_of(objects: Objects, promise: Promise, found: Mapping[str, Any], *, is_refused: bool) -> dict[str, Any]:
    before = [one["upload_key"] for one in found["files"] if {**one, **vars(promise)} == one]
    own = hashlib.sha256(repr(promise).encode()).hexdigest()[:16]
    key = before[0] if before else f"{found['folder']}/uploads/{promise.role}-{own}"
    there = await objects.find(key)
    kept = there is not None and promise.sha256 is not None and not is_refused and promise.size in (None, there.bytes)
    if there and not kept:
        key = f"{found['folder']}/uploads/{promise.role}-{secrets.token_hex(8)}"
    return {**vars(promise), "upload_key": key, "uploaded": kept}


async def sign_uploads(
    objects: Objects, files: Iterable[Mapping[str, Any]], *, now: datetime, until: datetime, server: str
) -> dict[str, Upload]:
    """How each of these files is sent, by its role."""
    return {
        one["role"]: await objects.sign_upload(
            UploadSpec(
                one["upload_key"], one["content_type"], most_bytes_of(one["role"]), one["size"], one["sha256"]
            ),
            now=now, lasting=until - now, server=server,
        )
        for one in files
    }  # fmt: skip


async def freeze(objects: Objects, found: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]], dict[str, str]]:
    """Copy what was uploaded: the folder of the copies, the copies, and what is wrong with the others, by role."""
    folder = f"{found['folder']}/inputs/{secrets.token_hex(8)}"
    inputs, wrong = [], {}
    for one in found["files"]:
        key = f"{folder}/{one['role']}"
        problem = await copied(objects, one, key)
        if isinstance(problem, str):
            wrong[one["role"]] = problem
        else:
            inputs.append({"role": one["role"], "upload_key": one["upload_key"], "key": key, "bytes": problem})
    return folder, inputs, wrong


async def copied(objects: Objects, promised: Mapping[str, Any], key: str) -> int | str:
    """The size of the copy; in words, why there is none that would do."""
    there = await objects.find(promised["upload_key"])
    if there is None:
        return "is not there"
    await objects.copy(promised["upload_key"], key)
    copy = await objects.find(key)
    if copy is None:
        return "is not there"
    most = most_bytes_of(promised["role"])
    if copy.bytes > most:
        return f"has {copy.bytes} bytes, and at most {most} are taken"
    if promised["size"] is not None and copy.bytes != promised["size"]:
        return f"has {copy.bytes} bytes instead of {promised['size']}"
    if promised["sha256"] and await objects.sha256(key) != promised["sha256"]:
        return "has another sha256 than was promised"
    return copy.bytes


def most_bytes_of(role: str) -> int:
    return parameters_most_bytes if role == "parameters" else table_most_bytes


async def sign_downloads(
    objects: Objects, found: Mapping[str, Any], *, now: datetime, server: str
) -> list[tuple[dict[str, Any], Download]]:
    """What the completed agents wrote, each with its link, which lasts no longer than the file."""
    kept = datetime.fromisoformat(found["outputs_kept_until"]) - now
    return [
        (output, await objects.sign_download(
            output["key"], filename=output["name"].replace("/", "-"), content_type=output["content_type"],
            now=now, lasting=min(download_lasting, kept), server=server,
        ))
        for step in found["steps"] if step["name"] in found["agents"]
        for output in step["result"]
    ]  # fmt: skip
