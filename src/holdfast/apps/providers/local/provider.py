"""The provider LOCAL: it does the work itself, a little in each poll.

Nothing of a job is in memory (`kept_jobs`), so any worker goes on where another stopped, and a worker that dies has
lost one input at most. The engine never polls the same job twice at once.
"""

import importlib.util
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from holdfast.apps.providers.kept_jobs import STOPPED, KeptJob
from holdfast.apps.providers.local.completion import accepted_request, refuse_request
from holdfast.apps.providers.local.process import Crashed, Model, NotLoaded
from holdfast.apps.providers.local.weights import SMOLLM2
from holdfast.distribution import install_hint
from holdfast.errors import Failure, Fatal, SchemaInvalid, Transient
from holdfast.execution.threads import in_thread
from holdfast.lifecycles.batch.provider import Ended, Input, Job, Provider, Result, Running, Usage
from holdfast.objects.scratch import scratch
from holdfast.remote.fetch import fetch
from holdfast.remote.fetch.guard import Guard
from holdfast.settings import Settings, read_settings

SPEECH = "moonshine-tiny-en"
SCHEMES = ("file", "object", "http", "https")

poll_spell = timedelta(seconds=3)
recording_most_bytes = 1 << 30
crashes_most = 2
failures_most = 3
pause = timedelta(seconds=10)


class Local(Provider):
    """This machine as a provider."""

    name = "LOCAL"
    task_types = ("transcription", "completion")
    account = "this machine"
    poll_every = timedelta(seconds=1)
    repeats_submit = True
    listed_within = timedelta(0)

    def __init__(self, settings: Callable[[], Settings] = read_settings) -> None:
        self._settings = settings
        self.speech = Model("holdfast.apps.providers.local.speech", answer_most=timedelta(seconds=120))
        self.completion = Model("holdfast.apps.providers.local.completion", answer_most=timedelta(seconds=300))

    def missing(self, task_type: str) -> str | None:
        extra = f"Install what it runs with: {install_hint('local')}."
        if task_type == "transcription":
            found = importlib.util.find_spec("moonshine_voice")
            if not found or not found.origin or not all(map(importlib.util.find_spec, ("av", "numpy"))):
                return extra + (
                    "" if sys.platform == "linux" else " Recordings are transcribed on Linux (x86-64) only."
                )
            there = Path(found.origin).with_name("assets").joinpath("tiny-en").is_dir()
            return None if there else "This moonshine-voice comes without its weights. " + extra
        if not importlib.util.find_spec("xllamacpp"):
            return extra
        return None if SMOLLM2.find() else "Install the model: holdfast models install."

    def models(self, task_type: str) -> Sequence[str]:
        return (SMOLLM2.name,) if task_type == "completion" else ()

    def refuse(self, task_type: str, one: Input) -> str | None:
        if missing := self.missing(task_type):
            return missing
        if task_type == "completion":
            return refuse_request(one.body)
        scheme = one.uri.partition(":")[0].lower()
        if scheme not in SCHEMES:
            return "LOCAL reads recordings from file:///folder/name, object:key, http:// and https://, nothing else."
        return None

    async def check(self) -> None:
        missing = [reason for task_type in self.task_types if (reason := self.missing(task_type))]
        if len(missing) == len(self.task_types):
            raise Fatal(missing[0])

    async def close(self) -> None:
        await self.speech.end()
        await self.completion.end()

    async def submit(self, job: Job, inputs: Sequence[Input]) -> str:
        if missing := self.missing(job.task_type):
            raise Fatal(missing)
        known = self.models(job.task_type)
        if job.model not in (None, *known):
            there = f"it has {', '.join(known)}" if known else f"name none: there is one for {job.task_type}"
            raise SchemaInvalid(f"LOCAL has no model {job.model!r}; {there}.", code="model")
        await kept_job(job).begin(inputs)
        return job.token

    async def find(self, job: Job) -> str | None:
        return job.token if await kept_job(job).exists() else None

    async def cancel(self, job: Job) -> Ended:
        return STOPPED

    def fetch(self, job: Job, inputs: Sequence[Input]) -> AsyncIterator[Result]:
        return kept_job(job).results(inputs)

    async def poll(self, job: Job) -> Running | Ended:
        """Do some of the work. Raises Transient if the model cannot be loaded."""
        kept = kept_job(job)
        left = await kept.left()
        if not left:
            return Ended("done", "succeeded")
        done, total = len(kept.done), len(kept.done) + len(left)
        if missing := self.missing(job.task_type):  # another worker of the fleet may have it
            return Running(missing, again_in=pause, done=done)
        model = self.speech if job.task_type == "transcription" else self.completion
        if not model.take():
            return Running("waiting for the model", done=done)
        until = time.monotonic() + poll_spell.total_seconds()
        waits: list[timedelta] = []
        try:
            for one in left:
                result = await self._do(job, kept, one, model)
                if isinstance(result, Result):
                    await kept.keep(result)
                else:
                    waits.append(result)
                if time.monotonic() > until:  # there is more to do at once
                    waits.clear()
                    break
        finally:
            model.give()
        if len(kept.done) == total:
            return Ended("done", "succeeded")
        return Running("at work", again_in=max(waits, default=None), done=len(kept.done))

    async def _do(self, job: Job, kept: KeptJob, one: Input, model: Model) -> Result | timedelta:
        """The result of an input; or, if it is to be tried again, in how long."""
        try:
            return await self._result(job, one, model)
        except NotLoaded as error:
            raise Transient(f"The model for {job.task_type} cannot be loaded. {error}", code="not-loaded") from None
        except Crashed as error:
            times = kept.wrong[one.key, "crash"] + 1
            message = f"The model crashed {times} times on this input. {error}"
            if times >= crashes_most:
                return Result(one.key, error=message, category="SchemaInvalid")
            await kept.note(one.key, "crash", times, message)
            return timedelta(0)
        except Failure as error:
            times = kept.wrong[one.key, "failure"] + 1
            if error.category in ("SchemaInvalid", "Fatal") or times >= failures_most:
                return Result(one.key, error=error.message, category=error.category or "Fatal")
            await kept.note(one.key, "failure", times, error.message)
            return error.retry_after if isinstance(error.retry_after, timedelta) else pause * times

    async def _result(self, job: Job, one: Input, model: Model) -> Result:
        with scratch() as folder:
            path = folder / "input"
            if job.task_type == "transcription":
                guard = Guard(self._settings().fetch_networks)
                await fetch(one.uri, path, objects=job.objects, guard=guard, most_bytes=recording_most_bytes)
                heard = await model.ask({"path": str(path)})
                return Result(one.key, heard, usage=Usage(SPEECH, cost_cents=Decimal(0)))
            if reason := refuse_request(one.body):
                raise SchemaInvalid(reason)
            await in_thread(path.write_text, json.dumps(accepted_request(one.body)))
            answer = await model.ask({"path": str(path)})
            usage = Usage(SMOLLM2.name, answer["tokens_in"], answer["tokens_out"], cost_cents=Decimal(0))
            return Result(one.key, answer["output"], usage=usage)


def kept_job(job: Job) -> KeptJob:
    return KeptJob(job, folder=job.token)
