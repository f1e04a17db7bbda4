"""Graphs of tasks over HTTP: started by name or as they are drawn, read node by node, cancelled, retried."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from holdfast.engine.store.commands import Store
from holdfast.engine.store.records import CountedPage
from holdfast.engine.task import Policy
from holdfast.errors import RequestInvalid
from holdfast.http.access import GuardedLong, User, UserOrOperator, make_router, owned_by
from holdfast.http.fields import Body, Cancel, Name
from holdfast.http.parts import OUTCOMES, Part, running_part
from holdfast.http.shapes import CancelEffect, Creating, Filter, Items, Listing, cancel_task, counted_page, ids_of
from holdfast.lifecycles.dispatch.declaration import DAG
from holdfast.lifecycles.dispatch.routes import TaskCall
from holdfast.lifecycles.dispatch.store import Dags

poll_after_ms = 1000

State = Literal["Running", "Completed", "Partial", "Failed", "Canceled"]
NodeName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\u0000]+$")]


class NewNode(TaskCall):
    """A node: the task that workers know. What it leaves out is as a live worker says of the task."""

    name: NodeName


class NewEdge(Body):
    """Which node comes after which, and what becomes of it if the other ends badly."""

    model_config = ConfigDict(populate_by_name=True)

    from_: NodeName = Field(alias="from")
    to: NodeName
    on_failure: Policy = "cancel"


class NewDag(Body):
    """Either a declared graph by its name (`dag`, `params`), or nodes and edges under a name of their own."""

    dag: Name | None = None
    params: Annotated[dict[str, Any], Field(max_length=1000)] | None = None
    name: NodeName | None = None
    nodes: Annotated[tuple[NewNode, ...], Field(min_length=1, max_length=5000, fail_fast=True)] | None = None
    edges: Annotated[tuple[NewEdge, ...], Field(max_length=20_000, fail_fast=True)] | None = None
    writes: Annotated[dict[Name, Literal["replace", "extends"]], Field(max_length=20)] | None = None
    cutover: Literal["auto", "manual"] | None = None
    tags: Annotated[tuple[Name, ...], Field(max_length=20, fail_fast=True)] = ()


class Node(BaseModel):
    """A node of a run, and where its task is."""

    name: str
    task_id: UUID
    task: str
    state: str
    outcome: str | None
    attempt: int
    max_attempts: int
    due_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    progress: Any


class Edge(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    from_: str = Field(alias="from")
    to: str
    on_failure: Policy


class Progress(BaseModel):
    """How many nodes are where."""

    total: int
    blocked: int
    queued: int
    running: int
    retrying: int
    completed: int
    failed: int
    canceled: int


class Written(BaseModel):
    """A dataset of which the run makes a new generation."""

    dataset: str
    mode: str
    dataset_id: UUID | None = None
    version: int | None = None


class Run(BaseModel):
    """A run of a graph. `retried_as` is the run that goes on where this one failed."""

    dag_id: UUID
    name: str
    declared: bool
    state: str
    outcome: str | None
    owner: str
    params: dict[str, Any]
    writes: list[Written]
    cutover: str
    error: str | None
    progress: Progress
    created_at: datetime
    finished_at: datetime | None
    retry_of: UUID | None
    retried_as: UUID | None
    poll_after_ms: int | None


class WholeRun(Run):
    nodes: list[Node]
    edges: list[Edge]
    parts: list[Part]


class Made(BaseModel):
    dag_id: UUID
    state: str
    nodes: dict[str, UUID]


class Effect(CancelEffect):
    dag_id: UUID
    state: str


class Retried(Made):
    retry_of: UUID


def routes(store: Store) -> APIRouter:
    router = make_router("/dags", "dispatch", guard=GuardedLong)
    dags = Dags.over(store)

    @router.post("", status_code=201)
    async def start(asked: NewDag, caller: User, new: Creating) -> Made:
        """Start a run. The same `Idempotency-Key` starts it once. Nodes that wait for each other are a 409 `cycle`."""
        check_asked(asked)
        options: dict[str, Any] = {
            "owner": caller.owner, "key": new.key, "by": caller.name, "tags": asked.tags, "trace": new.trace,
        }  # fmt: skip
        if asked.dag is not None:
            run, created = await dags.start(asked.dag, asked.params or {}, **options)
        else:
            run, created = await dags.start_graph(
                asked.name or "",
                [one.model_dump(exclude_none=True) for one in asked.nodes or ()],
                [one.model_dump(by_alias=True) for one in asked.edges or ()],
                writes=asked.writes or {}, cutover=asked.cutover or "auto", **options,
            )  # fmt: skip
        new.mark_repeated(not created)
        return Made(**made(await dags.run(run)))

    @router.get("")
    async def list_runs(
        caller: UserOrOperator,
        listing: Listing,
        dag: Filter = None,
        state: State | None = None,
        tag: Filter = None,
        owner: Filter = None,
    ) -> CountedPage[Run]:
        """Runs, the newest first; those of one graph, or in one state. A user sees their own."""
        mine = owned_by(caller)
        page = await store.list_tasks(
            lifecycle=DAG.name, name=dag, state=state, tag=tag, owner=owner if mine is None else mine, **vars(listing),
        )  # fmt: skip
        found = await dags.read(ids_of(page), mine)
        return counted_page(page, [Run(**one, poll_after_ms=soon(one)) for one in found])

    @router.get("/declared")
    async def list_declared(caller: UserOrOperator) -> Items[dict[str, Any]]:
        """The graphs that applications have declared: nodes, edges, parameters, what they write.

        `ready`: workers are there that know all nodes.
        """
        return Items(items=await dags.list_declared())

    @router.get("/{dag_id}")
    async def read(dag_id: UUID, caller: UserOrOperator) -> WholeRun:
        """A run, node by node, and when to ask again."""
        found = await dags.run(dag_id, owned_by(caller))
        parts = [part_of(one) for one in found["nodes"]]
        return WholeRun(**found, parts=parts, poll_after_ms=soon(found))

    @router.post("/{dag_id}/cancel", status_code=202)
    async def cancel(dag_id: UUID, caller: UserOrOperator, asked: Cancel | None = None) -> Effect:
        """Cancel a run: what waits is cancelled at once, what runs is stopped by its worker."""
        await dags.run(dag_id, owned_by(caller))
        effect = await cancel_task(store, dag_id, asked, caller)
        return Effect(dag_id=dag_id, effect=effect, state=(await store.read(dag_id))["state"])

    @router.post("/{dag_id}/retry", status_code=201)
    async def retry(dag_id: UUID, caller: UserOrOperator) -> Retried:
        """A new run, in which only what did not complete runs again."""
        await dags.run(dag_id, owned_by(caller))
        new = await dags.retry(dag_id, by=caller.name)
        return Retried(**made(await dags.run(new)), retry_of=dag_id)

    return router


def check_asked(asked: NewDag) -> None:
    """Raise RequestInvalid unless it is the one kind of request or the other."""
    drawn = [asked.name, asked.nodes, asked.edges, asked.writes, asked.cutover]
    if asked.dag is not None and any(one is not None for one in drawn):
        raise RequestInvalid("It names a declared graph, and draws another.", fix="Send `dag`, or `name` and `nodes`.")
    if asked.dag is None and (asked.name is None or asked.nodes is None or asked.params is not None):
        raise RequestInvalid("It names no declared graph, and draws none.", fix="Send `dag`, or `name` and `nodes`.")


def made(run: dict[str, Any]) -> dict[str, Any]:
    nodes = {one["name"]: one["task_id"] for one in run["nodes"]}
    return {"dag_id": run["dag_id"], "state": run["state"], "nodes": nodes}


def part_of(node: dict[str, Any]) -> Part:
    """A node as a part of its run."""
    tries = f"attempt {node['attempt']} of {node['max_attempts']}" if node["attempt"] > 1 else ""
    if node["state"] == "Running":
        return running_part(node["name"], node["progress"], note=tries, started_at=node["started_at"])
    status = OUTCOMES.get(node["outcome"], "waiting")
    return Part(name=node["name"], status=status, note=tries or None, error=node["error"])


def soon(run: dict[str, Any]) -> int | None:
    return None if run["finished_at"] else poll_after_ms
