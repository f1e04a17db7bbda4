"""A worker that takes tasks, waits for a word, and then goes on as if they were still its own: `... URL N`.

It prints `holding` once it holds N tasks, and after the word what it was answers, as JSON: one object per lease.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from datetime import timedelta

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Cancelled, Checkpoint, Completion, Done, Failed, Later, Lease, Outcome
from holdfast.errors import LeaseLost
from holdfast.postgres.connections import Address, open_pool

MINUTE = timedelta(minutes=1)
ENDS: Sequence[Outcome] = (Done("late"), Failed("Fatal", "late"), Later(), Cancelled())


async def try_everything(store: Store, lease: Lease) -> dict[str, str]:
    """All that a holder can do, and how each was answered."""
    answers = {"heartbeat": "ok" if await store.heartbeat([lease], lasting=MINUTE) else "lost"}
    answers["checkpoint"] = (await store.checkpoint(Checkpoint(lease, "late", "late")))[0].status
    try:
        await store.record(lease, "late_event", "late")
        answers["record"] = "ok"
    except LeaseLost:
        answers["record"] = "lost"
    for end in ENDS:
        answers[f"settle {type(end).__name__}"] = (await store.settle((lease, end)))[0].status
    completed = await store.complete(Completion(lease, Done("late"), [("late_event", "late", None)]))
    answers["complete"] = completed[0].status
    refused, _ = await store.settle_and_claim([(lease, Done("late"))], ["batch"], lasting=MINUTE, worker="zombie")
    answers["turn"] = refused.get(lease.task_id, "ok")
    return answers


async def main(url: str, n: int) -> None:
    async with open_pool(Address(given=url)) as pool:
        store = Store(pool)
        leases = await store.claim(["default"], n, lasting=MINUTE, worker="zombie")
        sys.stdout.write("holding\n")
        sys.stdout.flush()
        sys.stdin.readline()
        sys.stdout.write(json.dumps([await try_everything(store, lease) for lease in leases]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
