"""What ingests documents in tests: the real steps, and a kind whose steps do as they are told."""

from typing import Any

from holdfast import Holdfast, RateLimited, usage
from holdfast.ingest import Envelope, run_parallel_steps, run_step

hf = Holdfast()
hf.documents()

RAN: list[str] = []
TOLD: dict[str, Any] = {}


class Told(Exception):
    """An exception of somebody else's."""


def does(name: str) -> str:
    """A step: what it was told to raise or to return, once for each time it was told; else its name."""
    RAN.append(name)
    usage("tiny", tokens_in=10, cost_cents=1)
    told = TOLD.get(name)
    told = told.pop(0) if isinstance(told, list) and told else None if isinstance(told, list) else told
    if isinstance(told, Exception):
        raise told
    return name if told is None else told


@hf.task(name="told", lifecycle="ingest_item", queue="ingest_item", retries=2, errors={Told: RateLimited})
async def told(uri: str, name: str | None = None) -> str:
    """All steps of an item, in their order."""
    await run_step("FETCHED", does, "FETCHED")
    await run_step("CONTENT_EXTRACTED", does, "CONTENT_EXTRACTED")

    async def embedded() -> str:
        await run_step("CHUNKED", does, "CHUNKED")
        return await run_step("EMBEDDED", does, "EMBEDDED")

    await run_parallel_steps(embedded(), run_step("ENTITY_EXTRACTED", does, "ENTITY_EXTRACTED"))
    await run_step("PERSISTED", does, "PERSISTED")
    return await run_step("INDEXED", does, "INDEXED")


def ok(**fields: Any) -> Envelope:
    return {"status": "ok", **fields}  # type: ignore[typeddict-item]
