"""Webhooks: every end is told at least once and under one id, signed, whatever dies in between."""

import asyncio
import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed
from holdfast.errors import LifecycleUnknown, RequestInvalid, WebhookUnknown
from holdfast.remote.fetch.guard import Guard
from holdfast.testing import Clock, Database
from holdfast.webhooks import delivering
from holdfast.webhooks.delivering import Deliverer
from holdfast.webhooks.sending import check_url, send
from holdfast.webhooks.store import Sent, Webhooks
from tests.promises.stage import meet, submit, take_one
from tests.webhooks.conftest import HERE, all_sent
from tests.webhooks.receiver import Receiver, receiving


async def end(store: Store, outcome: Any = None, **options: Any) -> UUID:
    """A task that has ended."""
    task = await submit(store, **options)
    await store.finish(await take_one(store), outcome or Done({"secret": "result"}))
    return task


async def test_the_end_of_a_task_is_delivered_and_can_be_verified(
    store: Store, webhooks: Webhooks, receiver: Receiver, server: Deliverer
) -> None:
    await end(store, name="before")
    hook, secret = await webhooks.add(receiver.url(), "mine")
    done = await end(store, name="mail", owner="ada")
    dead = await end(store, Failed("Fatal", "no"))
    gone = await submit(store)
    await store.cancel(gone)
    await all_sent(server)
    received = {UUID(one["data"]["task_id"]): one for one in receiver.verified(secret)}
    assert {task: one["type"] for task, one in received.items()} == {
        done: "task.completed", dead: "task.failed", gone: "task.cancelled"
    }  # fmt: skip
    assert received[done]["data"] == {
        "task_id": str(done), "lifecycle": "dispatch", "name": "mail", "state": "Completed", "outcome": "done",
        "owner": "ada", "attempt": 1, "version": 2,
    }  # fmt: skip
    assert datetime.fromisoformat(received[done]["timestamp"]) == await store.now()
    assert "result" not in str(receiver.came)
    assert {(one.state, one.tries, one.status) for one in await webhooks.deliveries(hook)} == {("done", 1, 200)}
    headers, body = receiver.at()[0]
    assert headers["content-type"] == "application/json"
    assert headers["webhook-id"].startswith("msg_")
    for wrong in (body.replace(b"task.", b"tusk."), body + b" "):
        with pytest.raises(WebhookVerificationError):
            Verifier(secret).verify(wrong, headers)
    with pytest.raises(WebhookVerificationError):
        Verifier(secret).verify(body, {**headers, "webhook-id": "msg_other"})


async def test_only_what_was_asked_for_is_delivered(
    store: Store, webhooks: Webhooks, receiver: Receiver, server: Deliverer
) -> None:
    asked: dict[str, dict[str, Any]] = {
        "/failed": {"kinds": ["failed"]}, "/name": {"task_name": "mail"}, "/owner": {"owner": "ada"},
        "/batch": {"lifecycle": "batch"}, "/all": {"kinds": ["moved", "completed"]},
    }  # fmt: skip
    for path, options in asked.items():
        await webhooks.add(receiver.url(path), path, **options)
    mail = await end(store, name="mail")
    adas = await end(store, owner="ada")
    dead = await end(store, Failed("Fatal", "no"), owner="bob")
    await all_sent(server)

    def received(path: str) -> list[tuple[str, str]]:
        found = [json.loads(body) for _, body in receiver.at(path)]
        return sorted((one["data"]["task_id"], one["type"]) for one in found)

    assert received("/failed") == [(str(dead), "task.failed")]
    assert received("/name") == [(str(mail), "task.completed")]
    assert received("/owner") == [(str(adas), "task.completed")]
    assert received("/batch") == []
    assert sorted(kind for _, kind in received("/all")) == ["task.completed"] * 2 + ["task.moved"] * 6


async def test_what_is_refused_is_sent_again_under_the_same_id_until_it_is_taken(
    store: Store, webhooks: Webhooks, receiver: Receiver, server: Deliverer, clock: Clock
) -> None:
    hook, secret = await webhooks.add(receiver.url(), "mine")
    receiver.answers["/hook"] = [500, 302, (503, {"Retry-After": "3600"}), 404]
    await end(store)
    for seconds in (0, 6, 331, 3600, 8000):
        clock.advance(seconds=seconds)
        await all_sent(server)
    assert len(receiver.ids()) == 5
    assert len(set(receiver.ids())) == 1
    assert len({body for _, body in receiver.at()}) == 1
    assert len(receiver.verified(secret)) == 5
    (one,) = await webhooks.deliveries(hook)
    assert (one.state, one.tries, one.status, one.error) == ("done", 5, 200, None)


async def test_retry_after_is_heeded(
    store: Store, webhooks: Webhooks, receiver: Receiver, server: Deliverer, clock: Clock
) -> None:
    hook, _ = await webhooks.add(receiver.url(), "mine")
    receiver.answers["/hook"] = [(429, {"Retry-After": "3600"})]
    await end(store)
    await all_sent(server)
    (one,) = await webhooks.deliveries(hook)
    assert one.due_at == await store.now() + timedelta(hours=1)
    clock.advance(minutes=59)
    await all_sent(server)
    assert len(receiver.ids()) == 1


async def test_after_the_last_try_it_has_failed_and_can_be_sent_again(
    store: Store, webhooks: Webhooks, receiver: Receiver, server: Deliverer, clock: Clock
) -> None:
    hook, _ = await webhooks.add(receiver.url(), "mine")
    receiver.answers["/hook"] = [500] * 10
    await end(store)
    began, tries = clock.now(), 0
    while (await webhooks.pump(), await webhooks.deliveries(hook))[1][0].state == "pending":
        await all_sent(server)
        tries += 1
        clock.advance(hours=27)
    assert tries == len(receiver.ids()) == 10
    assert clock.now() > began
    (seen,) = await webhooks.all()
    assert (seen.waiting, seen.failed) == (0, 1)
    (one,) = await webhooks.deliveries(hook, state="failed")
    assert (one.status, one.error) == (500, "500 Internal Server Error. ok")
    await webhooks.redeliver(hook, one.id)
    await all_sent(server)
    assert len(set(receiver.ids())) == 1
    assert (await webhooks.all())[0].failed == 0


async def test_the_waits_add_up_to_some_three_days(database: Database) -> None:
    async with database.connect_owner() as owner:
        waits = [await owner.fetchval("select holdfast.webhook_wait($1)", tries) for tries in range(1, 11)]
    assert waits[-1] is None
    assert timedelta(seconds=5) <= waits[0] <= timedelta(seconds=5.5)
    assert timedelta(days=3) < sum(waits[:-1], timedelta()) < timedelta(days=3.6)


async def test_an_endpoint_that_is_gone_gets_nothing_more_until_it_is_resumed(
    store: Store, webhooks: Webhooks, receiver: Receiver, server: Deliverer
) -> None:
    hook, _ = await webhooks.add(receiver.url(), "mine")
    receiver.answers["/hook"] = [410]
    await end(store)
    await all_sent(server)
    await end(store)
    await all_sent(server)
    (seen,) = await webhooks.all()
    assert (len(receiver.ids()), seen.disabled_why, seen.failed) == (1, "It answered 410 Gone.", 1)
    with pytest.raises(RequestInvalid, match="disabled"):
        await webhooks.test(hook)
    await webhooks.resume(hook)
    last = await end(store)
    await all_sent(server)
    assert [json.loads(body)["data"]["task_id"] for _, body in receiver.at()][1:] == [str(last)]


async def test_while_it_is_paused_what_happens_is_kept(
    store: Store, webhooks: Webhooks, receiver: Receiver, server: Deliverer
) -> None:
    hook, _ = await webhooks.add(receiver.url(), "mine")
    await webhooks.pause(hook)
    await end(store)
    await all_sent(server)
    assert (receiver.came, (await webhooks.all())[0].waiting) == ([], 1)
    await webhooks.resume(hook)
    await all_sent(server)
    assert len(receiver.came) == 1
    await webhooks.remove(hook)
    with pytest.raises(WebhookUnknown):
        await webhooks.deliveries(hook)


async def test_a_slow_endpoint_holds_up_nobody_but_itself(
    store: Store, webhooks: Webhooks, receiver: Receiver, server: Deliverer
) -> None:
    await webhooks.add(receiver.url("/slow"), "slow")
    await webhooks.add(receiver.url("/fast"), "fast")
    receiver.silent.add("/slow")
    ended = [await end(store) for _ in range(delivering.in_flight_each + 4)]
    while len(receiver.ids("/fast")) < len(ended):
        await server.send_due()
        await asyncio.sleep(0.01)
    assert len(receiver.ids("/slow")) <= delivering.in_flight_each
    for task in server.in_flight:
        task.cancel()


async def test_an_endpoint_that_never_answers_is_given_up_on(
    store: Store, webhooks: Webhooks, receiver: Receiver
) -> None:
    await webhooks.add(receiver.url(), "mine")
    await webhooks.test((await webhooks.all())[0].id)
    (taken,) = await webhooks.take(1, each=1)
    receiver.silent.add("/hook")
    sent = await send(taken, HERE, within_seconds=0.1)
    assert (sent.status, sent.error) == (None, "No answer came within 0 seconds.")
    assert await webhooks.end(taken, sent) == "pending"


# Whoever dies


async def test_a_server_that_dies_while_it_sends_loses_nothing(
    store: Store, webhooks: Webhooks, receiver: Receiver, clock: Clock, database: Database
) -> None:
    await webhooks.add(receiver.url(), "mine")
    ended = {str(await end(store)) for _ in range(3)}

    # in the midst of pumping: neither deliveries nor a new cursor
    async with database.connect() as connection:
        transaction = connection.transaction()
        await transaction.start()
        assert await Webhooks(connection).pump() == 3
        await transaction.rollback()
    # after pumping; after taking; after sending and before saying so
    assert await webhooks.pump() == 3
    assert len(await webhooks.take(1, each=8)) == 1
    (sent,) = await webhooks.take(1, each=8)
    assert (await send(sent, HERE)).status == 200

    survivor = Deliverer(webhooks, HERE)
    await all_sent(survivor)
    assert len(receiver.came) == 2
    clock.advance(seconds=61)
    await all_sent(survivor)
    received = [json.loads(body)["data"]["task_id"] for _, body in receiver.at()]
    assert (set(received), len(received), len(set(receiver.ids()))) == (ended, 4, 3)
    assert await webhooks.end(sent, Sent(500)) == "lost"
    assert {one.state for one in await webhooks.deliveries((await webhooks.all())[0].id)} == {"done"}


async def test_two_servers_send_each_delivery_once(store: Store, webhooks: Webhooks, receiver: Receiver) -> None:
    _, secret = await webhooks.add(receiver.url(), "mine")
    servers = [Deliverer(webhooks, HERE) for _ in range(2)]
    ended = set()
    for _ in range(10):
        ended.add(str(await end(store)))
        await asyncio.gather(*(server.send_due() for server in servers))
    await all_sent(*servers)
    received = [one["data"]["task_id"] for one in receiver.verified(secret)]
    assert (set(received), len(received)) == (ended, len(ended))


async def test_a_pump_that_meets_another_leaves_it_to_it(store: Store, webhooks: Webhooks, database: Database) -> None:
    await webhooks.add("https://example.org", "mine")
    await end(store)
    second = await meet(database, lambda one: Webhooks(one).pump(), lambda other: Webhooks(other).pump())
    assert (second, await webhooks.pump(), (await webhooks.all())[0].waiting) == (0, 0, 1)


async def test_a_pump_that_meets_one_that_dies_does_its_work(
    store: Store, webhooks: Webhooks, database: Database
) -> None:
    await webhooks.add("https://example.org", "mine")
    await end(store)
    second = await meet(database, lambda one: Webhooks(one).pump(), lambda other: Webhooks(other).pump(), commit=False)
    assert (second, await webhooks.pump(), (await webhooks.all())[0].waiting) == (1, 0, 1)


async def test_an_end_that_commits_late_is_delivered_too(store: Store, webhooks: Webhooks, database: Database) -> None:
    await webhooks.add("https://example.org", "mine")
    await submit(store)
    lease = await take_one(store)
    async with database.connect() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await Store(connection).finish(lease, Done())
        await end(store)
        assert await webhooks.pump() == 1
        await transaction.commit()
    assert await webhooks.pump() == 1


async def test_moves_that_are_gone_are_reported_as_missed_and_it_goes_on(
    store: Store, webhooks: Webhooks, database: Database
) -> None:
    hook, _ = await webhooks.add("https://example.org", "mine")
    async with database.connect_owner() as owner:
        await owner.execute("update holdfast.webhook set cursor = '000000000000.1:1:'")
    await end(store)
    assert await webhooks.pump() == 0
    assert (await webhooks.all())[0].missed_at == await store.now()
    await end(store)
    assert await webhooks.pump() == 1
    assert len(await webhooks.deliveries(hook)) == 1


async def test_old_deliveries_are_forgotten(store: Store, webhooks: Webhooks, clock: Clock) -> None:
    hook, _ = await webhooks.add("https://example.org", "mine")
    await webhooks.test(hook)
    clock.advance(days=29)
    assert await webhooks.forget() == 0
    clock.advance(days=2)
    assert (await webhooks.forget(), await webhooks.deliveries(hook)) == (1, [])


# Where nothing is sent


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9/x", "http://localhost/x", "http://169.254.169.254/latest", "http://10.0.0.1", "http://[::1]/",
     "http://2130706433/", "ftp://example.org", "https://ada:secret@example.org/", "http://"],
)  # fmt: skip
async def test_what_is_not_public_is_sent_nothing(url: str) -> None:
    with pytest.raises(RequestInvalid):
        await check_url(url, Guard())


async def test_a_name_that_leads_inside_later_is_not_followed(
    store: Store, webhooks: Webhooks, receiver: Receiver
) -> None:
    async def rebound(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    hook, _ = await webhooks.add(f"http://hooks.example:{receiver.port}/hook", "mine")
    await end(store)
    await all_sent(Deliverer(webhooks, Guard(resolve=rebound)))
    (one,) = await webhooks.deliveries(hook)
    assert receiver.came == []
    assert (one.state, one.status, "is not a public address" in (one.error or "")) == ("pending", None, True)


async def test_a_redirect_is_not_followed(
    store: Store, webhooks: Webhooks, receiver: Receiver, server: Deliverer
) -> None:
    with receiving() as other:
        receiver.answers["/hook"] = [(307, {"Location": other.url()})]
        hook, _ = await webhooks.add(receiver.url(), "mine")
        await end(store)
        await all_sent(server)
        assert (len(receiver.came), other.came) == (1, [])
    assert "Redirects are not followed." in ((await webhooks.deliveries(hook))[0].error or "")


async def test_what_is_no_webhook_is_refused(webhooks: Webhooks) -> None:
    for url, name, options in (
        ("ftp://x", "a", {}), ("", "a", {}), ("https://x", "", {}), ("https://x", "a", {"kinds": []}),
        ("https://x", "a", {"kinds": ["ended"]}),
    ):  # fmt: skip
        with pytest.raises(RequestInvalid):
            await webhooks.add(url, name, **options)
    with pytest.raises(LifecycleUnknown):
        await webhooks.add("https://x", "a", lifecycle="nope")
    hook, _ = await webhooks.add("https://x", "a")
    with pytest.raises(RequestInvalid, match="already"):
        await webhooks.add("https://y", "a")
    nobody = UUID(int=0)
    for refused in (webhooks.pause, webhooks.resume, webhooks.remove, webhooks.test):
        with pytest.raises(WebhookUnknown):
            await refused(nobody)
    with pytest.raises(WebhookUnknown):
        await webhooks.redeliver(hook, nobody)
