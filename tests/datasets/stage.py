"""Runs that write datasets, as a graph makes them: a task gathers its nodes, and its end ends their generations."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg

from holdfast.datasets.store import Datasets
from holdfast.engine.lifecycle.model import Lifecycle, final, gather
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Completion, Done, Lease, Output, Proof, Settled, Submission
from tests.promises.stage import MINUTE, submit, take_one

RUN = Lifecycle(
    "some_run", start="RUNNING", cancel="CANCELLED", effects="some_run_effects",
    states=[
        gather("RUNNING", done="DONE", partial="PARTIAL", fail="FAILED"),
        final("DONE", "done"), final("PARTIAL", "partial"), final("FAILED", "failed"), final("CANCELLED", "cancelled"),
    ],
)  # fmt: skip

EFFECTS = """
create function holdfast.some_run_effects(moved holdfast.moved[]) returns void language plpgsql as $$
begin
  perform holdfast.finish_generations(m.task_id, d.outcome::text)
  from unnest(moved) m join holdfast.task_done d on d.id = m.task_id;
end $$;
"""


@dataclass
class Runs:
    """Whoever starts runs here."""

    store: Store
    owner: asyncpg.Connection
    datasets: Datasets

    async def start(self, *nodes: str, writes: str = "prices", extends: bool = False, cutover: str = "auto") -> UUID:
        made = await self.store.submit(
            Submission("nightly", lifecycle="some_run"), *(Submission(name, parent=0) for name in nodes)
        )
        run = made[0].id
        assert run
        for dataset in writes.split():
            query = "select * from holdfast.open_generation('', $1, $2, $3, $4, 'ada')"
            await self.owner.fetchrow(query, dataset, run, extends, cutover)
        return run

    async def end(self, **outputs: Any) -> None:
        """Let as many nodes as there are keywords be done, each with one output (`key=rows`)."""
        for key, rows in outputs.items():
            lease = await take_one(self.store)
            await deliver(self.store, lease, Output("prices", key=key, rows=rows))

    async def held(self, n: int) -> list[Lease]:
        return await self.store.claim(["default"], n, lasting=MINUTE, worker="worker")

    async def read(self, name: str = "prices", **which: Any) -> dict[str, Any]:
        return await self.datasets.read("", name=name, **which)

    async def keys(self, name: str = "prices") -> dict[str, Any]:
        """What a reader sees: the rows by their keys."""
        return {one["key"]: one["rows"] for one in (await self.read(name))["items"]}

    async def states(self, name: str = "prices") -> list[str]:
        """Of all generations, the oldest first."""
        dataset = UUID((await self.datasets.find("", name=name))[0]["dataset_id"])
        return [one["state"] for one in reversed(await self.datasets.generations(dataset))]

    async def id(self, name: str = "prices") -> UUID:
        return UUID((await self.datasets.find("", name=name))[0]["dataset_id"])


async def deliver(store: Store, proof: Proof, *outputs: Output, result: Any = None) -> Settled:
    (settled,) = await store.deliver(Completion(proof, Done(result, outputs)))
    return settled


async def publish(store: Store, *outputs: Output, name: str = "work", **options: Any) -> UUID:
    """A task of no run that is done with these outputs; its id."""
    task = await submit(store, name, **options)
    (lease,) = await store.claim_these([task], lasting=MINUTE, worker="worker")
    assert (await deliver(store, lease, *outputs)).status == "ok"
    return task
