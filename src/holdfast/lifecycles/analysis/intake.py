"""The way of a task from its creation to the queue, for clients over HTTP and for programs with files at hand."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from holdfast.engine.store.commands import Store
from holdfast.errors import FilesMissing, HoldfastError, MoveRefused, ObjectsError, TaskExpired
from holdfast.lifecycles.analysis.analyses import Analyses
from holdfast.lifecycles.analysis.files import Promise, freeze, placed
from holdfast.objects import Objects

WAITING = ("CREATED", "UPLOADING", "UPLOAD_FAILED")
ACCEPTED = ("QUEUED", "PROCESSING", "COMPLETED")


class Intake:
    """What is done to a task before workers see it."""

    def __init__(self, store: Store, objects: Objects) -> None:
        self.store = store
        self.objects = objects
        self.analyses = Analyses.over(store)

    async def promise(self, found: Mapping[str, Any], promises: Sequence[Promise]) -> list[dict[str, Any]]:
        """Write down what will be uploaded, with a place for each file. Raises MoveRefused or TaskExpired."""
        refuse_expired(found)
        files = await placed(self.objects, promises, found)
        await self.store.act(found["task_id"], "upload_urls", {"files": files})
        return files

    async def process(self, found: Mapping[str, Any]) -> str:
        """Verify what was uploaded and queue the task; its state then. Doing it again changes nothing.

        Raises FilesMissing, MoveRefused, TaskExpired or a BillingError.
        """
        task = UUID(found["task_id"])
        if found["state"] in ACCEPTED:
            return str(found["state"])
        refuse_expired(found)
        if found["state"] != "UPLOADING":
            return await self.store.act(task, "process")  # which says why not
        await self.analyses.check_credits_for(task)  # before anything is copied; the move decides
        folder, inputs, wrong = await freeze(self.objects, found)
        try:
            if wrong:
                await self._refuse_files(found, wrong)
            return await self.store.act(task, "process", {"inputs": inputs})
        except HoldfastError as error:
            if error.http_status < 500:  # after anything else nobody knows whether the move was made
                with contextlib.suppress(ObjectsError):  # then it goes with the rest, when the task's time has come
                    await self.objects.delete(folder)
            now = (await self.analyses.read(task))["state"] if isinstance(error, MoveRefused) else None
            if now not in ACCEPTED:
                raise
            return str(now)  # another call was faster

    async def _refuse_files(self, found: Mapping[str, Any], wrong: Mapping[str, str]) -> None:
        said = " ".join(f"{role} {problem}." for role, problem in wrong.items())
        looked_at = [one["upload_key"] for one in found["files"]]
        note = {"kind": "files_missing", "missing": list(wrong), "message": said, "looked_at": looked_at}
        await self.store.act(found["task_id"], "files_missing", note)
        raise FilesMissing(said, fix="Ask for new links with POST /tasks/{id}/upload-urls.", missing=list(wrong))

    async def bring(
        self, tool: str, agents: Sequence[str], files: Mapping[str, tuple[Promise, Path]], *, owner: str, key: str
    ) -> UUID:
        """A task with these files, by role, in the queue: made once for each key, however often this is called."""
        made = await self.analyses.make(tool, agents, owner=owner, key=key)
        found = await self.analyses.read(made.task_id)
        if found["state"] in WAITING:
            for one in await self.promise(found, [promise for promise, _ in files.values()]):
                path = files[one["role"]][1]
                await self.objects.put(one["upload_key"], path, content_type=one["content_type"])
            await self.process(await self.analyses.read(made.task_id))
        return made.task_id


def refuse_expired(found: Mapping[str, Any]) -> None:
    """Raise TaskExpired."""
    if found["state"] == "EXPIRED":
        raise TaskExpired(f"Task {found['task_id']} has expired.", fix="Create a new task.")
