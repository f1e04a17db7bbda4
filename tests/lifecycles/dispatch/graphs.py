"""Graphs for tests: written down in a line, run by hand."""

import re
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Lease, Outcome
from holdfast.lifecycles.dispatch.store import Dags
from tests.promises.stage import MINUTE

FATAL = Failed("Fatal", "no")


def shape(*lines: str) -> dict[str, list[dict[str, Any]]]:
    """Nodes and edges of lines such as "a b -> c" and "c ->ignore d": those before the arrow come first."""
    nodes: dict[str, None] = {}
    edges = []
    for line in lines:
        before, policy, behind = re.fullmatch(r"([\w ]*?) *(?:->(\w*) *([\w ]*))?", line).groups()  # type: ignore[union-attr]
        nodes |= dict.fromkeys([*before.split(), *(behind or "").split()])
        edges += [
            {"from": one, "to": other, **({"on_failure": policy} if policy else {})}
            for one in before.split()
            for other in (behind or "").split()
        ]
    return {"nodes": [{"name": name, "task": f"t.{name}"} for name in nodes], "edges": edges}


class Running:
    """A run whose nodes are worked on by hand."""

    def __init__(self, store: Store, run: UUID) -> None:
        self.store = store
        self.dags = Dags.over(store)
        self.id = run

    @classmethod
    async def of(cls, store: Store, *lines: str, **options: Any) -> "Running":
        options = {"writes": {}, **options}
        graph = shape(*lines)
        run, _ = await Dags.over(store).start_graph("graph", graph["nodes"], graph["edges"], **options)
        return cls(store, run)

    async def read(self) -> dict[str, Any]:
        return await self.dags.run(self.id)

    async def state(self) -> str:
        return str((await self.read())["state"])

    async def ids(self) -> dict[str, UUID]:
        return {one["name"]: UUID(one["task_id"]) for one in (await self.read())["nodes"]}

    async def states(self) -> dict[str, str]:
        return {one["name"]: one["state"] for one in (await self.read())["nodes"]}

    async def take(self, names: Iterable[str]) -> list[Lease]:
        ids = await self.ids()
        asked = [ids[name] for name in names]
        found = {one.task_id: one for one in await self.store.claim_these(asked, lasting=MINUTE, worker="worker")}
        return [found[one] for one in asked]

    async def end(self, **outcomes: Outcome) -> None:
        """End these nodes, in this order."""
        for name, outcome in outcomes.items():
            (lease,) = await self.take([name])
            await self.store.finish(lease, outcome)

    async def done(self, names: str, result: Any = None) -> None:
        await self.end(**{name: Done(result) for name in names.split()})
