"""Credits are never lost, never spent twice, never below zero."""

import asyncio
from collections import Counter
from typing import Any
from urllib.parse import quote
from uuid import UUID

import asyncpg
import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Cancelled, Checkpoint, Done, Failed
from holdfast.lifecycles.analysis.intake import Intake
from tests.lifecycles.analysis.harness import Harness, harness_of, lasting
from tests.tiers import deep


async def ledger(harness: Harness, query: str, *arguments: object) -> Any:
    async with harness.engine.database.connect_owner() as connection:
        return await connection.fetchval(query, *arguments)


@pytest.fixture(autouse=True)
async def balanced(harness: Harness) -> Any:
    """After every test the ledger sums to zero, and each wallet is what the ledger says."""
    yield
    assert await ledger(harness, "select coalesce(sum(credits), 0) from holdfast.ledger") == 0
    wrong = """
        select count(*) from holdfast.wallet w where (w.balance, w.reserved, w.spent) <> (
          select coalesce(sum(l.credits) filter (where l.account = 'balance'), 0),
                 coalesce(sum(l.credits) filter (where l.account = 'reserved'), 0),
                 coalesce(sum(l.credits) filter (where l.account = 'spent'), 0)
          from holdfast.ledger l where l.owner = w.owner)"""
    assert await ledger(harness, wrong) == 0
    reserved = "select coalesce(sum(reserved), 0) from holdfast.{}"
    assert await ledger(harness, reserved.format("wallet")) == await ledger(harness, reserved.format("analysis"))


async def test_credits_are_set_aside_then_charged_agent_by_agent(harness: Harness) -> None:
    task = await harness.queued()
    assert await harness.wallet() == {"balance": 995, "reserved": 5, "spent": 0}
    (lease,) = await harness.store.claim_these([task], lasting=lasting, worker="a test")
    await harness.store.keep(lease, "lines", [])
    assert await harness.wallet() == {"balance": 995, "reserved": 3, "spent": 2}
    await harness.store.keep(lease, "lines", [])  # said twice, charged once
    assert await harness.wallet() == {"balance": 995, "reserved": 3, "spent": 2}
    await harness.store.keep(lease, "size", [])
    await harness.store.finish(lease, Done({}))
    assert await harness.wallet() == {"balance": 995, "reserved": 0, "spent": 5}
    assert (await harness.read(task))["credits"] == {"price": 5, "charged": 5, "reserved": 0}


@pytest.mark.parametrize("end", ["failed", "cancelled", "timed out", "expired", "cancelled while queued", "lost"])
async def test_whatever_way_a_task_ends_the_rest_goes_back(harness: Harness, end: str) -> None:
    task = await harness.queued()
    spent = 0
    if end not in ("expired", "cancelled while queued"):
        (lease,) = await harness.store.claim_these([task], lasting=lasting, worker="a test")
        await harness.store.keep(lease, "lines", [])
        spent = 2
    match end:
        case "failed":
            await harness.store.finish(lease, Failed("Fatal", "no"))
        case "cancelled":
            await harness.cancel(task)
            await harness.store.finish(lease, Cancelled())
        case "timed out":
            harness.clock.advance(minutes=30)
            await harness.sweep()
        case "expired":
            harness.clock.advance(hours=1)
            await harness.sweep()
        case "cancelled while queued":
            await harness.cancel(task)
        case "lost":
            for _ in range(3):
                harness.clock.advance(minutes=1)
                await harness.store.mark_lost([lease])
                harness.clock.advance(minutes=1)
                claimed = await harness.store.claim_these([task], lasting=lasting, worker="a test")
                lease = claimed[0] if claimed else lease
    assert (await harness.read(task))["category"] == "Terminal"
    assert await harness.wallet() == {"balance": 1000 - spent, "reserved": 0, "spent": spent}


async def test_without_enough_credits_the_task_waits_where_it_is(harness: Harness) -> None:
    async with harness_of(harness, "ada", amount=4) as ada:
        task = await ada.uploaded()
        answer = await ada.process(task)
        assert (answer.status_code, answer.json()["code"]) == (402, "BILLING_INSUFFICIENT_CREDITS")
        assert answer.json()["detail"].startswith("This costs 5 credits, and 4 are left.")
        assert (await ada.read(task))["status"] == "UPLOADING"
        assert await ada.files_of(task) == ["uploads"]
        await harness.analyses.top_up("ada", 1, "an operator")
        assert (await ada.process(task)).status_code == 202
        assert await ada.wallet() == {"balance": 0, "reserved": 5, "spent": 0}


async def test_without_a_wallet_the_task_waits_where_it_is(harness: Harness) -> None:
    async with harness_of(harness, "ada", amount=0) as ada:
        task = await ada.uploaded()
        answer = await ada.process(task)
        assert (answer.status_code, answer.json()["code"]) == (402, "BILLING_WALLET_NOT_FOUND")
        assert (await ada.read(task))["status"] == "UPLOADING"
        missing = await ada.http.get("/wallet")
        assert (missing.status_code, missing.json()["code"]) == (404, "BILLING_WALLET_NOT_FOUND")


async def test_what_costs_nothing_needs_no_wallet(harness: Harness) -> None:
    async with harness_of(harness, "ada", amount=0) as ada:
        task = await ada.queued(["free"])
        harness.work()
        assert (await ada.read(task))["status"] == "COMPLETED"


@pytest.mark.parametrize(("many", "paid"), [(24, 6), deep((200, 50))])
async def test_of_many_at_once_as_many_queue_as_there_are_credits_for(harness: Harness, many: int, paid: int) -> None:
    async with harness_of(harness, "ada", amount=2 * paid) as ada:
        tasks = [await ada.uploaded(["lines"]) for _ in range(many)]
        watching = asyncio.create_task(never_negative(harness, 2 * paid))
        answers = await asyncio.gather(*(ada.process(task) for task in tasks))
        watching.cancel()
        assert Counter(answer.status_code for answer in answers) == {202: paid, 402: many - paid}
        assert not watching.done() or watching.cancelled()
        states = Counter([(await ada.read(task))["status"] for task in tasks])
        assert states == {"QUEUED": paid, "UPLOADING": many - paid}
        assert await ada.wallet() == {"balance": 0, "reserved": 2 * paid, "spent": 0}
        harness.work()
        assert await ada.wallet() == {"balance": 0, "reserved": 0, "spent": 2 * paid}
        charged = "select count(*) from holdfast.ledger where kind = 'charge' and account = 'spent'"
        assert await ledger(harness, charged) == paid


async def never_negative(harness: Harness, whole: int) -> None:
    """Look as often as can be: at no commit is anything below zero, or more in all than there was."""
    while True:
        row = await ledger(harness, "select (balance, reserved, balance + reserved + spent)::text from holdfast.wallet")
        balance, reserved, everything = map(int, row.strip("()").split(","))
        assert balance >= 0
        assert reserved >= 0
        assert everything == whole


async def test_who_reserves_waits_for_who_is_about_to(harness: Harness) -> None:
    async with harness_of(harness, "ada", amount=2) as ada, harness.engine.database.connect() as connection:
        first, second = await ada.uploaded(["lines"]), await ada.uploaded(["lines"])
        async with connection.transaction():
            intake = Intake(Store(connection), harness.objects)
            assert await intake.process(await intake.analyses.read(UUID(first))) == "QUEUED"
            late = asyncio.create_task(ada.process(second))
            waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'act'"
            while not await ledger(harness, f"{waiting} and datname = current_database()"):
                assert not late.done()
        answer = await late
        assert (answer.status_code, answer.json()["code"]) == (402, "BILLING_INSUFFICIENT_CREDITS")
        assert await ada.wallet() == {"balance": 0, "reserved": 2, "spent": 0}


async def test_one_task_processed_by_many_at_once_is_paid_once(harness: Harness) -> None:
    task = await harness.uploaded()
    answers = await asyncio.gather(*(harness.process(task) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {202}
    assert await harness.wallet() == {"balance": 995, "reserved": 5, "spent": 0}
    assert (await harness.files_of(task)).count("inputs") == 1


async def test_an_operator_tops_up_once_for_each_key(harness: Harness) -> None:
    for _ in range(2):
        answer = await harness.http.post(
            "/wallets/ada/top-up", json={"credits": 7}, headers={"Idempotency-Key": "pay-1"}
        )
        assert (answer.status_code, answer.json().get("balance")) == (200, 7)
    assert answer.headers["Idempotency-Replayed"] == "true"
    other = await harness.http.post("/wallets/ada/top-up", json={"credits": 8}, headers={"Idempotency-Key": "pay-1"})
    assert (other.status_code, other.json()["code"]) == (422, "key-conflict")
    assert (await harness.http.post("/wallets/ada/top-up", json={"credits": 3})).json()["balance"] == 10
    entries = (await harness.http.get("/wallets/ada")).json()["entries"]
    assert [(one["kind"], one["credits"], one["from"], one["to"], one["by"]) for one in entries] == [
        ("top_up", 3, "issued", "balance", "local"), ("top_up", 7, "issued", "balance", "local"),
    ]  # fmt: skip


@pytest.mark.parametrize("amount", [0, -5, 1.5, "7", True, 10**13])
async def test_what_is_no_number_of_credits_is_refused(harness: Harness, amount: object) -> None:
    answer = await harness.http.post("/wallets/ada/top-up", json={"credits": amount})
    assert answer.status_code == 422
    assert (await harness.http.get("/wallets/ada")).status_code == 404


@pytest.mark.parametrize("owner", ["ü", "a b", "x" * 200])
async def test_any_owner_can_be_given_credits(harness: Harness, owner: str) -> None:
    path = f"/wallets/{quote(owner, safe='')}"
    assert (await harness.http.post(f"{path}/top-up", json={"credits": 3})).json()["balance"] == 3
    assert (await harness.http.get(path)).json()["owner"] == owner


async def test_lists_over_many_wallets_do_not_wait_for_each_other_in_a_ring(harness: Harness) -> None:
    """Two lists, the second in the opposite order, each step charged to another owner's wallet."""
    owners = [f"owner-{number}" for number in range(6)]
    for owner in owners:
        await harness.analyses.top_up(owner, 100, "an operator")
    lists = []
    for round_number in range(2):
        tasks = [await queued_of(harness, owner) for owner in (owners if round_number else owners[::-1])]
        lists.append(await harness.store.claim_these(tasks, lasting=lasting, worker="a test"))
    before = await deadlocks(harness)
    for agent in ("lines", "size"):
        await asyncio.gather(
            *(harness.store.checkpoint(*(Checkpoint(one, agent, []) for one in each)) for each in lists)
        )
    await asyncio.gather(*(harness.store.settle(*((one, Done({})) for one in each)) for each in lists))
    assert await deadlocks(harness) == before
    for owner in owners:
        assert (await harness.analyses.read_wallet(owner))["spent"] == 10


async def queued_of(harness: Harness, owner: str) -> UUID:
    made = await harness.analyses.make("count", ["lines", "size"], owner=owner)
    await harness.store.act(made.task_id, "upload_urls")
    await harness.store.act(made.task_id, "process")
    return made.task_id


async def deadlocks(harness: Harness) -> int:
    await ledger(harness, "select pg_stat_clear_snapshot()")
    found: int = await ledger(harness, "select deadlocks from pg_stat_database where datname = current_database()")
    return found


async def test_users_see_their_own_wallet_and_no_other(harness: Harness) -> None:
    async with harness_of(harness, "ada", amount=4) as ada:
        assert (await ada.http.get("/wallet")).json()["balance"] == 4
        assert (await ada.http.get("/wallets/ada")).status_code == 403
        assert (await ada.http.post("/wallets/ada/top-up", json={"credits": 5})).status_code == 403


async def test_entries_come_in_pages(harness: Harness) -> None:
    for amount in range(1, 6):
        await harness.analyses.top_up("ada", amount, "an operator")
    first = (await harness.http.get("/wallets/ada?limit=2")).json()
    second = (await harness.http.get(f"/wallets/ada?limit=2&cursor={first['next']}")).json()
    assert [one["credits"] for one in [*first["entries"], *second["entries"]]] == [5, 4, 3, 2]


@pytest.mark.parametrize(
    "statement",
    [
        "update holdfast.ledger set credits = credits + 1",
        "delete from holdfast.ledger",
        "update holdfast.wallet set balance = -1",
        "insert into holdfast.ledger (transfer, kind, owner, account, credits)"
        " values (holdfast.uuid7(), 'top_up', '', 'balance', 5)",
    ],
)
async def test_what_would_unbalance_the_books_is_refused_even_by_hand(harness: Harness, statement: str) -> None:
    await harness.wallet()
    async with harness.engine.database.connect_owner() as connection:
        with pytest.raises(asyncpg.PostgresError):
            await connection.execute(statement)


async def test_a_worker_that_lost_its_lease_charges_nothing(harness: Harness) -> None:
    task, stale = await harness.processing()
    await harness.store.release_leases("a test")
    (lease,) = await harness.store.claim_these([task], lasting=lasting, worker="another")
    with pytest.raises(Exception, match="lease is no longer held"):
        await harness.store.keep(stale, "lines", [])
    assert (await harness.wallet())["spent"] == 0
    await harness.store.keep(lease, "lines", [])
    assert (await harness.wallet())["spent"] == 2


async def test_prices_are_those_of_the_day_the_task_was_made(harness: Harness) -> None:
    task = await harness.uploaded(["lines"])
    dear = {"id": "count", "title": "", "agents": [
        {"name": "lines", "title": "", "credits": 900, "needs_baseline": False}]}  # fmt: skip
    await harness.analyses.define_tool(dear)
    await harness.process(task)
    harness.work()
    assert (await harness.wallet())["spent"] == 2
