"""A task is the function it was, and what it takes and returns survives the way through the database."""

import asyncio
import inspect
import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Optional
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field

from holdfast import Holdfast, Later, Partial, Transient, step, usage
from holdfast.engine.task import Submission
from holdfast.errors import AppInvalid, PayloadInvalid, PayloadTooLarge, RequestInvalid, TaskFailed
from holdfast.testing import Engine
from tests.sdk import future

hf = Holdfast()


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Order(BaseModel):
    model_config = ConfigDict(strict=True)

    id: UUID
    placed: datetime
    price: Decimal
    gift: bool = Field(default=False, alias="isGift")


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@hf.task
def greet(name: str, /, greeting: str = "Hello", *others: int, loud: bool = False, **more: Point) -> dict[str, Any]:
    """Say hello."""
    return {"said": f"{greeting}, {name}", "others": others, "loud": loud, "more": more}


@hf.task
async def double(n: int) -> int:
    return await step("doubled", lambda: n * 2)


# A plain function stays a plain function


def test_a_task_is_called_like_the_function_it_is() -> None:
    assert greet("Ada", "Hi", 1, 2, loud=True, here=Point(1)) == {
        "said": "Hi, Ada", "others": (1, 2), "loud": True, "more": {"here": Point(1)},
    }  # fmt: skip
    assert asyncio.run(double(21)) == 42
    assert (greet.__name__, greet.__doc__, greet.__module__) == ("greet", "Say hello.", __name__)
    assert inspect.signature(greet) == inspect.signature(greet.function)
    assert pickle.loads(pickle.dumps(greet)) is greet  # noqa: S301


def test_two_tasks_cannot_have_one_name() -> None:
    app = Holdfast()
    app.task(name="same")(lambda: None)
    with pytest.raises(AppInvalid, match="Two tasks cannot both be called 'same'"):
        app.task(name="same")(lambda: None)


def yields() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retries": -1}, "0 or more"),
        ({"retries": True}, "0 or more"),
        ({"priority": 10}, "9 goes first"),
        ({"timeout": 0}, "leaves it no time"),
        ({"errors": {ValueError: "Transient"}}, "Map exceptions to categories"),
        ({"errors": {"ValueError": Transient}}, "Map exceptions to categories"),
    ],
    ids=str,
)
def test_options_that_cannot_be_meant_are_refused_where_they_are_written(options: Any, message: str) -> None:
    with pytest.raises(AppInvalid, match=message):
        Holdfast().task(name="some", **options)(lambda: None)


def test_what_is_no_duration_or_function_is_refused() -> None:
    with pytest.raises(RequestInvalid, match="is not a duration"):
        Holdfast().task(timeout="soon")(lambda: None)
    with pytest.raises(AppInvalid, match="is not a function"):
        Holdfast().task("mail")  # type: ignore[call-overload]
    with pytest.raises(AppInvalid, match="a task returns once"):
        Holdfast().task(yields)


def test_an_address_that_is_none_is_refused_with_its_reason() -> None:
    with pytest.raises(Exception, match=r"HOLDFAST_URL: starts with 'mysql'"):
        _ = Holdfast("mysql://here").settings


# What goes in


@hf.task
def anything(value: Any) -> Any:
    return value


def returning(app: Holdfast, kind: Any) -> Any:
    """A task that checks that it was given what its annotation says, and gives it back."""

    def same(value: Any) -> Any:
        assert_alike(value, kind)
        return value

    same.__annotations__ = {"value": kind, "return": kind}
    return app.task(name=str(kind))(same)


def assert_alike(value: Any, kind: Any) -> None:
    if isinstance(kind, type) and not isinstance(value, kind):
        raise AssertionError(f"{value!r} is no {kind}")


VALUES: list[tuple[Any, Any]] = [
    (Order, Order(id=UUID(int=1), placed=datetime(2030, 1, 1, tzinfo=UTC), price=Decimal("9.99"), isGift=True)),
    (Point, Point(1, 2)),
    (datetime, datetime(2030, 1, 1, 12, 30, tzinfo=UTC)),
    (date, date(2030, 1, 1)),
    (timedelta, timedelta(minutes=90)),
    (UUID, UUID(int=7)),
    (Decimal, Decimal("0.10")),
    (Colour, Colour.BLUE),
    (Optional[int], None),  # noqa: UP045
    (int | str, "7"),
    (list[list[Point]], [[Point(1)], []]),
    (dict[int, set[str]], {1: {"a"}, 2: set()}),
    (tuple[int, str], (1, "a")),
    (Literal["a", "b"], "b"),
    (bytes, b"abc"),
    (float, 0.1),
    (bool, False),
]


def test_arguments_and_results_come_back_as_what_they_were(holdfast: Engine) -> None:
    app = Holdfast()
    handles = [(returning(app, kind).start(value), value) for kind, value in VALUES]
    for handle, value in handles:
        assert holdfast.run(handle).result == value
        assert handle.result(timeout=0) == value


def test_every_kind_of_parameter_arrives(holdfast: Engine) -> None:
    run = holdfast.run(greet, "Ada", "Hi", 1, 2, loud=True, here=Point(1), there=Point(2, 3))
    assert run.result == {
        "said": "Hi, Ada", "others": [1, 2], "loud": True,
        "more": {"here": {"x": 1, "y": 0}, "there": {"x": 2, "y": 3}},
    }  # fmt: skip
    assert holdfast.run(greet, "Bob").result == {"said": "Hello, Bob", "others": [], "loud": False, "more": {}}


def test_wrong_arguments_are_refused_at_the_start(holdfast: Engine) -> None:
    start: Any = double.start
    with pytest.raises(PayloadInvalid, match="double: n: Input should be a valid integer"):
        start("many")
    for arguments in ((), (1, 2)):
        with pytest.raises(TypeError):
            start(*arguments)
    assert holdfast.call(holdfast.store.list_tasks()).items == []


def test_what_json_cannot_hold_is_refused_at_the_start(holdfast: Engine) -> None:
    for value in (object(), float("nan"), "\0", b"\xff", "x" * 70_000):
        with pytest.raises((PayloadInvalid, PayloadTooLarge)):
            anything.start(value)


def test_a_payload_from_elsewhere_that_does_not_fit_ends_in_the_inbox(holdfast: Engine) -> None:
    payloads: list[tuple[Any, str]] = [
        ({"n": "many"}, "n: Input should be a valid integer"),
        ({}, "n: it is missing"),
        ({"n": 1, "m": 2}, "m: it is not a parameter"),
        ([1], "it: Input should be"),
    ]
    for payload, message in payloads:
        (made,) = holdfast.call(holdfast.store.submit(Submission("double", payload)))
        assert made.id
        run = holdfast.run(hf.handle(made.id))
        assert isinstance(run.error, TaskFailed)
        assert run.error.category == "SchemaInvalid"
        assert message in str(run.error)
    assert len(holdfast.call(holdfast.store.inbox.newest())) == len(payloads)


def test_annotations_may_be_written_ahead_or_name_what_is_local(holdfast: Engine) -> None:
    later = holdfast.run(future.plus, future.Pair(1, 2), datetime(2030, 1, 1, tzinfo=UTC))
    assert later.result == future.Pair(2, 3)
    task = future.make()
    assert holdfast.run(task, task.function.__globals__["LOCAL"][0](3)).result.n == 4


# What comes out


def test_an_outcome_is_not_read_as_the_result(holdfast: Engine) -> None:
    app = Holdfast()

    @app.task(lifecycle="ingest_item")
    def some() -> Partial:
        return Partial([1, 2])

    @app.task
    def at_last() -> int | Later:
        return 7

    assert holdfast.run(at_last).result == 7
    assert some.returns is Any


def test_a_result_that_cannot_be_kept_is_an_error_of_the_task(holdfast: Engine) -> None:
    app = Holdfast()
    app.task(name="odd")(lambda: object())
    app.task(name="long")(lambda: "x" * 2_000_000)
    for task in app.tasks.values():
        run = holdfast.run(task)
        assert isinstance(run.error, TaskFailed), task
        assert run.error.category == "SchemaInvalid"


def test_a_handler_that_cancels_itself_fails_and_takes_nothing_along(holdfast: Engine) -> None:
    app = Holdfast()

    def cancel_me() -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()

    @app.task(retries=0)
    async def felt() -> None:
        usage("some model", cost_cents=1)
        cancel_me()
        await asyncio.sleep(0)

    @app.task
    async def unfelt() -> int:
        usage("some model", cost_cents=1)
        cancel_me()
        return 7

    with pytest.raises(TaskFailed, match="The handler cancelled itself"):
        _ = holdfast.run(felt).result
    ran = holdfast.run(unfelt)
    assert (ran.result, ran.attempts, len(ran.usage)) == (7, 1, 1), "it ended well, and what it spent is written down"


def test_values_that_are_the_same_in_json_are_handed_on_as_they_are(holdfast: Engine) -> None:
    app = Holdfast()

    @app.task
    def back(number: int, text: str, flag: bool, nothing: None, real: float) -> list[Any]:
        return [number, text, flag, nothing, real]

    given = [7, "ä", True, None, 2.0]
    found = holdfast.run(back, *given).result
    assert (found, [type(one) for one in found]) == (given, [type(one) for one in given])
    for wrong in ([1, 5, True, None, 1.0], [1, "", "perhaps", None, 1.0], [1, "", True, 0, 1.0]):
        with pytest.raises(PayloadInvalid):
            back.submission(*wrong)
