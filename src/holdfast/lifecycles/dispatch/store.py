"""The functions of graphs.sql, retrying.sql and runs.sql, as Python: one short method for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls, require_one
from holdfast.engine.task import Event, Json
from holdfast.errors import GraphUnknown


@dataclass(frozen=True)
class NodeMove(Event):
    """One move of a node of a run."""

    node: str
    task_id: UUID


class Dags(Calls):
    """Graphs of tasks and their runs."""

    async def declare(
        self,
        name: str,
        *,
        title: str,
        nodes: Sequence[Json],
        edges: Sequence[Json],
        params: Mapping[str, Json],
        writes: Mapping[str, str],
        cutover: str,
    ) -> None:
        """Say what a graph is. Raises RequestInvalid or GraphCycle."""
        shape = [encode.dump(one) for one in (list(nodes), list(edges), dict(params), dict(writes))]
        await self._call("declare_dag", name, title, *shape, cutover)

    async def list_declared(self) -> list[dict[str, Any]]:
        """What there is to run, and whether workers are there that know all its nodes."""
        return await self._documents("dags")

    async def start(
        self,
        dag: str,
        params: Mapping[str, Json],
        *,
        owner: str = "",
        key: str | None = None,
        by: str = "",
        tags: Sequence[str] = (),
        priority: int | None = None,
        trace: str | None = None,
    ) -> tuple[UUID, bool]:
        """A run of a declared graph, and whether this call made it. Raises RequestInvalid or KeyConflict."""
        given = (encode.text(dag), encode.dump(dict(params)), encode.text(owner), encode.text(key), by, list(tags))
        row = (await self._table("start_dag", *given, encode.whole(priority), trace, repeatable=key is not None))[0]
        return row["run"], row["created"]

    async def start_graph(
        self,
        name: str,
        nodes: Sequence[Json],
        edges: Sequence[Json],
        *,
        writes: Mapping[str, str],
        cutover: str = "auto",
        owner: str = "",
        key: str | None = None,
        by: str = "",
        tags: Sequence[str] = (),
        trace: str | None = None,
    ) -> tuple[UUID, bool]:
        """A run of a graph that was never declared. Raises RequestInvalid, GraphCycle or KeyConflict."""
        shape = [encode.dump(one) for one in (list(nodes), list(edges), dict(writes))]
        given = (cutover, encode.text(owner), encode.text(key), by, list(tags), trace)
        row = (await self._table("start_graph", encode.text(name), *shape, *given, repeatable=key is not None))[0]
        return row["run"], row["created"]

    async def retry(self, run: UUID, by: str | None = None) -> UUID:
        """A new run, for the nodes that did not complete. Raises GraphUnknown or MoveRefused."""
        answer: UUID = await self._call("retry_dag", run, by, repeatable=False)
        return answer

    async def read(
        self, runs: Sequence[UUID], owner: str | None = None, *, nodes: bool = False
    ) -> list[dict[str, Any]]:
        """What there is to tell of these runs, but for those that are not `owner`'s."""
        return await self._documents("read_dags", list(runs), owner, nodes)

    async def run(self, run: UUID, owner: str | None = None) -> dict[str, Any]:
        """One of them, with its nodes and edges. Raises GraphUnknown."""
        missing = GraphUnknown(f"No run of a graph has the id {run}.", fix="GET /dags lists them.")
        return require_one(await self.read([run], owner, nodes=True), missing)

    async def moves(self, nodes: Sequence[Mapping[str, Any]]) -> list[NodeMove]:
        """Every move of these nodes of a run, each node's in order."""
        query = (
            "select n.node, n.task_id, e.* from unnest($1::text[], $2::uuid[]) n(node, task_id)"
            " cross join lateral holdfast.events(n.task_id) e"
        )
        rows = await self._rows(query, [one["name"] for one in nodes], [one["task_id"] for one in nodes])
        return [encode.from_row(NodeMove, row) for row in rows]
