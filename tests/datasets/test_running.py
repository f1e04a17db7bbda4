"""`output` in a task: collected while it runs, published with its end, taught where it cannot be."""

import asyncio
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from holdfast import Holdfast, Partial, Transient, current, output, step
from holdfast.errors import DatasetNotFound, GenerationIncomplete, PayloadTooLarge, StepInvalid, TaskFailed
from holdfast.testing.engine import Engine

hf = Holdfast()


@dataclass(frozen=True)
class Written:
    """As a table says where it is."""

    uri: str
    rows: int = 3
    bytes: int = 99
    schema: list[list[str]] = field(default_factory=lambda: [["day", "date"]])


@hf.task
def collect(number: int) -> int:
    output("prices", [{"n": number}], key=f"{number}", mode="append")
    output("tables", Written(f"object:tables/{current().task_id}/{current().token}/x.parquet"))
    output("addresses", "s3://bucket/x")
    return number


@hf.task(retries=3)
async def fails_first() -> None:
    await step("counted", lambda: None)
    output("prices", [{"attempt": current().attempt}], key="a")
    if current().attempt == 1:
        raise Transient("again")


@hf.task
async def within_a_step() -> None:
    await step("write", lambda: output("prices", [{"n": 1}]))


@hf.task
def twice() -> None:
    output("prices", [{"n": 1}])
    output("prices", [{"n": 2}])


@hf.task
def partly() -> Any:
    output("prices", [{"n": 1}])
    return Partial(1)


@hf.task
def another_ones() -> None:
    output("prices", f"object:tables/{UUID(int=7)}/t/x.parquet")


@hf.task
def other_columns(kind: str) -> None:
    output("columns", Written("s3://x", schema=[["day", kind]]), key=kind)


def test_what_a_task_puts_out_is_there_once_it_is_done(holdfast: Engine) -> None:
    for number in (1, 2, 3):
        assert holdfast.run(collect, number).result == number
    prices = hf.dataset("prices").read()
    assert (prices.version, [row["n"] for row in prices.rows], prices["2"].rows) == (3, [1, 2, 3], [{"n": 2}])
    table = hf.dataset("tables").read()
    (only,) = table.files
    assert (only.key, only.row_count, only.bytes, table.schema) == ("collect", 3, 99, [("day", "date")])
    with pytest.raises(KeyError):
        prices["4"]
    with pytest.raises(DatasetNotFound):
        hf.dataset("none").read()


def test_what_an_attempt_that_failed_had_put_out_is_forgotten(holdfast: Engine) -> None:
    ran = holdfast.run(fails_first)
    assert ran.attempts == 2
    assert list(hf.dataset("prices").read().rows) == [{"attempt": 2}]


def test_after_a_crash_it_is_put_out_once(holdfast: Engine) -> None:
    assert holdfast.run(fails_first, crash_after="counted").attempts >= 2
    snapshot = hf.dataset("prices").read()
    assert (snapshot.version, len(snapshot.files)) == (1, 1)


@pytest.mark.parametrize(("task", "says"), [(within_a_step, "Return it from the step"), (twice, "Give each a key")])
def test_what_cannot_be_meant_is_taught(holdfast: Engine, task: Any, says: str) -> None:
    ran = holdfast.run(task)
    assert says in str(ran.error)
    with pytest.raises(DatasetNotFound):
        hf.dataset("prices").read()


def test_only_all_of_it_is_published(holdfast: Engine) -> None:
    holdfast.run(partly)
    with pytest.raises(DatasetNotFound):
        hf.dataset("prices").read()


def test_what_no_retry_can_mend_goes_to_the_inbox_at_once(holdfast: Engine) -> None:
    ran = holdfast.run(another_ones)
    assert (ran.attempts, ran.state) == (1, "Dead")
    assert holdfast.run(other_columns, "date").error is None
    ran = holdfast.run(other_columns, "text")
    assert (ran.attempts, ran.state) == (1, "Dead")
    assert isinstance(ran.error, TaskFailed)
    assert "day date -> text" in str(ran.error)
    entries = holdfast.call(holdfast.store.inbox.newest())
    assert [one["category"] for one in entries if "text" in str(one["error"])] == ["Fatal"]


def test_a_user_rolls_back_and_cuts_over(holdfast: Engine) -> None:
    for number in (1, 2):
        holdfast.run(collect, number)
    prices = hf.dataset("prices")
    assert (prices.rollback(by="ada"), len(prices.read().files)) == (1, 1)
    assert len(prices.read(version=2).files) == 2
    with pytest.raises(GenerationIncomplete):
        prices.rollback()
    prices.cutover(2)
    assert [one["state"] for one in prices.generations()] == ["current", "superseded"]
    assert asyncio.run(prices.aread()).version == 2


def test_outside_of_a_task_it_is_looked_at_and_nothing_follows() -> None:
    output("prices", [{"n": 1}])
    output("prices", "s3://x")
    for wrong in (7, "", b"x", [1], object()):
        with pytest.raises(StepInvalid):
            output("prices", wrong)
    for name in ("", "a/b", " a", "x" * 201, 7):
        with pytest.raises(StepInvalid):
            output(name, "s3://x")  # type: ignore[arg-type]
    with pytest.raises(StepInvalid):
        output("prices", "s3://x", mode="prepend")  # type: ignore[arg-type]
    with pytest.raises(StepInvalid):
        output("prices", "s3://x", key="")
    with pytest.raises(PayloadTooLarge):
        output("prices", [{"x": "x" * 300_000}])
