"""A bureau for the command line: what becomes of a recording is in its name. Only workers load it.

bad     cannot be heard
lost    the answer to its submit is lost, and the bureau cannot tell whether it has it
stuck   never ends, and cannot be stopped
"""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from decimal import Decimal

from holdfast import Holdfast, SchemaInvalid, Transient
from holdfast.batch import CannotCancel, CannotTell, Ended, Input, Job, Provider, Result, Running, Usage


class Bureau(Provider):
    name = "BUREAU"
    task_types: Sequence[str] = ("transcription", "completion")
    inputs_per_job = 2
    poll_every = timedelta(milliseconds=50)
    listed_within = timedelta(0)

    async def submit(self, job: Job, inputs: Sequence[Input]) -> str:
        if any("wrong" in one.uri for one in inputs):
            raise SchemaInvalid("The bureau speaks no Latin.", code="latin")
        if any("lost" in one.uri for one in inputs) and not job.memo:
            await job.remember({"asked": True})
            raise Transient("The line was cut.", code="cut", retry_after=timedelta(0))
        await job.remember({"stuck": any("stuck" in one.uri for one in inputs), "asked": True})
        return f"B-{job.token[-3:]}"

    async def find(self, job: Job) -> str | None:
        raise CannotTell("Its list has no names.")

    async def poll(self, job: Job) -> Running | Ended:
        return Running("dusting") if job.memo.get("stuck") else Ended("ready", "succeeded")

    async def fetch(self, job: Job, inputs: Sequence[Input]) -> AsyncIterator[Result]:
        for one in inputs:
            usage = Usage(job.model or "ear", tokens_in=10, tokens_out=2, cost_cents=Decimal("0.5"))
            if "bad" in (one.uri.rpartition("/")[2] or str(one.body)):  # the rest of an address is chance
                yield Result(one.key, error="It crackles.", category="SchemaInvalid")
            elif job.task_type == "completion":
                yield Result(one.key, {"text": f"You said: {one.body['messages'][0]['content']}"}, usage=usage)
            else:
                yield Result(one.key, {"transcript": f"words of\n{one.uri.rpartition('/')[2]}"}, usage=usage)

    async def cancel(self, job: Job) -> None:
        raise CannotCancel


class Attic(Bureau):
    """Nobody has the key to it."""

    name = "ATTIC"
    task_types = ("transcription",)

    def missing(self, task_type: str) -> str | None:
        return "The key to the attic is missing: set ATTIC_KEY."


hf = Holdfast()
bureau, attic = Bureau(), Attic()
hf.batch("transcription", bureau)
hf.batch("completion", bureau)
hf.batch("transcription", attic)
hf.providers()
