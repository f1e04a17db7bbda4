"""What a stage can call while it runs: problem, output, keep_settings; and Skip, which it may raise.

They are ambient, like `step`: the stage they belong to is found in the context. Outside of a job, where a stage is
called as the plain function it is, they do nothing.
"""

import contextlib
import mimetypes
import shutil
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from holdfast.engine.store.encode import readable
from holdfast.engine.task import Json
from holdfast.errors import StepInvalid
from holdfast.objects import Objects
from holdfast.objects.scratch import scratch

errors_at_most = 50
longest_error = 500
longest_output_name = 200


class Skip(Exception):
    """Raised by a stage that has nothing to do here: it counts as skipped, and this is the reason."""


@dataclass
class Notes:
    """What one run of one stage has told so far."""

    problems: list[str] = field(default_factory=list)
    settings: dict[str, Json] = field(default_factory=dict)
    outputs: dict[str, tuple[Path, str]] = field(default_factory=dict)
    closing: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _folder: Path | None = None

    @property
    def folder(self) -> Path:
        """Where outputs lie until the stage is done."""
        if self._folder is None:
            self._folder = self.closing.enter_context(scratch())
        return self._folder

    def errors(self) -> list[str]:
        """The problems, no more than one can read."""
        told = self.problems[:errors_at_most]
        left = len(self.problems) - len(told)
        return [*told, f"... and {left} more"] if left else told

    async def stored(self, objects: Objects, place: str) -> list[dict[str, Json]]:
        """Put the outputs where objects live."""
        kept = []
        for name, (path, kind) in self.outputs.items():
            found = await objects.put(f"{place}/{name}", path, content_type=kind)
            kept.append({"name": name, "key": found.key, "bytes": found.bytes, "content_type": kind})
        return kept


NOTES: ContextVar[Notes | None] = ContextVar("holdfast_stage", default=None)


def problem(message: object) -> None:
    """Say that something did not succeed, and go on: the stage is `partial`, and its errors tell this."""
    notes = NOTES.get()
    if notes is not None:
        notes.problems.append(readable(str(message)[:longest_error]))


def output(name: str, content: str | bytes | Path, *, content_type: str | None = None) -> None:
    """Keep a file with the job, under a name such as `brief.html`: its text, its bytes, or a file that is copied now.

    It goes to the object store when the stage is done, and can be downloaded for thirty days. Raises StepInvalid.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or len(name) > longest_output_name or "\0" in name:
        raise StepInvalid(f"{name!r} cannot be the name of an output.", fix="Write a short one, such as brief.html.")
    notes = NOTES.get()
    if notes is None:
        return
    if any(f"{one}/".startswith(f"{name}/") or f"{name}/".startswith(f"{one}/") for one in notes.outputs):
        raise StepInvalid(
            f"The output {name!r} is written twice.", fix="Give each its own name, and none that of a folder."
        )
    path = notes.folder / str(len(notes.outputs))
    if isinstance(content, Path):
        shutil.copyfile(content, path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    kind = content_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    notes.outputs[name] = (
        path,
        f"{kind}; charset=utf-8" if isinstance(content, str) and "charset" not in kind else kind,
    )


def keep_settings(**settings: Any) -> None:
    """Let the pipeline's jobs to come begin with these values, once this stage is done.

    They are parameters of its stages. If the settings were changed by others since this job began, theirs stay.
    """
    notes = NOTES.get()
    if notes is not None:
        notes.settings |= settings
