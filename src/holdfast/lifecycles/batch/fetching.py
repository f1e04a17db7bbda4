"""What came of the inputs of a job that has ended: brought here, counted, kept, and paid."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from holdfast.engine.task import Json
from holdfast.lifecycles.batch.batches import JobRow, Told
from holdfast.lifecycles.batch.calling import Caller, cleaned
from holdfast.lifecycles.batch.provider import Input, Job, Result, Usage

shown_most_bytes = 64 * 1024
longest_reason = 2000
MISSING = "The provider said nothing of it."


async def fetch_job(caller: Caller, job: JobRow) -> Told:
    """What to tell of a job whose results lie in our own storage now. Raises Failure."""
    inputs = await caller.files.inputs(job.inputs_key)
    results = await received(caller, caller.job(job), inputs) if job.has_results else {}
    lines = [cleaned(line_of(one, results.get(one.key), job)) for one in inputs]
    key = caller.files.output_key(caller.lease.token, job.number)
    await caller.call(lambda: caller.files.write_lines(key, lines))
    failed = [line for line in lines if line["status"] != "ok"]
    told: Told = {
        "job": job.number, "verb": "finish", "ok": len(lines) - len(failed), "output_key": key,
        "result": shown(lines), "usage": spent(results.values()),
    }  # fmt: skip
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        told |= {"error": job.error or f"{failed[0]['input']}: {failed[0]['reason']}{more}"}
        told |= {"category": job.category or failed[0]["category"]}
    return told


async def received(caller: Caller, job: Job, inputs: Sequence[Input]) -> dict[str, Result]:
    """What the provider gives for these inputs; what it says of any other does not count. Raises Failure."""
    keys = {one.key for one in inputs}

    async def receive() -> dict[str, Result]:
        results: dict[str, Result] = {}
        async for result in caller.provider.fetch(job, inputs):
            if str(result.key) in keys:
                results.setdefault(str(result.key), result)
        return results

    return await caller.call(receive)


def line_of(one: Input, result: Result | None, job: JobRow) -> dict[str, Any]:
    """What is kept of an input."""
    line: dict[str, Any] = {"key": one.key, "input": one.uri or one.name, "name": one.name, "model": job.model}
    if result is None:
        return {**line, "status": "failed", "reason": job.error or MISSING, "category": job.category or "Transient"}
    usage = result.usage
    if usage:
        line |= {"tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out}
        line["cost_cents"] = None if usage.cost_cents is None else max(float(usage.cost_cents), 0.0)
    if result.ok:
        return {**line, "status": "ok", "output": result.output}
    reason = (result.error or "")[:longest_reason]
    return {**line, "status": "failed", "reason": reason, "category": result.category or "Transient"}


def shown(lines: list[dict[str, Any]]) -> Json:
    """What the job's row shows of them: all, or without the outputs if those are long."""
    size = 0
    for line in lines:
        size += len(str(line.get("output", ""))) + len(line.get("reason") or "") + len(line["input"])
        if size > shown_most_bytes:
            return [
                {name: line[name] for name in ("input", "status", "reason") if name in line} for line in lines[:1000]
            ]
    return lines


def spent(results: Iterable[Result]) -> list[dict[str, Json]]:
    """What they have cost, summed up for each model; what has no price of its own apart from what has."""
    sums: dict[tuple[str, bool], Usage] = {}
    for usage in (result.usage for result in results if result.usage):
        key = (usage.model, usage.cost_cents is None)
        so_far = sums.get(key, Usage(usage.model, cost_cents=None if usage.cost_cents is None else Decimal(0)))
        cost = None if usage.cost_cents is None else (so_far.cost_cents or Decimal(0)) + usage.cost_cents
        tokens_in, tokens_out = so_far.tokens_in + usage.tokens_in, so_far.tokens_out + usage.tokens_out
        sums[key] = Usage(usage.model, tokens_in, tokens_out, cost)
    told: dict[tuple[str, bool], dict[str, Json]] = defaultdict(dict)
    for key, usage in sums.items():
        told[key] = {"model": usage.model, "tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out}
        if usage.cost_cents is not None:
            told[key]["cost_cents"] = str(usage.cost_cents)
    return list(told.values())
