"""Graphs in Python: functions that stay functions, edges by the names of their parameters, results as their types."""

import asyncio
import inspect
import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import examples.graph
import pytest

from holdfast import Fatal, Holdfast, Transient
from holdfast.engine.task import Policy
from holdfast.errors import AppInvalid, PayloadInvalid, RequestInvalid, TaskFailed
from holdfast.lifecycles.dispatch.sdk import Dag
from holdfast.lifecycles.dispatch.store import Dags
from holdfast.testing.engine import Engine

SEEN: list[Any] = []


@dataclass(frozen=True)
class Prices:
    """What one node gives to the next."""

    day: date
    rows: list[float]


@pytest.fixture
def nightly(holdfast: Engine) -> Dag:
    SEEN.clear()
    return Holdfast().dag("nightly", title="Prices of the day", retries=1)


def nodes(holdfast: Engine, run: Any) -> dict[str, Any]:
    found = holdfast.call(Dags.over(holdfast.store).run(run.handle.id))
    return {one["name"]: one for one in found["nodes"]}


def test_a_diamond_hands_typed_results_down_in_whatever_order_it_is_written(holdfast: Engine, nightly: Dag) -> None:
    @nightly.task
    def report(total: float, largest: float, currency: str = "EUR") -> str:
        return f"{total:.2f} {currency}, at most {largest:.2f}"

    @nightly.task
    def total(load: Prices) -> float:
        SEEN.append(load)
        return sum(load.rows)

    @nightly.task
    async def largest(load: Prices) -> float:
        SEEN.append(load)
        return max(load.rows)

    @nightly.task(queue="slow")
    def load(day: date) -> Prices:
        return Prices(day, [1.5, 2.5])

    assert load(date(2026, 1, 1)).rows == [1.5, 2.5]
    run = holdfast.run(nightly, day="2026-11-18")
    assert (run.state, run.result) == ("Completed", {"done": 4})
    assert [Prices(date(2026, 11, 18), [1.5, 2.5])] * 2 == SEEN
    ended = nodes(holdfast, run)
    assert {one["task"] for one in ended.values()} == {
        f"nightly.{name}" for name in ("load", "total", "largest", "report")
    }
    found = holdfast.call(holdfast.store.read(ended["report"]["task_id"]))
    assert (found["result"], found["payload"]) == ("4.00 EUR, at most 2.50", {})
    assert holdfast.call(holdfast.store.read(ended["load"]["task_id"]))["queue"] == "slow"
    assert holdfast.call(holdfast.store.verify()) == []


@pytest.mark.parametrize(("policy", "state", "seen"), [("ignore", "Completed", [None]), ("cancel", "Canceled", [])])
def test_a_node_that_ignores_a_bad_end_gets_none(
    holdfast: Engine, nightly: Dag, policy: Policy, state: str, seen: list[Any]
) -> None:
    @nightly.task(retries=0)
    def load() -> int:
        raise Fatal("no prices today")

    @nightly.task(on_failure=policy)
    def report(load: int | None) -> None:
        SEEN.append(load)

    run = holdfast.run(nightly)
    assert run.state == {"ignore": "Partial", "cancel": "Failed"}[policy]
    assert (nodes(holdfast, run)["report"]["state"], SEEN) == (state, seen)


def test_after_names_what_hands_nothing_over_and_each_may_have_its_own_policy(holdfast: Engine, nightly: Dag) -> None:
    @nightly.task("first")
    def one() -> None:
        SEEN.append("first")

    @nightly.task(retries=0)
    def broken() -> None:
        raise Fatal("no")

    @nightly.task(after={"first": "cancel", "broken": "ignore"}, name="last")
    def two() -> None:
        SEEN.append("last")

    run = holdfast.run(nightly)
    assert SEEN == ["first", "last"]
    found = holdfast.call(Dags.over(holdfast.store).run(run.handle.id))
    assert {(one["from"], one["to"]): one["on_failure"] for one in found["edges"]} == {
        ("first", "last"): "cancel",
        ("broken", "last"): "ignore",
    }


def test_a_node_has_retries_and_a_timeout_of_its_own(holdfast: Engine, nightly: Dag) -> None:
    @nightly.task(retries=3)
    def shaky() -> int:
        SEEN.append("shaky")
        if len(SEEN) < 4:
            raise Transient("not yet")
        return len(SEEN)

    @nightly.task(retries=0, timeout="20ms")
    async def slow() -> None:
        await asyncio.sleep(60)

    run = holdfast.run(nightly)
    ended = nodes(holdfast, run)
    assert (ended["shaky"]["state"], ended["shaky"]["attempt"]) == ("Completed", 4)
    assert (ended["slow"]["state"], ended["slow"]["attempt"]) == ("Dead", 1)
    assert "longer than" in ended["slow"]["error"]


def test_a_result_that_does_not_fit_is_reported_with_its_node(holdfast: Engine, nightly: Dag) -> None:
    @nightly.task
    def load() -> Any:
        return "many"

    @nightly.task
    def report(load: int) -> None: ...

    run = holdfast.run(nightly)
    assert "What load returned does not fit the parameter load" in nodes(holdfast, run)["report"]["error"]


def test_the_same_key_gives_the_same_run_also_after_a_release_changed_the_graph(holdfast: Engine) -> None:
    def app(**more: Any) -> Dag:
        dag = Holdfast().dag("keyed")

        @dag.task
        def load(day: str) -> None: ...

        if more:

            @dag.task
            def another(load: None) -> None: ...

        return dag

    first = app().opts(key="monday").start(day="mon")
    assert app(another=True).opts(key="monday").start(day="mon").id == first.id
    with pytest.raises(RequestInvalid, match="another task was submitted with it"):
        app().opts(key="monday").start(day="tue")


def test_the_parameters_of_a_run_are_checked(holdfast: Engine, nightly: Dag) -> None:
    @nightly.task
    def load(day: date, rows: int = 3, **more: Any) -> dict[str, Any]:
        return {"rows": rows, **more}

    with pytest.raises(TypeError, match="day"):
        nightly.start()
    with pytest.raises(PayloadInvalid, match="day"):
        nightly.start(day="whenever")
    run = holdfast.run(nightly, day=date(2026, 1, 1), odd=True)
    found = holdfast.call(holdfast.store.read(nodes(holdfast, run)["load"]["task_id"]))
    assert found["result"] == {"rows": 3, "odd": True}


def test_the_example_is_the_one_of_the_page_and_runs(holdfast: Engine) -> None:
    page = (Path(__file__).parents[3] / "docs/concepts/graphs.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert code.strip() in inspect.getsource(examples.graph)
    run = holdfast.run(examples.graph.nightly, day="2026-11-18")
    found = holdfast.call(holdfast.store.read(nodes(holdfast, run)["report"]["task_id"]))
    assert found["result"] == "2026-11-18: 42.00 (1 odd)"


def test_a_run_is_awaited_like_any_task(holdfast: Engine, nightly: Dag) -> None:
    @nightly.task(retries=0)
    def load() -> None:
        raise Fatal("no")

    handle = holdfast.run(nightly).handle
    with pytest.raises(TaskFailed):
        handle.result(timeout=5)


def circle(dag: Dag) -> None:
    @dag.task
    def a(c: int) -> None: ...
    @dag.task
    def b(a: int) -> None: ...
    @dag.task
    def c(b: int) -> None: ...


def itself(dag: Dag) -> None:
    @dag.task(after="a")
    def a() -> None: ...


def unknown(dag: Dag) -> None:
    @dag.task(after=["a", "nobody"])
    def b() -> None: ...
    @dag.task
    def a() -> None: ...


def doubled(dag: Dag) -> None:
    @dag.task
    def a() -> None: ...
    @dag.task("a")
    def other() -> None: ...


def disagreeing(dag: Dag) -> None:
    @dag.task
    def a(day: date) -> None: ...
    @dag.task
    def b(day: int) -> None: ...


def by_place(dag: Dag) -> None:
    @dag.task
    def a(*many: int) -> None: ...


def odd_policy(dag: Dag) -> None:
    @dag.task(after={"b": "explode"})
    def a() -> None: ...


@pytest.mark.parametrize(
    ("define", "problem"),
    [
        (circle, "wait for each other: c -> a -> b -> c"),
        (itself, "a comes after itself"),
        (unknown, "b comes after 'nobody', which is not a node. Its nodes are: b, a."),
        (doubled, "two nodes cannot both be called a"),
        (disagreeing, "b takes day: int, and another one day: datetime.date"),
        (by_place, "by its place"),
        (odd_policy, "'explode' is not a policy"),
        (lambda dag: None, "it has no nodes"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_what_cannot_be_run_is_refused_when_the_application_is_loaded(define: Any, problem: str) -> None:
    hf = Holdfast()
    with pytest.raises(AppInvalid) as refused:  # noqa: PT012 - some by the decorator, some by what a worker asks first
        define(hf.dag("wrong"))
        hf.published()
    assert problem in " ".join(str(refused.value).split())


def test_writes_are_datasets(holdfast: Engine) -> None:
    hf = Holdfast()
    assert hf.dag("g", writes="a").writes == {"a": "replace"}
    assert hf.dag("g", writes=["a", "b"]).writes == {"a": "replace", "b": "replace"}
    assert hf.dag("g", writes={"a": "extends"}).writes == {"a": "extends"}
    with pytest.raises(AppInvalid):
        hf.dag("g", writes={"a": "append"})  # type: ignore[dict-item]
    with pytest.raises(AppInvalid):
        hf.dag("g", cutover="never")  # type: ignore[arg-type]
