"""`holdfast cost`: a table with its total, prices, and what a task has cost."""

import re
from typing import Any

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Submission
from holdfast.testing import Clock
from tests.cli.conftest import Keyboard, Stage
from tests.cli.keyboard import Answer
from tests.promises.stage import submit, take, take_one


async def spend(store: Store, cents: Any, model: str = "tiny", tokens: int = 1000, **options: Any) -> str:
    task = await submit(store, **options)
    lease = await take_one(store)
    await store.keep(lease, "thought", usage=[{"model": model, "tokens_in": tokens, "cost_cents": cents}])
    return str(task)


def cells(answer: Answer) -> list[list[str]]:
    return [re.split("  +", line.strip()) for line in answer.lines]


def test_costs_are_a_table_with_its_total(holdfast: Keyboard, stage: Stage) -> None:
    for cents, model in (("0.000195512", "tiny"), (1234.5, "large"), (0, "free")):
        stage(lambda store, cents=cents, model=model: spend(store, cents, model))  # type: ignore[misc]
    answer = holdfast("cost")
    assert cells(answer) == [
        ["model", "calls", "tokens in", "tokens out", "cents"],
        ["large", "1", "1,000", "0", "1,234.50"],
        ["tiny", "1", "1,000", "0", "0.000196"],
        ["free", "1", "1,000", "0", "0.00"],
        ["total", "3", "3,000", "0", "1,234.50"],
    ]
    assert answer.err == ""
    assert len({len(line) for line in answer.lines}) == 1, "numbers stand one below the other"


def test_costs_are_summed_by_what_is_asked_and_since_when(holdfast: Keyboard, stage: Stage, clock: Clock) -> None:
    first = stage(lambda store: spend(store, 1, name="mail", owner="ada"))
    clock.advance(days=3)
    second = stage(lambda store: spend(store, 2, name="post", owner="bob"))
    assert [line[0] for line in cells(holdfast("cost", "--by", "day"))] == ["day", "2030-01-04", "2030-01-01", "total"]
    assert [line[0] for line in cells(holdfast("cost", "--by", "owner"))] == ["owner", "bob", "ada", "total"]
    assert [line[0] for line in cells(holdfast("cost", "--by", "name", "--since", "2d"))] == ["name", "post", "total"]
    assert cells(holdfast("cost", "--until", "2030-01-04", "--by", "lifecycle"))[1:] == [
        ["dispatch", "1", "1,000", "0", "1.00"], ["total", "1", "1,000", "0", "1.00"],
    ]  # fmt: skip
    answered = holdfast("cost", "--by", "task", "--json", "--since", "2030-01-01T00:00:00+00:00").json
    sums = {"calls": 1, "tokens_in": 1000, "tokens_out": 0, "unpriced": 0}
    assert answered == {
        "by": "task",
        "since": "2030-01-01T00:00:00Z",
        "items": [{"task": second, **sums, "cost_cents": 2.0}, {"task": first, **sums, "cost_cents": 1.0}],
        "total": {**sums, "calls": 2, "tokens_in": 2000, "cost_cents": 3.0},
    }
    short = [line[0] for line in cells(holdfast("cost", "--by", "task"))][1:3]
    assert [task.startswith(beginning) for task, beginning in zip((second, first), short, strict=True)] == [True, True]
    few = holdfast("cost", "--by", "name", "--limit", "1", "--lifecycle", "dispatch")
    assert [line[0] for line in cells(few)] == ["name", "post", "total"]
    assert few.err == "1 calls are in groups that are not shown: --limit shows more.\n"


def test_where_nothing_was_spent_it_says_how_to_tell(holdfast: Keyboard) -> None:
    none = holdfast("cost")
    assert (none.code, none.out) == (0, "")
    assert "Nothing was spent since 2029-12-02" in none.err
    assert "usage(" in none.err
    assert holdfast("cost", "--json").json["items"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        "--by colour", "--since soon", "set-price m --in 1", "set-price m --in x --out 1",
        "set-price m --in -1 --out 1", "set-price m --in 1 --out 1 --since 7d",
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_a_usage_error(holdfast: Keyboard, arguments: str) -> None:
    refused = holdfast("cost", *arguments.split())
    assert (refused.code, refused.out) == (2, "")
    assert "Traceback" not in refused.err


def test_prices_are_set_listed_and_reckoned_with(
    holdfast: Keyboard, stage: Stage, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    assert "holdfast cost set-price MODEL" in holdfast("cost", "prices").err
    stage(lambda store: spend(store, None))
    unknown = holdfast("cost")
    assert "What 1 calls cost is not known (tiny)." in unknown.err
    assert "holdfast cost set-price tiny" in unknown.err
    made = holdfast("cost", "set-price", "tiny", "--in", "15.5", "--out", "60")
    assert (
        made.out
        == "tiny costs 15.50 cents in and 60.00 cents out for a million tokens, from 2030-01-01 00:00 UTC on.\n"
    )
    later = holdfast(
        "cost", "set-price", "tiny", "--in", "0.000001", "--out", "0", "--since", "2030-02-01", "--json"
    ).json
    assert (later["in_cents"], later["since"], later["current"]) == (0.000001, "2030-02-01T00:00:00Z", False)
    assert cells(holdfast("cost", "prices")) == [
        ["model", "since", "in", "out", "set by"],
        ["tiny", "2030-02-01 00:00", "0.000001", "0.00", "ada"],
        ["tiny", "2030-01-01 00:00", "15.50", "60.00", "ada", "counts now"],
    ]
    assert [one["current"] for one in holdfast("cost", "prices", "--json").json] == [False, True]
    stage(lambda store: spend(store, None, tokens=1_000_000))
    assert cells(holdfast("cost"))[1] == ["tiny", "2", "1,001,000", "0", "15.50"]


async def family(store: Store) -> list[str]:
    """A run, an item of it that cost something, and a task that cost nothing."""
    made = await store.submit(Submission(lifecycle="ingest"), Submission(lifecycle="ingest_item", parent=0))
    (item,) = await take(store, "ingest_item")
    await store.keep(item, "fetched", usage=[{"model": "tiny", "cost_cents": "0.5"}, {"model": "new"}])
    return [*(str(one.id) for one in made), str(await submit(store))]


def test_show_prints_what_a_task_cost(holdfast: Keyboard, stage: Stage) -> None:
    run, item, idle = stage(family)
    cost = "0.50 cents (tiny 0.50, new 0.00) and 1 calls whose cost is not known"
    assert re.search(rf"^cost of children +{re.escape(cost)}$", holdfast("show", run).out, re.MULTILINE)
    assert re.search(rf"^cost +{re.escape(cost)}$", holdfast("show", item).out, re.MULTILINE)
    assert not re.search(r"^cost", holdfast("show", idle).out, re.MULTILINE)
    answered = holdfast("show", run, "--json").json["cost"]
    assert (answered["own_cents"], answered["children_cents"], answered["own"]) == (0.0, 0.5, [])
    assert [(one["model"], one["cost_cents"], one["unpriced"]) for one in answered["children"]] == [
        ("tiny", 0.5, 0),
        ("new", 0.0, 1),
    ]
