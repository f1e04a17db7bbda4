"""The files of a user task: links to upload by, the copies that workers read, the way to the queue, and the outputs.

A client uploads to where only its link leads (`uploads/`). `/process` copies each file and checks the copy: its size,
and its checksum if one was promised. The copy's key is new each time, and the database learns it only with the
transition that queues the task, so neither a late upload nor a second `/process` can change what a worker reads.
"""

import contextlib
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from holdfast.engine.store.commands import Store
from holdfast.errors import FilesMissing, HoldfastError, MoveRefused, ObjectsError, TaskExpired
from holdfast.lifecycles.analysis.store import Analyses, Analysis, File, Output, Promise
from holdfast.lifecycles.analysis.tools import parameters_most_bytes
from holdfast.objects import Download, Objects, Upload, UploadSpec, check_kept, sign_kept

table_most_bytes = 5 * 1024**3  # what S3 takes in one PUT, and copies in one call

WAITING = ("CREATED", "UPLOADING", "UPLOAD_FAILED")
ACCEPTED = ("QUEUED", "PROCESSING", "COMPLETED")
PARAMETERS = Promise("parameters", "parameters.json", "application/json")


class Intake:
    """What happens to a task before workers see it."""

    def __init__(self, store: Store, objects: Objects) -> None:
        self.store = store
        self.objects = objects
        self.analyses = Analyses.over(store)

    async def promise(self, analysis: Analysis, promises: Sequence[Promise]) -> list[File]:
        """Record what will be uploaded, with a place for each file.

        The same promise has the same place, also in simultaneous requests, so that links can be renewed during a long
        upload. A file that is there already stays if its checksum was promised and it was not found wrong; otherwise
        the next upload has a new place. Raises MoveRefused or TaskExpired.
        """
        refuse_expired(analysis)
        refused = analysis.missing
        files = [await self._place(analysis, one, is_refused=one.role in refused) for one in promises]
        fields = [{name: value for name, value in vars(one).items() if name != "input_key"} for one in files]
        await self.store.act(analysis.task_id, "upload_urls", {"files": fields})
        return files

    async def _place(self, analysis: Analysis, promise: Promise, *, is_refused: bool) -> File:
        folder = f"{analysis.folder}/uploads/{promise.role}"
        before = [one.upload_key for one in analysis.files if vars(promise).items() <= vars(one).items()]
        key = before[0] if before else f"{folder}-{hashlib.sha256(repr(promise).encode()).hexdigest()[:16]}"
        there = await self.objects.find(key)
        kept = there is not None and promise.sha256 is not None and not is_refused
        kept = kept and there is not None and promise.size in (None, there.bytes)
        if there and not kept:
            key = f"{folder}-{secrets.token_hex(8)}"
        return File(**vars(promise), upload_key=key, uploaded=kept)

    async def sign_uploads(self, analysis: Analysis, files: Sequence[File], server: str) -> dict[str, Upload]:
        """How each of these files is sent, by role. Raises MoveRefused if nothing is to be uploaded any more."""
        if analysis.state != "UPLOADING" or analysis.deadline is None:
            raise MoveRefused(
                f"Task {analysis.task_id} is {analysis.state} meanwhile.", fix="Nothing is to be uploaded any more."
            )
        lasting = analysis.deadline - analysis.now
        return {
            one.role: await self.objects.sign_upload(
                UploadSpec(one.upload_key, one.content_type, most_bytes_of(one.role), one.size, one.sha256),
                now=analysis.now, lasting=lasting, server=server,
            )
            for one in files
        }  # fmt: skip

    async def process(self, analysis: Analysis) -> str:
        """Verify what was uploaded and queue the task; its state then. A second call changes nothing.

        Raises FilesMissing, MoveRefused, TaskExpired or a BillingError.
        """
        task = analysis.task_id
        if analysis.state in ACCEPTED:
            return analysis.state
        refuse_expired(analysis)
        if analysis.state != "UPLOADING":
            return await self.store.act(task, "process")  # which raises the reason
        await self.analyses.check_credits_for(task)  # before anything is copied; the transition decides
        folder = f"{analysis.folder}/inputs/{secrets.token_hex(8)}"
        try:
            inputs = await self._freeze(analysis, folder)
            return await self.store.act(task, "process", {"inputs": inputs})
        except HoldfastError as error:
            if error.http_status < 500:  # after any other error the transition may have been made
                with contextlib.suppress(ObjectsError):  # then the copies are deleted with the rest, when that is due
                    await self.objects.delete(folder)
            now = (await self.analyses.read(task)).state if isinstance(error, MoveRefused) else None
            if now not in ACCEPTED:
                raise
            return str(now)  # another call was faster

    async def _freeze(self, analysis: Analysis, folder: str) -> list[dict[str, Any]]:
        """Copy what was uploaded. Raises FilesMissing, with what is wrong with each."""
        inputs, wrong = [], {}
        for one in analysis.files:
            key = f"{folder}/{one.role}"
            copied = await copy_upload(self.objects, one, key)
            if isinstance(copied, str):
                wrong[one.role] = copied
            else:
                inputs.append({"role": one.role, "upload_key": one.upload_key, "key": key, "bytes": copied})
        if wrong:
            message = " ".join(f"{role} {problem}." for role, problem in wrong.items())
            looked_at = [one.upload_key for one in analysis.files]
            note = {"kind": "files_missing", "missing": list(wrong), "message": message, "looked_at": looked_at}
            await self.store.act(analysis.task_id, "files_missing", note)
            raise FilesMissing(message, fix="Ask for new links with POST /tasks/{id}/upload-urls.", missing=list(wrong))
        return inputs

    async def bring(
        self, tool: str, agents: Sequence[str], files: Mapping[str, tuple[Promise, Path]], *, owner: str, key: str
    ) -> UUID:
        """A task with these files, by role, in the queue: made once for each key, however often this is called."""
        made = await self.analyses.make(tool, agents, owner=owner, key=key)
        analysis = await self.analyses.read(made.task_id)
        if analysis.state in WAITING:
            for one in await self.promise(analysis, [promise for promise, _ in files.values()]):
                await self.objects.put(one.upload_key, files[one.role][1], content_type=one.content_type)
            await self.process(await self.analyses.read(made.task_id))
        return made.task_id

    async def sign_downloads(self, analysis: Analysis, server: str) -> list[tuple[Output, Download]]:
        """What the completed agents wrote, each with its link, which lasts no longer than the file.

        Raises MoveRefused for a task that has not ended, TaskExpired for one whose files are gone.
        """
        until = analysis.outputs_kept_until
        if until is None:
            raise MoveRefused(
                f"Task {analysis.task_id} is {analysis.state}: there is nothing to download yet.",
                fix="Ask again when GET /tasks/{id} says COMPLETED.",
            )
        check_kept(f"Task {analysis.task_id} is {analysis.state}", until, analysis.now)
        given: dict[str, Any] = {"until": until, "now": analysis.now, "server": server}
        return [
            (one, await sign_kept(self.objects, one.key, one.name, one.content_type, **given))
            for one in analysis.outputs
        ]


async def copy_upload(objects: Objects, file: File, key: str) -> int | str:
    """Copy a file to this key: the size of the copy, or what is wrong with the file."""
    there = await objects.find(file.upload_key)
    if there is None:
        return "is not there"
    await objects.copy(file.upload_key, key)
    copy = await objects.find(key)
    if copy is None:
        return "is not there"
    most = most_bytes_of(file.role)
    if copy.bytes > most:
        return f"has {copy.bytes} bytes; {most} are allowed"
    if file.size is not None and copy.bytes != file.size:
        return f"has {copy.bytes} bytes instead of {file.size}"
    if file.sha256 and await objects.sha256(key) != file.sha256:
        return "has another sha256 than was promised"
    return copy.bytes


def most_bytes_of(role: str) -> int:
    return parameters_most_bytes if role == "parameters" else table_most_bytes


def refuse_expired(analysis: Analysis) -> None:
    """Raise TaskExpired."""
    if analysis.state == "EXPIRED":
        raise TaskExpired(f"Task {analysis.task_id} has expired.", fix="Create a new task.")
