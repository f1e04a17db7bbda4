"""Whatever is wrong with a request gets an error of ours that says so, and leaves nothing behind."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Protocol
from uuid import UUID

import asyncpg
import pytest

from holdfast import errors
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Cancelled, Done, Failed, Later, Lease, Moved, Partial, Submission
from holdfast.errors import DependencyInvalid, HoldfastError, RequestInvalid, TaskError
from holdfast.testing import Database

MINUTE = timedelta(minutes=1)
MISSING = UUID("01b8dac5-b400-730f-8c80-71bbed710aed")


@dataclass
class World:
    """One task of each kind: a worker holds one, an owner acts on one, one has failed."""

    database: Database
    store: Store
    held: Lease
    owned: UUID
    ended: UUID
    entry: UUID

    def everything(self) -> Any:
        """A digest of every row of every table, but for the count of refusals."""
        tables = self.database.ask_owner(
            "select array_agg(c.oid::regclass::text) from pg_class c where c.relnamespace = 'holdfast'::regnamespace"
            " and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'tally'"
        )
        parts = [f"select '{t}', count(*), md5(string_agg(r::text, '|' order by r::text)) from {t} r" for t in tables]
        return self.database.ask_owner(f"select jsonb_agg(to_jsonb(x)) from ({' union all '.join(parts)}) x")

    async def rightful(self) -> None:
        """What is asked rightly still works."""
        assert (await self.store.finish(self.held, Done({"all": "well"}))).state == "Completed"
        assert await self.store.act(self.owned, "upload_urls") == "UPLOADING"
        assert await self.store.verify() == []


@pytest.fixture
async def world(database: Database, store: Store) -> World:
    await store.submit(Submission("bad"))
    lost = (await store.claim(["default"], lasting=MINUTE, worker="w"))[0]
    await store.finish(lost, Failed("Fatal", "no"))
    owned = (await store.submit(Submission("owned", lifecycle="analysis"), Submission("held")))[0].id
    held = (await store.claim(["default"], lasting=MINUTE, worker="w"))[0]
    assert owned
    await store.set_budget("calls", 10, MINUTE)
    return World(database, store, held, owned, lost.task_id, (await store.inbox.newest())[0]["id"])


Ask = Callable[[World], Awaitable[object]]


class Place(Protocol):
    """Somewhere to put a value."""

    def __call__(self, w: World, given: Any) -> Awaitable[object]: ...


def groups(given: Mapping[str, Any]) -> list[Any]:
    """All of them as one parameter: they share a database, and the failing one is named."""
    return [pytest.param(given, id="all")]


async def refused(world: World, name: str, ask: Ask, *kinds: type[HoldfastError]) -> None:
    """It is, nothing was written, and the next one who asks rightly is heard."""
    before = world.everything()
    try:
        with pytest.raises(kinds or (RequestInvalid, TaskError)) as caught:
            await ask(world)
    except BaseException as error:
        error.add_note(f"in the case {name}")
        raise
    assert caught.value.detail, name
    assert world.everything() == before, name
    assert (await world.store.submit(Submission("good")))[0].created


def submit(*tasks: Submission) -> Ask:
    return lambda w: w.store.submit(*tasks)


# What nobody has heard of.
UNKNOWN: dict[str, tuple[Ask, type[HoldfastError]]] = {
    "lifecycle": (submit(Submission(lifecycle="nope")), errors.LifecycleUnknown),
    "no lifecycle": (submit(Submission(lifecycle="")), errors.LifecycleUnknown),
    "queue": (submit(Submission(queue="nope")), errors.QueueUnknown),
    "queue to pause": (lambda w: w.store.pause_queue("nope"), errors.QueueUnknown),
    "queue to resume": (lambda w: w.store.resume_queue("nope"), errors.QueueUnknown),
    "verb": (lambda w: w.store.act(w.owned, "nope"), errors.VerbUnknown),
    "verb of the engine": (lambda w: w.store.act(w.owned, "cancel"), errors.VerbUnknown),
    "verb of time": (lambda w: w.store.act(w.owned, "limit"), errors.VerbUnknown),
    "verb of another state": (lambda w: w.store.act(w.owned, "process"), errors.MoveRefused),
    "verb of no owner": (lambda w: w.store.act(w.held.task_id, "claim"), errors.VerbUnknown),
    "verb on a finished task": (lambda w: w.store.act(w.ended, "upload_urls"), errors.MoveRefused),
    "state to move to": (lambda w: w.store.finish(w.held, Moved("NOPE")), errors.StateUnknown),
    "no state to move to": (lambda w: w.store.finish(w.held, Moved("")), errors.StateUnknown),
    "state out of reach": (lambda w: w.store.finish(w.held, Moved("Queued")), errors.MoveRefused),
    "state to keep on in": (lambda w: w.store.keep(w.held, "s", to="NOPE"), errors.StateUnknown),
    "state out of reach to keep on in": (lambda w: w.store.keep(w.held, "s", to="Completed"), errors.MoveRefused),
    "partial end": (lambda w: w.store.finish(w.held, Partial()), errors.MoveRefused),
    "cancel that nobody asked for": (lambda w: w.store.finish(w.held, Cancelled()), errors.MoveRefused),
    "step": (lambda w: w.store.retry(w.ended, from_step="nope"), errors.StepUnknown),
    "no step": (lambda w: w.store.retry(w.ended, from_step=""), errors.StepUnknown),
    "budget": (lambda w: w.store.spend("nope"), errors.BudgetUnknown),
    "inbox entry": (lambda w: w.store.inbox.resolve(MISSING, "me"), errors.TaskNotFound),
    "task that has not ended": (lambda w: w.store.retry(w.held.task_id), errors.MoveRefused),
    "lease": (lambda w: w.store.finish(replace(w.held, token=MISSING), Done()), errors.LeaseLost),
    "attempt": (lambda w: w.store.keep(replace(w.held, attempt=2), "s"), errors.LeaseLost),
    "lease of no task": (lambda w: w.store.record(replace(w.held, task_id=MISSING), "step_started"), errors.LeaseLost),
}


@pytest.mark.parametrize("asked", groups(UNKNOWN))
async def test_what_is_unknown_is_named(world: World, asked: dict[str, tuple[Ask, type[HoldfastError]]]) -> None:
    for name, (ask, kind) in asked.items():
        await refused(world, name, ask, kind)
    await world.rightful()


# Every method that takes a task's id.
BY_ID: dict[str, Place] = {
    "act": lambda w, given: w.store.act(given, "upload_urls"),
    "cancel": lambda w, given: w.store.cancel(given),
    "retry": lambda w, given: w.store.retry(given),
    "read": lambda w, given: w.store.read(given),
    "explain": lambda w, given: w.store.explain(given),
    "resolve": lambda w, given: w.store.inbox.resolve(given, "me"),
    "after": lambda w, given: w.store.submit(Submission(after=[given])),
    "parent": lambda w, given: w.store.submit(Submission(parent=given)),
    "events": lambda w, given: w.store.events(given),
    "steps": lambda w, given: w.store.steps(given),
    "step_events": lambda w, given: w.store.step_events(given),
    "claim_these": lambda w, given: w.store.claim_these([given], lasting=MINUTE, worker="w"),
    "verify": lambda w, given: w.store.verify([given]),
}
SILENT = {"events", "steps", "step_events", "claim_these", "verify"}
NO_IDS = ["", "x", "None", "01b8dac5-b400-730f-8c80-71bbed710ae", "01b8dac5\0", "\ud800", 5, -1, 2**200, 1.5, b"x", ()]


async def test_a_task_that_never_was_is_not_found(world: World) -> None:
    for method, ask in BY_ID.items():
        if method in SILENT:
            assert await ask(world, MISSING) == []
        else:
            await refused(world, method, partial(ask, given=MISSING), errors.TaskNotFound, DependencyInvalid)
    await world.rightful()


@pytest.mark.parametrize("method", BY_ID)
async def test_what_is_no_id_is_refused(world: World, method: str) -> None:
    for given in NO_IDS:
        await refused(world, repr(given), partial(BY_ID[method], given=given), RequestInvalid)
    await world.rightful()


# Every place into which somebody can write a word.
NAMES: dict[str, Place] = {
    "name": lambda w, given: w.store.submit(Submission(given)),
    "owner": lambda w, given: w.store.submit(Submission(owner=given)),
    "key": lambda w, given: w.store.submit(Submission(key=given)),
    "limit_key": lambda w, given: w.store.submit(Submission(limit_key=given)),
    "queue": lambda w, given: w.store.submit(Submission(queue=given)),
    "lifecycle": lambda w, given: w.store.submit(Submission(lifecycle=given)),
    "policy": lambda w, given: w.store.submit(Submission(after=[w.ended], on_failure=given)),
    "verb": lambda w, given: w.store.act(w.owned, given),
    "reason": lambda w, given: w.store.cancel(w.owned, given),
    "cancelled by": lambda w, given: w.store.cancel(w.owned, by=given),
    "from_step": lambda w, given: w.store.retry(w.ended, from_step=given),
    "retried by": lambda w, given: w.store.retry(w.ended, by=given),
    "claim queue": lambda w, given: w.store.claim([given], lasting=MINUTE, worker="w"),
    "claim name": lambda w, given: w.store.claim(["default"], lasting=MINUTE, worker="w", names=[given]),
    "claim worker": lambda w, given: w.store.claim(["default"], lasting=MINUTE, worker=given),
    "step": lambda w, given: w.store.keep(w.held, given),
    "keep to": lambda w, given: w.store.keep(w.held, to=given),
    "record kind": lambda w, given: w.store.record(w.held, given),
    "record step": lambda w, given: w.store.record(w.held, "step_started", given),
    "moved to": lambda w, given: w.store.finish(w.held, Moved(given)),
    "category": lambda w, given: w.store.finish(w.held, Failed(given, "no")),
    "message": lambda w, given: w.store.finish(w.held, Failed("Fatal", given)),
    "code": lambda w, given: w.store.finish(w.held, Failed("Fatal", "no", code=given)),
    "failed step": lambda w, given: w.store.finish(w.held, Failed("Fatal", "no", step=given)),
    "kind": lambda w, given: w.store.finish(w.held, Later(kind=given)),
    "cancel reason": lambda w, given: w.store.finish(w.held, Cancelled(given)),
    "make_queue": lambda w, given: w.store.make_queue(given),
    "pause_queue": lambda w, given: w.store.pause_queue(given),
    "paused by": lambda w, given: w.store.pause_queue("default", given),
    "resume_queue": lambda w, given: w.store.resume_queue(given),
    "limit_concurrency": lambda w, given: w.store.limit_concurrency(given, 1),
    "hello": lambda w, given: w.store.hello(given, label="l", queues=["default"], names=None, slots=1),
    "label": lambda w, given: w.store.hello("w", label=given, queues=["default"], names=None, slots=1),
    "hello queue": lambda w, given: w.store.hello("w", label="l", queues=[given], names=None, slots=1),
    "hello name": lambda w, given: w.store.hello("w", label="l", queues=["default"], names=[given], slots=1),
    "goodbye": lambda w, given: w.store.goodbye(given),
    "set_budget": lambda w, given: w.store.set_budget(given, 1, MINUTE),
    "spend": lambda w, given: w.store.spend(given),
    "block_budget": lambda w, given: w.store.block_budget(given, datetime.now(UTC)),
    "resolved by": lambda w, given: w.store.inbox.resolve(w.entry, given),
    "note": lambda w, given: w.store.inbox.resolve(w.entry, "me", given),
}
FREE = {"reason", "cancelled by", "retried by", "paused by", "label", "resolved by", "note"}  # of any length
LOOKED_UP = {"claim queue", "claim name", "hello queue", "hello name", "goodbye"}  # what is too long is not found
CLEANED = {"message", "code"}  # so that a failure can be settled in any case
IN_JSON = {"message", "code", "kind", "cancel reason"}
TEXT = {name: place for name, place in NAMES.items() if name not in IN_JSON}
NAMES = {name: place for name, place in TEXT.items() if name not in FREE | LOOKED_UP}


@pytest.mark.parametrize("text", ["a\0b", "a\ud800"], ids=["NUL", "half a pair"])
async def test_a_character_that_is_none_is_refused(world: World, text: str) -> None:
    for name, place in NAMES.items():
        if name not in CLEANED:
            await refused(world, name, partial(place, given=text))
    await world.rightful()


async def test_a_failure_is_kept_whatever_its_message_holds(world: World) -> None:
    settled = await world.store.finish(world.held, Failed("Fatal", "a\0b\ud800c" + "x" * 100_000, code="\0"))
    assert settled.state == "Dead"
    error = (await world.store.read(world.held.task_id))["note"]
    assert (error["message"][:5], len(error["message"]), error["code"]) == ("a\ufffdb?c", 20_000, "\ufffd")


@pytest.mark.parametrize("places", groups(TEXT))
async def test_what_is_not_even_text_is_refused(world: World, places: dict[str, Place]) -> None:
    for name, place in places.items():
        for given in (5, b"ab"):
            await refused(world, name, partial(place, given=given))
    await world.rightful()


@pytest.mark.parametrize("places", groups(NAMES))
async def test_a_name_has_at_most_200_characters(world: World, places: dict[str, Place]) -> None:
    for name, place in places.items():
        await refused(world, name, partial(place, given="x" * 201))
    await world.rightful()


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


circle: list[Any] = []
circle.append(circle)
NO_JSON = {
    "NUL": "a\0b", "NUL in a key": {"a\0b": 1}, "half a pair": ["\ud800"], "half a pair in a key": {"\udfff": 1},
    "NaN": float("nan"), "Infinity": [float("inf")], "10**400": 10**400, "-10**400": {"a": [-(10**400)]},
    "10**5000": 10**5000, "a set": {1}, "a date": datetime.now(UTC), "bytes": {"a": b"x"}, "an odd key": {(1,): 1},
    "depth": nested(100_000), "a circle": circle, "an object": object(), "size": "x" * 1_048_575,
}  # fmt: skip
JSON: dict[str, Place] = {
    "payload": lambda w, given: w.store.submit(Submission(payload=given)),
    "retried payload": lambda w, given: w.store.retry(w.ended, payload=given),
    "note": lambda w, given: w.store.act(w.owned, "upload_urls", given),
    "progress": lambda w, given: w.store.heartbeat([w.held], lasting=MINUTE, progress={w.held.task_id: given}),
    "step result": lambda w, given: w.store.keep(w.held, "s", given),
    "usage": lambda w, given: w.store.keep(w.held, "s", usage=given),
    "record": lambda w, given: w.store.record(w.held, "step_started", data=given),
    "result": lambda w, given: w.store.finish(w.held, Done(given)),
    "moved": lambda w, given: w.store.finish(w.held, Moved("Completed", given)),
}


@pytest.mark.parametrize("place", JSON)
async def test_what_is_no_json_is_refused(world: World, place: str) -> None:
    for name, given in NO_JSON.items():
        kind = errors.PayloadTooLarge if name == "size" else errors.PayloadInvalid
        await refused(world, name, partial(JSON[place], given=given), kind)
    await world.rightful()


async def test_a_payload_is_as_large_as_promised(world: World) -> None:
    largest = "x" * (65_536 - 2)
    made = (await world.store.submit(Submission(payload=largest)))[0]
    assert made.id
    assert (await world.store.read(made.id))["payload"] == largest
    async with world.database.connect() as connection:
        await connection.fetchval("select holdfast.submit('x', to_jsonb($1::text))", largest)
        await refused(world, "one more", submit(Submission(payload=largest + "x")), errors.PayloadTooLarge)
        await refused(world, "in bytes", submit(Submission(payload="é" * 32_768)), errors.PayloadTooLarge)
        with pytest.raises(asyncpg.PostgresError, match="65537 bytes") as caught:
            await connection.fetchval("select holdfast.submit('x', to_jsonb($1::text))", largest + "x")
        assert caught.value.sqlstate == "TK018"
    await world.rightful()


# What plain SQL may not say either. The answer is an error of ours; those below are Postgres' own, before it calls us.
RAW = [
    "settle({lease}, array['zap'])", "settle({lease}, array[null])", "settle({lease}, null)",
    "settle({lease}, '{{}}'::text[])", "settle({lease}, array['done', 'done'])",
    "settle({lease}, array['failed'], p_category => array['zap'])",
    "settle({lease}, array['later'], p_due => array['infinity'::timestamptz])",
    "settle({lease}, array['later'], p_delay => array['-1 s'::interval])",
    "settle({lease}, array['later'], p_delay => array['infinity'::interval])",
    "checkpoint({lease}, array['a', 'b'])", "record({lease}, array['a'], '{{}}'::text[])",
    "heartbeat({lease}, '1 min', array['1', '2']::jsonb[])",
    "submit_many(array['dispatch'], array['a', 'b'], null)",
    "submit_many(array['dispatch'], array['a'], null, p_owner => array['a', 'b'])",
    "submit_many(array['dispatch'], array['a'], null, p_parent_place => array[null, 1])",
    "submit('x', parent => holdfast.uuid7())", "submit('x', '1e400')", """submit('x', '{{"a": [{{"b": -1e400}}]}}')""",
    "submit(repeat('x', 201))", "submit('x', key => 'k', owner => {long})", "submit('x', delay => 'infinity')",
    "submit('x', time_limit => 'infinity', lifecycle => 'pipeline')", "set_budget('b', 1, 'infinity')",
    "limit_concurrency({long}, 1)", "limit_concurrency(null, 1)", "hello({long}, 'l', array['default'], null, 1)",
    "hello(null, 'l', array['default'], null, 1)", "hello('w', null, array['default'], null, 1)",
    "sweep(-1)", "inbox(true, -1)", "make_partitions(100000)",
]  # fmt: skip


async def test_plain_sql_gets_an_error_of_ours(world: World) -> None:
    lease = f"array['{world.held.task_id}'::uuid], array[1], array['{world.held.token}'::uuid]"
    long = "(select string_agg(md5(i::text), '') from generate_series(1, 1000) i)"
    before = world.everything()
    async with world.database.connect() as connection:
        await connection.execute("set statement_timeout = '60s'")
        for call in RAW:
            with pytest.raises(asyncpg.PostgresError) as caught:
                await connection.fetch("select holdfast." + call.format(lease=lease, long=long))
            assert str(caught.value.sqlstate).startswith("TK"), call
            assert world.everything() == before, call
    await world.rightful()


NO_TEXT = {'"\\u0000"': "22P05", '"\\ud800"': "22P02", "NaN": "22P02", "1e99999999": "22003", "[" * 100_000: "54001"}


async def test_text_that_is_no_json_never_reaches_us(world: World) -> None:
    before = world.everything()
    async with world.database.connect() as connection:
        for text, sqlstate in NO_TEXT.items():
            with pytest.raises(asyncpg.PostgresError) as caught:
                await connection.fetch("select holdfast.submit('x', $1)", text)
            assert caught.value.sqlstate == sqlstate
            with pytest.raises(asyncpg.PostgresError) as caught:
                await connection.fetch("select holdfast.act($1, 'upload_urls', $2)", world.owned, text)
            assert caught.value.sqlstate == sqlstate
    assert world.everything() == before
    await world.rightful()


POISON = {
    "claim cannot read it": "submit('x', (repeat('[', 3000) || repeat(']', 3000))::jsonb, 'pipeline')",
    "claim cannot add it": "submit('x', lifecycle => 'pipeline', time_limit => '999999999 days')",
}


@pytest.mark.parametrize("calls", groups(POISON))
async def test_no_request_stands_in_the_way_of_others(world: World, calls: dict[str, str]) -> None:
    async with world.database.connect() as connection:
        for call in calls.values():
            with contextlib.suppress(asyncpg.PostgresError):  # or it is refused at once
                await connection.fetchval(f"select holdfast.{call}")
    good = (await world.store.submit(Submission(lifecycle="pipeline")))[0].id
    assert good in [lease.task_id for lease in await world.store.claim(["pipeline"], 9, lasting=MINUTE, worker="w")]


FOREVER = datetime.max.replace(tzinfo=UTC)
AMOUNTS: list[Any] = [0, -1, 10**12, 10**400, float("nan"), float("inf"), Decimal("sNaN"), "much", None]
SHORT: dict[str, Any] = {"lasting": MINUTE, "worker": "w"}
COUNTS: list[Any] = [0, -1, 100_000, 2**31, "all", None]
LASTING: list[Any] = [timedelta(0), -MINUTE, timedelta(days=2), timedelta.max, 60]
SUBMITTED: dict[str, list[Any]] = {
    "priority": [-1, 10, 2**40, "high", 1.5], "delay": [-MINUTE, timedelta.max, 5],
    "run_at": [FOREVER, datetime.min.replace(tzinfo=UTC), "soon"], "max_attempts": [0, -1, 2**31, "many", 1.5],
    "limit_to": [0, -1, 2**31], "time_limit": [timedelta(0), -MINUTE, 5], "name": ["", ["a"]], "key": ["", ["a"]],
    "limit_key": [""], "queue": [""], "after": ["x", [None], [1.5], 5], "parent": ["x", 1.5],
}  # fmt: skip
FIGURES: dict[str, tuple[Place, list[Any]]] = {
    "capacity": (lambda w, given: w.store.set_budget("b", given, MINUTE), AMOUNTS),
    "huge capacity": (lambda w, given: w.store.set_budget("b", given, MINUTE), [10**5000]),
    "every": (lambda w, given: w.store.set_budget("b", 1, given), [timedelta(0), -MINUTE, 5]),
    "spend": (lambda w, given: w.store.spend("calls", given), [*AMOUNTS, 11]),
    "huge spend": (lambda w, given: w.store.spend("calls", given), [10**5000]),
    "block": (lambda w, given: w.store.block_budget("calls", given), [FOREVER, 5]),
    "claim": (lambda w, given: w.store.claim(["default"], given, **SHORT), COUNTS),
    "claim lasting": (lambda w, given: w.store.claim(["default"], lasting=given, worker="w"), LASTING),
    "claim by": (lambda w, given: w.store.claim(["default"], lasting=MINUTE, worker=given), ["", None]),
    "claim from": (lambda w, given: w.store.claim(given, lasting=MINUTE, worker="w"), ["default", 5]),
    "claim these": (lambda w, given: w.store.claim_these([w.owned], lasting=given, worker="w"), LASTING),
    "settle and claim": (
        lambda w, given: w.store.settle_and_claim([(w.held, Done())], ["default"], given, **SHORT), [-1]
    ),
    "claim with settle": (lambda w, given: w.store.settle_and_claim([], ["default"], given, **SHORT), COUNTS[1:]),
    "heartbeat": (lambda w, given: w.store.heartbeat([w.held], lasting=given), LASTING),
    "later": (lambda w, given: w.store.finish(w.held, Later(given)), [-MINUTE, timedelta.max, "soon"]),
    "later at": (lambda w, given: w.store.finish(w.held, Later(at=given)), [FOREVER, 5]),
    "moved": (lambda w, given: w.store.finish(w.held, Moved("Completed", delay=given)), [-MINUTE]),
    "retry": (lambda w, given: w.store.finish(w.held, Failed("Transient", "no", retry_after=given)), [-MINUTE, 5]),
    "retry at": (lambda w, given: w.store.finish(w.held, Failed("Transient", "no", retry_at=given)), [FOREVER, 5]),
    "outcome": (lambda w, given: w.store.finish(w.held, given), ["done", None, Failed]),
    "step": (lambda w, given: w.store.keep(w.held, given), [""]),
    "kind": (lambda w, given: w.store.record(w.held, given), ["", "Two Words", None]),
    "slots": (lambda w, given: w.store.hello("w", label="l", queues=["default"], names=None, slots=given), COUNTS[:2]),
    "served": (lambda w, given: w.store.hello("w", label="l", queues=given, names=None, slots=1), [[], None]),
    "allowed": (lambda w, given: w.store.limit_concurrency("k", given), [0, -1, 2**31, None]),
    "swept": (lambda w, given: w.store.sweep(given), [-1, 2**31]),
    "shown": (lambda w, given: w.store.inbox.newest(limit=given), [-1, 2**31]),
    "a limit's name": (lambda w, given: w.store.limit_concurrency(given, 1), [""]),
    "a worker's name": (lambda w, given: w.store.hello(given, label="", queues=["default"], names=None, slots=1), [""]),
    "a budget's name": (lambda w, given: w.store.set_budget(given, 1, MINUTE), ["", None]),
    "limit_to alone": (lambda w, given: w.store.submit(Submission(limit_to=given)), [1]),
}  # fmt: skip
ASKED: dict[str, Ask] = {
    f"{field}={value!r}": submit(replace(Submission("x", limit_key="k"), **{field: value}))
    for field, values in SUBMITTED.items()
    for value in values
}
for name, (place, values) in FIGURES.items():
    ASKED |= {f"{name} {at}": partial(place, given=value) for at, value in enumerate(values)}


@pytest.mark.parametrize("asked", groups(ASKED))
async def test_a_figure_out_of_range_is_refused(world: World, asked: dict[str, Ask]) -> None:
    for name, ask in asked.items():
        await refused(world, name, ask, RequestInvalid)
    await world.rightful()


GOOD = Submission("good", key="k1")
ZAP, GATHER = Submission(after=[0], on_failure="zap"), Submission(after=[0], on_failure="gather")  # type: ignore[arg-type]
GRAPHS: dict[str, tuple[Ask, type[HoldfastError]]] = {
    "itself": (submit(GOOD, Submission(after=[1])), DependencyInvalid),
    "a later place": (submit(Submission(after=[1]), GOOD), DependencyInvalid),
    "a place before the first": (submit(GOOD, Submission(after=[-1])), DependencyInvalid),
    "a place too far": (submit(GOOD, Submission(after=[2**31])), RequestInvalid),
    "a parent of itself": (submit(GOOD, Submission(parent=1)), DependencyInvalid),
    "a later parent": (submit(Submission(parent=1), GOOD), DependencyInvalid),
    "a bad policy": (submit(GOOD, ZAP), DependencyInvalid),
    "the policy of a gathering": (submit(GOOD, GATHER), DependencyInvalid),
    "a parent that has ended": (lambda w: w.store.submit(Submission(parent=w.ended)), DependencyInvalid),
    "no children": (submit(Submission(lifecycle="ingest")), DependencyInvalid),
    "no way to wait": (submit(GOOD, Submission(lifecycle="pipeline", after=[0])), DependencyInvalid),
    "a gathering that waits": (submit(GOOD, Submission(lifecycle="ingest", after=[0])), DependencyInvalid),
    "the last of three": (submit(GOOD, Submission("two"), Submission(queue="nope")), errors.QueueUnknown),
    "the last of three, no JSON": (submit(GOOD, Submission("two"), Submission(payload={1})), errors.PayloadInvalid),
    "the last of three, a key": (submit(GOOD, Submission("2"), replace(GOOD, payload=2)), errors.KeyConflict),
}


async def test_of_a_call_that_is_partly_wrong_nothing_happens(world: World) -> None:
    for name, (ask, kind) in GRAPHS.items():
        await refused(world, name, ask, kind)
    assert (await world.store.submit(GOOD, Submission(after=[0])))[0].created
    await world.rightful()


async def test_no_function_is_confused_by_nulls(world: World) -> None:
    async with world.database.connect() as connection:
        rows = await connection.fetch(
            "select p.proname as name, array(select format_type(a, null) from unnest(p.proargtypes) a) as types"
            " from pg_proc p where p.pronamespace = 'holdfast'::regnamespace"
            " and has_function_privilege('holdfast_app', p.oid, 'execute')"
        )
        assert len(rows) > 30
        before = world.everything()
        odd = set()
        for row in rows:
            try:
                nulls = ", ".join(f"null::{kind}" for kind in row["types"])
                await connection.fetch(f"select * from holdfast.{row['name']}({nulls})")
            except asyncpg.PostgresError as error:
                odd |= set() if str(error.sqlstate).startswith("TK") else {row["name"]}
        assert odd == set()
        assert world.everything() == before
    await world.rightful()
