"""What handlers ask over HTTP: only the words of a room, only under a lease, and as their types say."""

import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from holdfast.engine.lease_rpc import rpcs_of
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Json, Lease, Submission
from holdfast.lifecycles import services
from holdfast.lifecycles.pipeline.store import Jobs
from holdfast.remote.lease_rpc import dump_proof

NONSENSE: tuple[Json, ...] = (None, -1, 2**70, "\0", "\ud800", [], {}, [[]], [{}], str(uuid4()))


@pytest.fixture
async def lease(store: Store) -> Lease:
    """That of a job with one stage."""
    stage: Json = {"name": "read", "needs": [], "when": None, "required": True, "retries": 0, "timeout_seconds": None}
    await Jobs.over(store).declare(
        "brief", title="Brief", stages=[stage], params={}, queue="default", max_attempts=3, limit_seconds=None
    )
    await Jobs.over(store).make("brief", {}, owner="")
    (lease,) = await store.claim(["default"], lasting=timedelta(minutes=1), worker="w")
    return lease


async def call(http: httpx2.AsyncClient, place: str, held: Lease, /, **given: Any) -> httpx2.Response:
    body = json.dumps({**dump_proof(held), "given": given})
    return await http.post(f"/internal/rpc/{place}", content=body)


async def test_an_rpc_is_answered_as_the_method_answers(http: httpx2.AsyncClient, store: Store, lease: Lease) -> None:
    answer = (await call(http, "jobs/stages", lease, job=str(lease.task_id))).json()
    stages = rpcs_of(Jobs)["stages"]
    assert stages.load(answer) == await Jobs.over(store).stages(lease.task_id)
    assert (await call(http, "jobs/begin", lease, stage="read")).json() is True


async def test_an_rpc_without_the_lease_is_refused(http: httpx2.AsyncClient, store: Store, lease: Lease) -> None:
    stale = Lease(**{**vars(lease), "token": uuid4()})
    for place, given in {"jobs/stages": {"job": str(lease.task_id)}, "jobs/begin": {"stage": "read"}}.items():
        refused = await call(http, place, stale, **given)
        assert (refused.status_code, refused.json()["code"]) == (409, "lease-lost")
    (stage,), _ = await Jobs.over(store).stages(lease.task_id)
    assert stage.status == "pending"


@pytest.mark.parametrize(
    "place", ["jobs/declare", "jobs/_rows", "jobs/make", "store/cancel", "jobs/", "spending/costs"]
)
async def test_an_unknown_rpc_is_not_found(http: httpx2.AsyncClient, lease: Lease, place: str) -> None:
    assert (await call(http, place, lease)).status_code == 404


@pytest.mark.parametrize(
    "given",
    [{}, {"stage": 7}, {"stage": None}, {"stage": ["read"]}, {"stage": "\0"}, {"stage": "x" * 100_000}],
    ids=lambda given: json.dumps(given)[:20],
)
async def test_wrong_arguments_of_an_rpc_are_refused(
    http: httpx2.AsyncClient, lease: Lease, given: dict[str, Any]
) -> None:
    assert (await call(http, "jobs/begin", lease, **given)).status_code in (409, 422)


@pytest.mark.parametrize("service", services(), ids=lambda service: service.__name__)
async def test_no_rpc_breaks_over_its_arguments(http: httpx2.AsyncClient, lease: Lease, service: Any) -> None:
    """Nonsense of each kind for every argument: refused, or answered with nothing."""
    for rpc in rpcs_of(service).values():
        names = list(rpc.signature.parameters)[1:]
        for nonsense in NONSENSE:
            answer = await call(http, f"{service.__name__.lower()}/{rpc.name}", lease, **dict.fromkeys(names, nonsense))
            assert answer.status_code < 500, (rpc.name, nonsense, answer.text)


async def test_vectors_that_are_no_text_are_refused(http: httpx2.AsyncClient, lease: Lease) -> None:
    given = {"embedder": "e", "dimensions": 2, "chunks": [], "vectors": None}
    answer = await call(http, "library/persist_chunks", lease, **given)
    assert (answer.status_code, "vectors" in answer.text) == (422, True)


async def test_a_budget_is_blocked_for_all_also_one_that_nobody_counts(http: httpx2.AsyncClient, store: Store) -> None:
    until = await store.now() + timedelta(minutes=5)
    body = {"budget": "somewhere", "until": until.isoformat()}
    assert (await http.post("/internal/block-budget", json=body)).status_code == 204
    grant = await store.spend("somewhere", 1)
    assert not grant.granted
    assert grant.retry_at
    assert grant.retry_at >= until


async def test_tasks_of_other_lifecycles_have_no_stages(http: httpx2.AsyncClient, store: Store) -> None:
    await store.submit(Submission("plain"))
    (plain,) = await store.claim(["default"], lasting=timedelta(minutes=1), worker="w")
    assert (await call(http, "jobs/stages", plain, job=str(plain.task_id))).json() == [[], {}]
