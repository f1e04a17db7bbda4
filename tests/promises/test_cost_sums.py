"""Sums of what was spent: they agree with the events however they are grouped, and whatever workers reported."""

import re
from collections import defaultdict
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.engine.store.commands import Store
from holdfast.engine.store.costs import Cost, Grouping
from holdfast.engine.task import Done, Json, Lease, StepEvent
from holdfast.errors import RequestInvalid
from holdfast.postgres.migrate import ENGINE
from holdfast.testing import Clock, Database, Engine
from tests.promises.stage import submit, take_one

LONG_AGO = timedelta(days=3650)
PRICES = Decimal("12.3456789"), Decimal("0.0000000001")


async def spend(store: Store, cents: Json, model: str = "tiny", **options: Any) -> Lease:
    """A task of these options, with one step that cost so much."""
    await submit(store, **options)
    lease = await take_one(store, "default", "ingest_item")
    await store.keep(lease, "thought", usage=[{"model": model, "tokens_in": 3, "cost_cents": cents}])
    return lease


async def cents(store: Store, by: Grouping, *span: datetime | None, **which: Any) -> dict[str, Decimal]:
    return {one.group: one.cost_cents for one in await store.costs.totals(by, *span, **which)}


# Groups


async def test_costs_are_summed_by_whatever_is_asked(store: Store, clock: Clock) -> None:
    first = await spend(store, 1, "a", name="mail", owner="ada")
    clock.advance(days=1)
    second = await spend(store, 2, "b", name="mail", owner="bob")
    third = await spend(store, 4, "a", name=None, lifecycle="ingest_item", owner="ada")
    assert await cents(store, "model") == {"a": 5, "b": 2}
    assert await cents(store, "day") == {"2030-01-02": 6, "2030-01-01": 1}
    assert await cents(store, "lifecycle") == {"dispatch": 3, "ingest_item": 4}
    assert await cents(store, "name") == {"mail": 3, "ingest_item": 4}
    assert await cents(store, "owner") == {"ada": 5, "bob": 2}
    assert await cents(store, "task") == {str(lease.task_id): n for lease, n in ((first, 1), (second, 2), (third, 4))}
    assert await cents(store, "total") == {"total": 7}


async def test_costs_are_those_of_what_is_asked_for(store: Store, clock: Clock) -> None:
    start = await store.now()
    lease = await spend(store, 1, name="mail", owner="ada")
    clock.advance(hours=1)
    middle = await store.now()
    await spend(store, 2, name="post", owner="bob")
    await spend(store, 4, name=None, lifecycle="ingest_item", owner="")
    for which, expected in (
        ({"owner": "ada"}, 1), ({"owner": ""}, 4), ({"lifecycle": "dispatch"}, 3), ({"lifecycle": "none"}, 0),
        ({"name": "post"}, 2), ({"task": lease.task_id}, 1), ({"owner": "ada", "name": "post"}, 0),
    ):  # fmt: skip
        assert await cents(store, "total", **which) == {"total": expected}, which
    assert await cents(store, "total", middle) == {"total": 6}
    assert await cents(store, "total", start, middle) == {"total": 1}, "the end is not in it"
    clock.advance(days=31)
    assert await store.costs.totals("total") == [Cost("total", 0, 0, 0, Decimal(0), 0)], "thirty days by default"
    assert await store.costs.totals("model") == []
    assert await cents(store, "total", task=lease.task_id) == {"total": 1}, "of one task, ever"


async def test_the_group_that_was_used_last_comes_first_and_the_answer_is_bounded(store: Store, clock: Clock) -> None:
    for model in ("a", "b", "c", "a"):
        await spend(store, 1, model)
        clock.advance(minutes=1)
    assert [one.group for one in await store.costs.totals("model")] == ["a", "c", "b"]
    assert [one.group for one in await store.costs.totals("model", limit=2)] == ["a", "c"]
    for limit in (0, -1, 10_001):
        with pytest.raises(RequestInvalid):
            await store.costs.totals("model", limit=limit)
    with pytest.raises(RequestInvalid, match=r"summed by 'colour'"):
        await store.costs.totals("colour")  # type: ignore[arg-type]


# Whatever was reported

GARBAGE: dict[str, tuple[Json, Cost | None]] = {
    "nothing": ([], None),
    "no list": ("much", None),
    "a number": (7, None),
    "null in a list": ([None, 3, "x", []], None),
    "no model": ([{"tokens_in": 5, "cost_cents": 5}], None),
    "a model that is no word": ([{"model": {"name": "tiny"}}], None),
    "one that is no list": ({"model": "tiny", "cost_cents": 1}, Cost("tiny", 1, 0, 0, Decimal(1), 0)),
    "a long name": ([{"model": "x" * 900, "cost_cents": 1}], Cost("x" * 200, 1, 0, 0, Decimal(1), 0)),
    "words": ([{"model": "m", "tokens_in": "many", "cost_cents": "much"}], Cost("m", 1, 0, 0, Decimal(0), 1)),
    "no numbers": ([{"model": "m", "tokens_in": True, "cost_cents": [1]}], Cost("m", 1, 0, 0, Decimal(0), 1)),
    "not a number": ([{"model": "m", "cost_cents": "NaN"}], Cost("m", 1, 0, 0, Decimal(0), 1)),
    "below zero": ([{"model": "m", "tokens_out": -5, "cost_cents": "-7.5"}], Cost("m", 1, 0, 0, Decimal(0), 0)),
    "beyond reason": (
        [{"model": "m", "tokens_in": 1e300, "cost_cents": "9e999"}], Cost("m", 1, 10**15, 0, Decimal(10**15), 0),
    ),
    "dust": ([{"model": "m", "cost_cents": "1e-900", "tokens_in": 0.4}], Cost("m", 1, 0, 0, Decimal(0), 0)),
    "odd strings": ([{"model": "m", "cost_cents": "0x10"}, {"model": "m", "cost_cents": "1_0"},
                     {"model": "m", "cost_cents": " 1"}, {"model": "m", "cost_cents": "1\n"},
                     {"model": "m", "cost_cents": "1" * 101}], Cost("m", 5, 0, 0, Decimal(0), 5)),
}  # fmt: skip


@pytest.mark.parametrize("what", GARBAGE)
async def test_whatever_is_reported_never_breaks_a_checkpoint(store: Store, what: str) -> None:
    reported, expected = GARBAGE[what]
    await submit(store)
    lease = await take_one(store)
    assert await store.keep(lease, "thought", 1, usage=reported) == 1
    await store.record(lease, "usage", data=reported)
    await store.finish(lease, Done())
    both = [] if expected is None else [Cost(expected.group, *(2 * sum_ for sum_ in list(vars(expected).values())[1:]))]
    assert await store.costs.totals() == both


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(-1e300, 1e300)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["model", "x"]), inner, max_size=2),
    max_leaves=5,
)  # fmt: skip
tokens = st.integers(0, 10**7) | anything
money = st.decimals(-10, 10**6, places=13).map(str) | st.floats(0, 100) | st.integers(0, 99) | anything
entry = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from("ab") | anything,
        "tokens_in": tokens,
        "tokens_out": tokens,
        "cost_cents": money,
    },
)
reported = st.lists(entry | anything, max_size=4) | entry | anything
reported = st.lists(st.tuples(st.sampled_from(["one", "two", None]), reported), min_size=1, max_size=4)


@settings(
    max_examples=40, derandomize=True, database=None, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    reported=reported,
    owner=st.sampled_from(["", "ada", "bob"]),
    name=st.sampled_from(["mail", "post"]),
    hours=st.integers(0, 30),
)
def test_sums_by_every_grouping_are_those_of_the_events(
    holdfast: Engine, reported: list[tuple[str | None, Json]], owner: str, name: str, hours: int
) -> None:
    """Each example adds a task to those before it; the sums are then reckoned from all their events."""
    holdfast.clock.advance(hours=hours)
    holdfast.call(check_sums(holdfast.store, reported, owner, name))


async def check_sums(store: Store, reported: list[tuple[str | None, Json]], owner: str, name: str) -> None:
    await store.costs.set_price("a", *PRICES, since=await store.now() - LONG_AGO)
    await submit(store, name, owner=owner)
    lease = await take_one(store)
    for step, value in reported:
        await (store.keep(lease, step, usage=value) if step else store.record(lease, "usage", data=value))
    await store.finish(lease, Done())
    expected: dict[str, dict[str, list[Cost]]] = {by: defaultdict(list) for by in get_args(Grouping)}
    expected["total"]["total"] = []
    for task in (await store.list_tasks(limit=1000)).items:
        for event in await store.step_events(task["id"]):
            for one in entries(event):
                keys = {**task, "model": one.group, "day": f"{event.at:%Y-%m-%d}", "task": task["id"], "total": "total"}
                for by in expected:
                    expected[by][keys[by]].append(one)
    for by, groups in expected.items():
        found = await store.costs.totals(by, await store.now() - LONG_AGO)  # type: ignore[arg-type]
        assert {one.group: one for one in found} == {group: total(group, of) for group, of in groups.items()}


def entries(event: StepEvent) -> list[Cost]:
    """What an event tells of, reckoned apart from the database."""
    listed = event.data if isinstance(event.data, list) else [event.data]
    if event.kind not in ("step_completed", "usage"):
        return []
    return [reckoned(one) for one in listed if isinstance(one, dict) and isinstance(one.get("model"), str)]


def reckoned(one: dict[str, Any]) -> Cost:
    spent = [int(cut(one.get(part)).quantize(Decimal(1), ROUND_HALF_UP)) for part in ("tokens_in", "tokens_out")]
    with localcontext(prec=60):
        known = known_cents(one.get("cost_cents"))
        if known is None and one["model"] == "a":
            known = sum((n * price for n, price in zip(spent, PRICES, strict=True)), Decimal(0)) / 10**6
    return Cost(one["model"][:200], 1, spent[0], spent[1], known or Decimal(0), known is None)


def cut(value: object) -> Decimal:
    number = Decimal(repr(value)) if isinstance(value, (int, float)) and not isinstance(value, bool) else Decimal(0)
    return min(max(number, Decimal(0)), Decimal(10**15))


def known_cents(value: object) -> Decimal | None:
    """A cost as it was told, to the 16th digit behind the point."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        amount = cut(value)
    elif isinstance(value, str) and re.fullmatch(r"[0-9.eE+-]+", value):
        try:
            amount = min(max(Decimal(value), Decimal(0)), Decimal(10**15))
        except ArithmeticError:
            return None
    else:
        return None
    return amount.quantize(Decimal("1e-16"), ROUND_HALF_UP)


def total(group: str, of: list[Cost]) -> Cost:
    with localcontext(prec=60):
        sums = [
            sum((getattr(one, part) for one in of), Decimal(0)) for part in ("tokens_in", "tokens_out", "cost_cents")
        ]
    return Cost(group, len(of), int(sums[0]), int(sums[1]), sums[2], sum(one.unpriced for one in of))


# Before there was a table of it


async def test_what_was_recorded_before_is_taken_along(store: Store, database: Database) -> None:
    await spend(store, 1.25, "a", owner="ada")
    lease = await spend(store, 0, "b")
    for data in ([{"model": "a", "tokens_in": -3, "cost_cents": 2}, 5, {"cost_cents": 9}], "garbage", None):
        await store.record(lease, "usage", data=data)
    await store.record(lease, "seen", data={"model": "a", "cost_cents": 99})
    await store.finish(lease, Done())
    everything = "select json_agg(u order by task_id, number, place)::text from holdfast.usage u"
    before = database.ask_owner(everything)
    (migration,) = [step for step in ENGINE.migrations if step.name.endswith("_usage")]
    async with database.connect_owner() as owner:
        await owner.execute(f"drop table holdfast.usage, holdfast.price; {migration.sql}")
    assert database.ask_owner(everything) == before
    assert await cents(store, "owner") == {"ada": Decimal("1.25"), "": 2}
