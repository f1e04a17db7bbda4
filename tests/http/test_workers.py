"""The words of a worker over HTTP: each is proven by the lease, and answers as the kernel does."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
from fastapi import FastAPI

from holdfast.engine.backend import WorkerBackend
from holdfast.engine.lifecycle.model import Lifecycle, final, work
from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import Role
from holdfast.engine.task import (
    Cancelled,
    Checkpoint,
    Done,
    Failed,
    Later,
    Lease,
    Moved,
    Outcome,
    Partial,
    Proof,
    Submission,
)
from holdfast.errors import (
    DeclarationInvalid,
    LeaseLost,
    MoveRefused,
    RequestInvalid,
    RoleMissing,
    ServerUnreachable,
)
from holdfast.lifecycles.dispatch.declaration import DISPATCH
from holdfast.remote.server import Server
from holdfast.remote.worker_backend import RemoteWakeups, RemoteWorker, open_remote
from holdfast.schedules.store import Schedules
from holdfast.settings import Settings
from holdfast.testing import Clock, Database
from tests.http.conftest import client
from tests.http.serving import serving
from tests.promises.stage import MINUTE, submit

WORKER = "w1"


@pytest.fixture
def backend(app: FastAPI) -> RemoteWorker:
    return RemoteWorker(Server(Settings(api="http://localhost:7777"), client(app)))


async def taken(backend: WorkerBackend, n: int = 10) -> list[Lease]:
    return (await backend.settle_and_claim([], ["default"], n, lasting=MINUTE, worker=WORKER, names=["work"]))[1]


async def test_a_lease_is_the_same_by_whatever_way_it_came(backend: RemoteWorker, store: Store) -> None:
    await submit(store, payload={"text": "grüße", "deep": [1, {"x": None}]}, priority=3)
    (lease,) = await taken(backend)
    again = (await backend.settle_and_claim([(lease, Later())], ["default"], 0, lasting=MINUTE, worker=WORKER))[0]
    assert again == {}
    (plain,) = await store.claim(["default"], lasting=MINUTE, worker=WORKER)
    fields = set(vars(plain)) - {"token", "expires_at", "version", "resumed", "due_at"}
    assert {name: vars(lease)[name] for name in fields} == {name: vars(plain)[name] for name in fields}
    assert all(isinstance(vars(plain)[name], type(value)) for name, value in vars(lease).items())


TICKET = Lifecycle(
    "ticket", start="OPEN", cancel="DROPPED", fail="BROKEN",
    states=[
        work("OPEN", to=["CHECKED", "HALF"], done="CLOSED"), work("CHECKED", to=["CLOSED"]),
        final("CLOSED", "done"), final("HALF", "partial"), final("BROKEN", "failed"), final("DROPPED", "cancelled"),
    ],
)  # fmt: skip

OUTCOMES: list[tuple[Outcome, str]] = [
    (Done({"all": "well"}), "CLOSED"),
    (Moved("CHECKED", {"looked": 1}, timedelta(seconds=1.5)), "CHECKED"),
    (Moved("HALF", {"half": 1}), "HALF"),
    (Later(timedelta(seconds=2), kind="poll", message="half a pair \ud800"), "OPEN"),
    (Failed("Fatal", "no \0 \ud800", code="x", step="first"), "BROKEN"),
    (Failed("RateLimited", "slowly", retry_after=timedelta(seconds=3), budget="vendor"), "OPEN"),
    (Cancelled("nobody asked"), "OPEN"),
]


@pytest.mark.parametrize(("outcome", "state"), OUTCOMES, ids=lambda one: str(one)[:30])
async def test_every_outcome_leads_where_it_leads_over_sql(
    backend: RemoteWorker, store: Store, outcome: Outcome, state: str
) -> None:
    await backend.declare([TICKET.definition()], {}, ["ticket"])
    tasks = [one.id for one in await store.submit(*[Submission("work", lifecycle="ticket")] * 2) if one.id]
    first, second = (await backend.settle_and_claim([], ["ticket"], 2, lasting=MINUTE, worker=WORKER, names=["work"]))[
        1
    ]
    await backend.settle_and_claim([(first, outcome)], ["ticket"], 0, lasting=MINUTE, worker=WORKER)
    await store.settle((second, outcome))
    by_http, by_sql = [await store.read(one) for one in (first.task_id, second.task_id)]
    assert {by_http["state"], by_sql["state"]} == {state}
    assert by_http["result"] == by_sql["result"]
    notes = [(await store.events(task))[-1].data for task in tasks]
    for note in notes:
        (note or {}).pop("retry_at", None)
    assert notes[0] == notes[1]


async def test_what_a_lifecycle_refuses_is_answered_for_each(backend: RemoteWorker, store: Store) -> None:
    await submit(store)
    await submit(store)
    first, second = await taken(backend)
    stale = Proof(second.task_id, second.attempt, uuid4())
    refused, _ = await backend.settle_and_claim(
        [(first, Partial()), (stale, Done())], ["default"], 0, lasting=MINUTE, worker=WORKER
    )  # fmt: skip
    assert refused == {first.task_id: "undeclared", second.task_id: "lost"}
    (settled,) = await backend.settle((second, Done(1)))
    assert (settled.status, settled.state, settled.task_id) == ("ok", "Completed", second.task_id)


async def test_whoever_does_not_hold_a_task_neither_reads_nor_writes_in_it(backend: RemoteWorker, store: Store) -> None:
    await submit(store)
    (lease,) = await taken(backend)
    (kept,) = await backend.checkpoint(Checkpoint(lease, "one", {"secret": 1}))
    assert kept.status == "ok"
    stranger = Proof(lease.task_id, lease.attempt, uuid4())
    with pytest.raises(LeaseLost):
        await backend.held_steps(stranger)
    with pytest.raises(LeaseLost):
        await backend.record(stranger, "seen")
    assert (await backend.checkpoint(Checkpoint(stranger, "two")))[0].status == "lost"
    assert await backend.mark_lost([stranger]) == 0
    assert await backend.heartbeat([stranger], lasting=MINUTE) == {}
    (step,) = await backend.held_steps(lease)
    assert (step.name, step.result, step.done) == ("one", {"secret": 1}, True)
    await backend.record(lease, "seen", "one", {"by": "me"})
    beat = (await backend.heartbeat([lease], lasting=MINUTE, progress={lease.task_id: {"done": 1}}))[lease.task_id]
    assert (beat.cancel_requested, (await store.read(lease.task_id))["progress"]) == (False, {"done": 1})


async def test_claims_whose_answer_was_lost_go_back(backend: RemoteWorker, store: Store) -> None:
    tasks = [await submit(store) for _ in range(3)]
    (kept, *_) = await taken(backend)
    assert await backend.release_leases(WORKER, [kept.task_id]) == 2
    assert [bool((await store.read(task))["lease_expires_at"]) for task in tasks].count(True) == 1
    assert await backend.mark_lost([kept]) == 1
    known = {"work": {"priority": 3}}
    await backend.hello(WORKER, label="here", queues=["default"], names=["work"], slots=2, tasks=known)
    assert [one.label for one in await store.workers()] == ["here"]
    await backend.goodbye(WORKER)
    assert await store.workers() == []


async def test_an_application_declares_what_is_its_own_and_nothing_else(backend: RemoteWorker, store: Store) -> None:
    await backend.declare([TICKET.definition()], {}, ["ticket", "letters"])
    assert {"ticket", "letters"} <= {one.name for one in await store.queues()}
    with_effects = {**TICKET.definition(), "name": "mine", "effects": "dispatch_moved"}
    for wrong in (DISPATCH.definition(), with_effects, {"name": "half"}, {**TICKET.definition(), "states": 7}):
        with pytest.raises(DeclarationInvalid):
            await backend.declare([wrong], {}, [])
    assert "mine" not in {one.name for one in await store.lifecycles()}


async def test_a_key_declares_schedules_of_its_own_if_it_may_start_tasks(app: FastAPI, store: Store) -> None:
    def schedules(name: str, owner: str = "") -> dict[str, Any]:
        target = {"name": "report", "payload": {}}
        one = {"name": name, "cron": "0 2 * * *", "timezone": "UTC", "starts": "task", "missed": "latest"}
        return {"schedules": [{**one, "target": target, "owner": owner}]}

    async def spoken(name: str, *roles: Role) -> RemoteWorker:
        key = (await store.keys.make(name, list(roles))).secret
        return RemoteWorker(Server(Settings(api="http://localhost:7777"), client(app, key)))

    only_works, ada, bob = await spoken("w", "worker"), *[await spoken(one, "worker", "user") for one in ("ada", "bob")]
    chief = await spoken("chief", "worker", "operator")
    with pytest.raises(RoleMissing, match="which start tasks"):
        await only_works.declare([], schedules("nightly"), [])
    await ada.declare([], schedules("nightly"), [])
    await ada.declare([], schedules("nightly"), [])
    for other in (schedules("nightly"), schedules("theirs", "ada")):
        with pytest.raises(RequestInvalid, match="is not that of bob"):
            await bob.declare([], other, [])
    await chief.declare([], schedules("house"), [])
    found = await Schedules.over(store).read()
    assert [(one["name"], one["owner"]) for one in found] == [("house", ""), ("nightly", "ada")]


async def test_budgets_are_shared_with_workers_over_http(backend: RemoteWorker, store: Store) -> None:
    await store.set_budget("vendor", 1, timedelta(minutes=1))
    first, second = await backend.spend("vendor"), await backend.spend("vendor")
    assert (first.granted, second.granted) == (True, False)
    assert second.retry_at is not None
    with pytest.raises(RequestInvalid):
        await backend.spend("nobody set this")


async def test_a_key_that_is_refused_at_work_is_waited_for(backend: RemoteWorker, store: Store) -> None:
    await store.keys.make("somebody", ["user"])  # from now on requests need one
    with pytest.raises(ServerUnreachable):
        await taken(backend)


# Sleeping


async def test_whoever_sleeps_at_a_server_is_woken(database: Database, store: Store) -> None:
    with serving(database) as address:
        async with open_remote(Settings(api=address)) as backend:
            await backend.hello(WORKER, label="", queues=["default"], names=["work"], slots=1)
            wakeups = RemoteWakeups(backend, WORKER)
            assert await wakeups.wait(20), "who is new looks once, for whatever was missed"
            while await wakeups.wait(0.5):
                pass
            sleeping = asyncio.create_task(wakeups.wait(60))
            await asyncio.sleep(0.2)
            assert not sleeping.done()
            await submit(store)
            assert await sleeping


async def test_where_nobody_hears_the_time_is_slept_through(backend: RemoteWorker) -> None:
    began = asyncio.get_running_loop().time()
    assert not await RemoteWakeups(backend, WORKER).wait(0.2)
    assert asyncio.get_running_loop().time() - began >= 0.2


async def test_a_sleeper_learns_when_something_falls_due(backend: RemoteWorker, store: Store, clock: Clock) -> None:
    await backend.hello(WORKER, label="", queues=["default"], names=["work"], slots=1)
    assert await backend.idle(WORKER) is None
    await submit(store, delay=timedelta(seconds=90))
    assert await backend.idle(WORKER) == timedelta(seconds=90)


# Servers


class Flaky(httpx2.AsyncBaseTransport):
    """Two servers, of which the one named is away in some way."""

    def __init__(self, app: FastAPI, away: str, how: Any) -> None:
        self.inner = httpx2.ASGITransport(app, raise_app_exceptions=False)
        self.away = away
        self.how = how
        self.asked: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request.url.host)
        if request.url.host == self.away:
            if isinstance(self.how, int):
                return httpx2.Response(self.how, request=request)
            raise self.how("away")
        return await self.inner.handle_async_request(request)


def two(app: FastAPI, how: Any) -> tuple[Flaky, RemoteWorker]:
    flaky = Flaky(app, "127.0.0.1", how)
    server = Server(Settings(api="http://127.0.0.1:1, http://localhost:2"), httpx2.AsyncClient(transport=flaky))
    server._current = 0
    return flaky, RemoteWorker(server)


@pytest.mark.parametrize("how", [httpx2.ConnectError, httpx2.ReadError, 503, 502])
async def test_when_one_server_is_away_the_next_is_asked(app: FastAPI, store: Store, how: Any) -> None:
    flaky, backend = two(app, how)
    await backend.hello(WORKER, label="", queues=["default"], names=["work"], slots=1)
    assert flaky.asked == ["127.0.0.1", "localhost"]
    await backend.goodbye(WORKER)
    assert flaky.asked[2:] == ["localhost"], "who was away is not asked first again"


async def test_a_claim_is_not_sent_again_unless_it_never_arrived(app: FastAPI, store: Store) -> None:
    await submit(store)
    flaky, backend = two(app, httpx2.ReadError)
    with pytest.raises(ServerUnreachable):
        await taken(backend)
    assert flaky.asked == ["127.0.0.1"]
    flaky, backend = two(app, httpx2.ConnectError)
    assert len(await taken(backend)) == 1


async def test_what_cannot_be_written_is_refused_as_over_sql(backend: RemoteWorker, store: Store) -> None:
    await submit(store)
    (lease,) = await taken(backend)
    for wrong in (float("nan"), object(), "a\0b", "\ud800"):
        with pytest.raises(RequestInvalid):
            await backend.settle_and_claim([(lease, Done(wrong))], ["default"], 0, lasting=MINUTE, worker=WORKER)
    with pytest.raises(MoveRefused):
        await store.finish(lease, Moved("Queued"))
    assert isinstance(lease.task_id, UUID)
    assert (await backend.settle((lease, Done("fine"))))[0].status == "ok"
