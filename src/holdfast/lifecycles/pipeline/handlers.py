"""How a worker goes through a job: stage by stage, each kept with its status, then the verdict.

The database knows the stages, in which order they go, which are done, and what they make of the job. A stage that is
done is not run again, wherever the job goes on; one that was interrupted runs again. A failure is tried again by the
engine, with the worker's place free meanwhile, until the stage's own tries are used up: then the stage has failed, and
the job goes on with those that do not need it.
"""

import asyncio
import contextlib
import json
import mimetypes
import shutil
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from holdfast.engine import values
from holdfast.engine.params import parameters
from holdfast.engine.store import encode
from holdfast.engine.store.calls import patiently
from holdfast.engine.store.encode import readable
from holdfast.engine.task import Cancelled, Failed, Json, Later, Outcome, Partial
from holdfast.errors import (
    Failure,
    Fatal,
    LeaseLost,
    ObjectMissing,
    ObjectsUnreachable,
    RequestInvalid,
    StepInvalid,
    Transient,
)
from holdfast.execution.attempt import ATTEMPT, Attempt
from holdfast.execution.classify import Errors, classify
from holdfast.execution.context import current, get_service
from holdfast.execution.suspend import Suspend
from holdfast.execution.threads import call_function
from holdfast.lifecycles.pipeline.store import Jobs, PlannedStage, Verdict
from holdfast.objects import Objects
from holdfast.objects.scratch import scratch

if TYPE_CHECKING:
    from holdfast.lifecycles.pipeline.sdk import Stage

    FindStage = Callable[[str], Stage | None]


errors_at_most = 50
longest_error = 500
longest_output_name = 200


class Skip(Exception):
    """Raised by a stage that has nothing to do here: it counts as skipped, and this is the reason."""


@dataclass
class Notes:
    """What one run of one stage has reported so far."""

    problems: list[str] = field(default_factory=list)
    settings: dict[str, Json] = field(default_factory=dict)
    outputs: dict[str, tuple[Path, str]] = field(default_factory=dict)
    closing: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @cached_property
    def folder(self) -> Path:
        """Where outputs lie until the stage is done."""
        return self.closing.enter_context(scratch())

    def errors(self) -> list[str]:
        """The problems, no more than one can read."""
        first = self.problems[:errors_at_most]
        left = len(self.problems) - len(first)
        return [*first, f"... and {left} more"] if left else first

    async def store_outputs(self, objects: Objects, place: str) -> list[dict[str, Json]]:
        """Put the outputs where objects live."""
        kept = []
        for name, (path, kind) in self.outputs.items():
            found = await objects.put(f"{place}/{name}", path, content_type=kind)
            kept.append({**vars(found), "name": name, "content_type": kind})
        return kept


NOTES: ContextVar[Notes | None] = ContextVar("holdfast_stage", default=None)


def problem(message: object) -> None:
    """Say that something did not succeed, and go on: the stage is `partial`, and its errors tell this."""
    notes = NOTES.get()
    if notes is not None:
        notes.problems.append(readable(str(message)[:longest_error]))


def attach(name: str, content: str | bytes | Path, *, content_type: str | None = None) -> None:
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


inline_most_bytes = 64 * 1024
surprises_at_most = 3  # as many as the engine allows of what has no category
unknown_again = "10s"
WELL = ("completed", "partial")


async def run_job(find_stage: "FindStage", objects: Callable[[], Objects], errors: Errors) -> dict[str, Json] | Outcome:
    """Run what is left of the job that this worker holds. Raises Suspend if it waits or is stopped."""
    payload = current().payload
    attempt = ATTEMPT.get()
    assert attempt is not None  # noqa: S101 - there is a current lease
    jobs = get_service(Jobs)
    rows, settings = await patiently(lambda: jobs.stages(attempt.lease.task_id))
    if not rows:
        if not await patiently(lambda: jobs.adopt(attempt.lease)):
            raise Fatal("No pipeline of this name is declared: its job has no stages.", code="no-stages")
        rows, settings = await patiently(lambda: jobs.stages(attempt.lease.task_id))
    params = {**settings, **(payload if isinstance(payload, dict) else {})}
    run = JobRun(attempt, jobs, find_stage, objects(), {ObjectsUnreachable: Transient, **errors}, params)
    return await run(rows)


@dataclass
class JobRun:
    """One attempt at a job."""

    attempt: Attempt
    jobs: Jobs
    find_stage: "FindStage"
    objects: Objects
    errors: Errors
    params: Mapping[str, Json]
    kept: dict[str, Json] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"pipelines/{self.attempt.lease.task_id}/{self.attempt.lease.token.hex}"

    async def __call__(self, rows: list[PlannedStage]) -> dict[str, Json] | Outcome:
        for number, row in enumerate(rows):
            self.attempt.part = number, len(rows)
            self.attempt.report_progress(done=number, total=len(rows), note=row.name, stage=row.name)
            try:
                _, kept = await self.attempt.find_step(row.name)
                self.kept[row.name] = kept if row.is_done else await self.run_stage(row)
            except asyncio.CancelledError:
                # A cancel comes too late if this was the last stage, and it is kept.
                if row is not rows[-1] or (await self.verdict()).state is None:
                    raise
                self.kept[row.name] = (await self.attempt.read_steps())[row.name]
            if row.required and self.status(row.name) == "failed":
                break
        return await self.outcome()

    async def run_stage(self, row: PlannedStage) -> Json:
        """Bring a stage to its end; what is kept of it."""
        if why := self.reason_to_skip(row):
            return await self.attempt.save_step(row.name, {"status": "skipped", "reason": why, "errors": []}, [])
        stage = self.find_stage(row.name)
        if stage is None:  # a job of another release: one of its workers goes on
            raise Suspend(Later(unknown_again, kind=f"This worker does not know the stage {row.name}."))
        if self.attempt.cancelled:  # the stage before did not let itself be stopped
            raise asyncio.CancelledError
        if not await patiently(lambda: self.jobs.begin(self.attempt.lease, row.name)):
            raise Suspend(Cancelled())
        notes = Notes()
        token = NOTES.set(notes)
        try:
            with notes.closing, self.attempt.track_step(row.name) as spent:
                kept = await self.envelope(row, stage, notes)
                try:
                    return await self.attempt.save_step(row.name, kept, spent)
                except RequestInvalid as error:  # what it gave cannot be kept: that is its own failure
                    return await self.attempt.save_step(row.name, self.failure(row, error, notes), spent)
        finally:
            NOTES.reset(token)

    def reason_to_skip(self, row: PlannedStage) -> str | None:
        """Why a stage is not run; None if it is."""
        if row.when and row.when.isidentifier() and not self.params.get(row.when):
            return f"{row.when} is off."
        for need in row.needs:
            if (status := self.status(need)) not in WELL:
                return f"It needs {need}, which {'failed' if status == 'failed' else 'was skipped'}."
        return None

    def status(self, stage: str) -> str | None:
        kept = self.kept_of(stage)
        return kept["status"] if kept else None

    def kept_of(self, stage: str) -> Json:
        """What is kept of a stage, whatever the case of its name: a release may write it otherwise."""
        return next((kept for name, kept in self.kept.items() if name.lower() == stage.lower()), None)

    async def envelope(self, row: PlannedStage, stage: "Stage", notes: Notes) -> dict[str, Json]:
        """What is kept of a stage: how it ended, and with what. Raises Suspend if it is to be tried again."""
        at = asyncio.current_task()
        assert at is not None  # noqa: S101
        limited_to = row.timeout.total_seconds() if row.timeout else None
        limit = asyncio.timeout(limited_to)
        try:
            async with limit:
                if callable(stage.when) and not await self.call(stage.when):
                    raise Skip("Its condition does not hold.")
                value = await self.call(stage.function)
            result = values.fit(f"Stage {row.name}", value, values.returned_by(stage.function))
            kept = {"outputs": await notes.store_outputs(self.objects, f"{self.place}/{row.name}")}
            kept |= await self.store_result(row.name, result)
            if notes.settings:
                kept["settings"] = values.dump(notes.settings)
        except Skip as skip:
            reason = encode.readable(str(skip)) or "It had nothing to do."
            return {"status": "skipped", "reason": reason, "errors": notes.errors()}
        except LeaseLost:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                if self.attempt.cancelled or at.cancelling():
                    raise
                error = RuntimeError("It cancelled itself.")
            if limit.expired() and isinstance(error, TimeoutError):
                error = Transient(f"It ran for longer than {limited_to:g} s.", code="timeout")
            return self.failure(row, error, notes)
        status = "partial" if notes.problems else "completed"
        return {"status": status, "errors": notes.errors(), **kept}

    def failure(self, row: PlannedStage, error: BaseException, notes: Notes) -> dict[str, Json]:
        """A failed stage. Raises Suspend while it may be tried again."""
        lease = self.attempt.lease
        named = {"task": lease.name, "task_id": str(lease.task_id), "attempt": lease.attempt, "stage": row.name}
        outcome = classify(error, self.errors, lambda _: row.name, named)
        if outcome is None:
            raise error
        if not isinstance(outcome, Failed) or outcome.category == "RateLimited":
            raise Suspend(outcome) from error
        most = min(row.retries + 1, lease.max_attempts, lease.max_attempts if outcome.category else surprises_at_most)
        if outcome.category in (None, "Transient") and row.failures + 1 < most:
            raise Suspend(outcome) from error
        return {
            "status": "failed", "errors": [encode.readable(outcome.message), *notes.errors()],
            "category": outcome.category or "Transient", "code": outcome.code,
        }  # fmt: skip

    # What a stage is given, and what it gives

    async def call(self, function: Callable[..., Any]) -> Any:
        """What a function of the application returns. Raises StepInvalid for what is meant for a whole task."""
        value = await call_function(function, (), await self.arguments(function))
        if isinstance(value, Failure):
            raise value
        if (unawaited := self.attempt.close_unawaited()) is not None:
            raise StepInvalid(f"Step {unawaited!r} was called and never awaited.", fix="Write await step(...).")
        if isinstance(value, Outcome):
            raise StepInvalid(
                f"A stage returned {type(value).__name__}, which is for whole tasks.",
                fix="Return its result; say problem(...) where a part of it failed, or raise.",
            )
        return value

    async def arguments(self, function: Callable[..., Any]) -> dict[str, Any]:
        """What a function takes by name: results of stages, and parameters of the job."""
        found: dict[str, Any] = {}
        kinds = values.hints(function)
        for name, one in parameters(function).items():
            if one.kind is one.VAR_KEYWORD:
                found |= {key: value for key, value in self.params.items() if key not in found}
            elif stage := self.find_stage(name):
                if self.status(stage.name) in WELL:
                    found[name] = await self.result(stage)
                elif self.status(stage.name) is None and one.default is one.empty:
                    raise Suspend(
                        Later(unknown_again, kind=f"This job has no stage {stage.name}, which is needed here.")
                    )
            elif name in self.params:
                try:
                    found[name] = values.load_at(name, deepcopy(self.params[name]), kinds.get(name, Any))
                except ValidationError as error:
                    raise Fatal(f"A parameter does not fit: {values.describe(error)}.", code="params") from error
        return found

    async def result(self, stage: "Stage") -> Any:
        """What a stage gave, as its function returns it. Raises Fatal if it is gone."""
        kept = self.kept_of(stage.name)
        if "result_key" in kept:
            with scratch() as folder:
                try:
                    await self.objects.fetch(kept["result_key"], folder / "result.json")
                except ObjectMissing as error:
                    raise Fatal(f"What {stage.name} gave is not in storage any more.", code="missing") from error
                kept = {**kept, "result": json.loads((folder / "result.json").read_bytes())}
        return values.read_back(f"Stage {stage.name}", deepcopy(kept.get("result")), values.returned_by(stage.function))

    async def store_result(self, stage: str, result: Json) -> dict[str, Json]:
        """A result as it is kept: with the stage, or as an object if it is large."""
        text = json.dumps(result, ensure_ascii=False).encode()
        if len(text) <= inline_most_bytes:
            return {"result": result}
        with scratch() as folder:
            path = Path(folder) / "result.json"
            path.write_bytes(text)
            found = await self.objects.put(f"{self.place}/{stage}.json", path, content_type="application/json")
        return {"result_key": found.key}

    async def verdict(self) -> Verdict:
        return await patiently(lambda: self.jobs.verdict(self.attempt.lease.task_id))

    async def outcome(self) -> dict[str, Json] | Outcome:
        """How the job ends, as the database judges its stages."""
        verdict = await self.verdict()
        if verdict.state == "FAILED":
            blame = self.kept.get(verdict.blame or "", {})
            message = f"{verdict.blame}: {verdict.errors[0]}" if verdict.errors else "No stage had anything to do."
            is_input = blame.get("category") == "SchemaInvalid"
            return Failed("SchemaInvalid" if is_input else "Fatal", message, code=blame.get("code") or "stage-failed")
        summary = next((kept.get("result") for name, kept in self.kept.items() if name.lower() == "summary"), None)
        stages = [{"name": name, "status": kept["status"]} for name, kept in self.kept.items()]
        report = {"stages": stages, "summary": summary}
        return Partial(report) if verdict.state == "PARTIAL" else report
