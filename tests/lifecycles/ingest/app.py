"""What ingests documents in tests: the real steps, and a kind whose steps do as they are action."""

from typing import Any

from holdfast import Holdfast, RateLimited, usage
from holdfast.ingest import Envelope, run_parallel_steps, run_step

hf = Holdfast()
hf.documents()

RAN: list[str] = []
SCRIPT: dict[str, Any] = {}


class Foreign(Exception):
    """An exception of another library."""


def does(name: str) -> str:
    """A step: what the script raises or returns, one after the other of a list; else its name."""
    RAN.append(name)
    usage("tiny", tokens_in=10, cost_cents=1)
    action = SCRIPT.get(name)
    if isinstance(action, list):
        action = action.pop(0) if action else None
    if isinstance(action, Exception):
        raise action
    return name if action is None else action


@hf.task(name="scripted", lifecycle="ingest_item", queue="ingest_item", retries=2, errors={Foreign: RateLimited})
async def scripted(uri: str, name: str | None = None) -> str:
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
