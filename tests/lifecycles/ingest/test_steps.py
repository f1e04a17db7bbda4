"""Steps of an item: done once, moved by, and one reaction to each of the five results."""

import asyncio
import json
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

import httpx  # handlers may use it
import httpx2
import pytest

from holdfast import Fatal, Holdfast, RateLimited, SchemaInvalid, Transient
from holdfast.errors import StepInvalid
from holdfast.ingest import result_from_exception, run_parallel_steps, run_step, skip_step
from holdfast.testing.engine import Engine
from tests.lifecycles.ingest import app
from tests.lifecycles.ingest.app import ok
from tests.lifecycles.ingest.harness import Harness

STEPS = ["FETCHED", "CONTENT_EXTRACTED", "CHUNKED", "EMBEDDED", "ENTITY_EXTRACTED", "PERSISTED", "INDEXED"]
STATES = ["ENQUEUED", "FETCHED", "CONTENT_EXTRACTED", "PERSISTED", "INDEXED", "DONE"]
FILE = "file:///a"


async def ingest(harness: Harness, **reactions: Any) -> dict[str, Any]:
    """The item of a run whose steps were told what to do."""
    app.SCRIPT.update(reactions)
    return await harness.item(await harness.ingest(FILE, kind="scripted"))


# Ok


async def test_an_item_is_moved_by_its_steps_one_after_the_other(harness: Harness) -> None:
    item = await ingest(harness)
    moves = await harness.store.events(item["item_id"])
    assert [move.to_state for move in moves if move.from_state != move.to_state] == STATES
    assert sorted(app.RAN) == sorted(STEPS)
    kinds = await harness.kinds(item["item_id"])
    assert sorted(kinds) == sorted([f"{step} {kind}" for step in STEPS for kind in ("step_started", "step_completed")])


async def test_every_event_says_what_it_used_and_the_run_sums_it_up(harness: Harness) -> None:
    run = await harness.ingest(FILE, FILE, kind="scripted")
    events = [one for item in await harness.items(run) for one in await harness.events(item["item_id"])]
    completed = [one for one in events if one["kind"] == "step_completed"]
    assert {(one["model"], one["tokens_in"], one["cost_cents"]) for one in completed} == {("tiny", 10, 1)}
    assert run["cost_cents"] == sum(one["cost_cents"] for one in events) == 2 * len(STEPS)
    last = (await harness.store.step_events(run["run_id"]))[-1]
    assert (last.kind, last.data["item_count_done"], last.data["cost_micros"]) == ("run_completed", 2, 140000)


async def test_an_envelope_is_opened_and_what_it_used_is_counted(harness: Harness) -> None:
    item = await ingest(harness, EMBEDDED=ok(result="vectors", model="big", tokens_in=7, tokens_out=1, cost_cents=0.5))
    events = await harness.events(item["item_id"])
    (embedded,) = [one for one in events if one["step"] == "EMBEDDED" and one["kind"] == "step_completed"]
    assert (embedded["model"], embedded["tokens_in"], embedded["cost_cents"]) == ("big, tiny", 17, 1.5)
    (row,) = [one for one in await harness.store.steps(item["item_id"]) if one.name == "EMBEDDED"]
    assert row.result == "vectors"


# Failures


# Every step, every way and every category; the engine knows of no combination of them.
@pytest.mark.parametrize(
    ("step", "as_envelope", "category"),
    [
        *((step, False, Fatal) for step in STEPS),
        *((STEPS[0], as_envelope, kind) for as_envelope, kind in [(False, SchemaInvalid), (True, SchemaInvalid)]),
        (STEPS[-1], True, Fatal),
    ],
)
async def test_what_will_not_mend_ends_the_item_at_once_and_goes_to_the_inbox(
    harness: Harness, step: str, as_envelope: bool, category: type[SchemaInvalid | Fatal]
) -> None:
    error = {"status": "error", "error_kind": category.category, "message": "No page.", "code": "no-page"}
    item = await ingest(harness, **{step: error if as_envelope else category("No page.", code="no-page")})
    assert (item["status"], item["last_error_kind"], item["failed_step"]) == ("FAILED", category.category, step)
    assert (app.RAN.count(step), item["retry_count"], item["last_error"]) == (1, 0, "No page.")
    (entry,) = await harness.store.inbox.newest()
    assert (str(entry["task_id"]), entry["category"], entry["error"]["code"]) == (
        item["item_id"], category.category, "no-page",
    )  # fmt: skip
    kinds = await harness.kinds(item["item_id"])
    assert f"{step} step_failed" in kinds
    assert kinds[-1] == f"{step} item_failed"


async def test_what_may_mend_is_tried_again_after_growing_pauses_up_to_a_number(harness: Harness) -> None:
    item = await ingest(harness, FETCHED=Transient("Gone for a moment."))
    assert (item["status"], item["last_error_kind"], item["retry_count"]) == ("FAILED", "Transient", 4)
    assert app.RAN.count("FETCHED") == 5
    moves = [one.at for one in await harness.store.events(item["item_id"]) if one.verb == "claim"]
    pauses = [later - sooner for sooner, later in pairwise(moves)]
    assert all(later > sooner * 1.5 for sooner, later in pairwise(pauses))
    assert (await harness.kinds(item["item_id"])).count("FETCHED retry_scheduled") == 4


async def test_failures_are_counted_for_each_step_by_itself(harness: Harness) -> None:
    item = await ingest(
        harness, FETCHED=[Transient("a")] * 4, CHUNKED=[Transient("b")] * 4, PERSISTED=[Transient("c")] * 4
    )
    assert (item["status"], item["retry_count"]) == ("DONE", 12)
    assert [app.RAN.count(step) for step in STEPS] == [5, 1, 5, 1, 1, 5, 1]


async def test_a_step_that_is_limited_waits_and_loses_nothing(harness: Harness) -> None:
    before = harness.clock.now()
    item = await ingest(harness, EMBEDDED=[RateLimited("Slowly.", retry_after="1h")] * 7)
    assert (item["status"], item["retry_count"], item["attempt"]) == ("DONE", 0, 1)
    assert timedelta(hours=7) <= harness.clock.now() - before < timedelta(hours=8)
    assert app.RAN.count("EMBEDDED") == 8
    assert app.RAN.count("CHUNKED") == 1


async def test_an_exception_that_the_task_maps_has_its_category(harness: Harness) -> None:
    item = await ingest(harness, FETCHED=[app.Foreign("as the provider says it")])
    assert (item["status"], item["retry_count"], item["last_error_kind"]) == ("DONE", 0, "RateLimited")


async def test_an_exception_that_nobody_mapped_is_tried_three_times(harness: Harness) -> None:
    item = await ingest(harness, FETCHED=ZeroDivisionError("by zero"))
    assert (item["status"], item["last_error_kind"], app.RAN.count("FETCHED")) == ("FAILED", "Transient", 3)


async def test_a_bug_is_not_tried_again(harness: Harness) -> None:
    item = await ingest(harness, FETCHED=AttributeError("no such thing"))
    assert (item["status"], item["last_error_kind"], app.RAN.count("FETCHED")) == ("FAILED", "Fatal", 1)


# Side by side


@pytest.mark.parametrize(
    ("chunked", "entities", "ends"),
    [
        (RateLimited("Slowly.", retry_after=1), Fatal("Never."), "Fatal"),
        (Transient("Again."), SchemaInvalid("Wrong."), "SchemaInvalid"),
        (Fatal("Never."), Transient("Again."), "Fatal"),
    ],
    ids=["limited and fatal", "transient and invalid", "fatal and transient"],
)
async def test_of_two_failures_at_once_the_graver_one_counts(
    harness: Harness, chunked: Exception, entities: Exception, ends: str
) -> None:
    item = await ingest(harness, CHUNKED=chunked, ENTITY_EXTRACTED=entities)
    assert (item["status"], item["last_error_kind"]) == ("FAILED", ends)
    assert (app.RAN.count("CHUNKED"), app.RAN.count("ENTITY_EXTRACTED")) == (1, 1)
    kinds = await harness.kinds(item["item_id"])
    assert {"CHUNKED step_failed", "ENTITY_EXTRACTED step_failed"} <= set(kinds)


async def test_a_branch_that_went_well_is_kept_although_the_other_failed(harness: Harness) -> None:
    item = await ingest(harness, ENTITY_EXTRACTED=[Transient("Again.")])
    assert item["status"] == "DONE"
    assert [app.RAN.count(step) for step in STEPS] == [1, 1, 1, 1, 2, 1, 1]


def test_steps_by_name_run_at_the_same_time(holdfast: Engine) -> None:
    hf = Holdfast()
    meeting = asyncio.Barrier(2)

    async def meets(name: str) -> str:
        """Ends only once both have begun."""
        await meeting.wait()
        return name

    @hf.task(lifecycle="ingest_item", queue="ingest_item")
    async def fan(uri: str) -> dict[str, Any]:
        await run_step("FETCHED", str)
        await run_step("CONTENT_EXTRACTED", str)
        both = await run_parallel_steps({"A": lambda: meets("a"), "B": lambda: meets("b")})
        await run_step("PERSISTED", str)
        await run_step("INDEXED", str)
        return both

    assert holdfast.run(fan, FILE).value == {"A": "a", "B": "b"}


# What cannot be


def test_an_item_cannot_pass_a_state_over(holdfast: Engine) -> None:
    hf = Holdfast()

    @hf.task(lifecycle="ingest_item", queue="ingest_item")
    async def hasty(uri: str) -> None:
        await run_step("PERSISTED", str)

    ran = holdfast.run(hasty, FILE)
    assert (ran.state, ran.steps) == ("FAILED", [])


def test_who_catches_a_failure_does_not_get_past_it(holdfast: Engine) -> None:
    hf = Holdfast()

    def never() -> None:
        raise Transient("Not now.")

    @hf.task(lifecycle="ingest_item", queue="ingest_item", retries=1)
    async def careless(uri: str, again: bool = True) -> None:
        await run_step("FETCHED", str)
        await run_step("CONTENT_EXTRACTED", str)
        if not await has_failed("ENTITY_EXTRACTED"):
            await run_step("ENTITY_EXTRACTED", never)
        await run_step("PERSISTED", str)
        await run_step("INDEXED", str)

    async def has_failed(name: str) -> bool:
        from holdfast.engine.store.commands import Store
        from holdfast.execution.context import current, get_service

        return any(one.name == name and one.failures for one in await get_service(Store).steps(current().task_id))

    ran = holdfast.run(careless, FILE)
    assert ran.state == "FAILED"
    assert "PERSISTED" not in ran.steps


def test_a_step_of_an_item_belongs_into_an_item(holdfast: Engine) -> None:
    hf = Holdfast()

    @hf.task
    async def stranger() -> None:
        await run_step("FETCHED", str)

    ran = holdfast.run(stranger)
    assert ran.state == "Dead"
    assert "not an item of an ingestion" in str(ran.error)


async def test_outside_of_a_task_a_step_just_runs() -> None:
    assert await run_step("FETCHED", str, 5) == "5"
    assert await run_step("FETCHED", lambda: ok(result=5, model="tiny")) == 5
    assert await run_parallel_steps({"A": lambda: 1, "B": lambda: 2}) == {"A": 1, "B": 2}
    await skip_step("CHUNKED", "Nothing to do.")
    with pytest.raises(Fatal, match="Never"):
        await run_step("FETCHED", lambda: {"status": "error", "error_kind": "Fatal", "message": "Never."})
    with pytest.raises(StepInvalid):
        await run_step(str, "FETCHED")  # type: ignore[call-overload]


# What an exception stands for


def answer(status: int, library: Any = httpx2, **headers: str) -> Exception:
    request = library.Request("GET", "https://example.org/")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = library.Response(status, headers=named, request=request)
    return cast(Exception, library.HTTPStatusError("", request=request, response=response))


@pytest.mark.parametrize(
    ("error", "kind", "wait"),
    [
        (answer(429, retry_after="30"), "RateLimited", 30),
        (answer(429), "RateLimited", None),
        (answer(503, retry_after="5"), "Transient", 5),
        (answer(409), "Transient", None),
        (answer(503), "Transient", None),
        (answer(500), "Transient", None),
        (answer(408), "Transient", None),
        (answer(401), "Fatal", None),
        (answer(403), "Fatal", None),
        (answer(404), "Fatal", None),
        (answer(422), "SchemaInvalid", None),
        (answer(429, httpx, retry_after="30"), "RateLimited", 30),
        (httpx.UnsupportedProtocol("ftp"), "SchemaInvalid", None),
        (httpx.ReadTimeout("slow"), "Transient", None),
        (httpx2.UnsupportedProtocol("ftp"), "SchemaInvalid", None),
        (httpx2.InvalidURL("a"), "SchemaInvalid", None),
        (httpx2.ConnectTimeout("slow"), "Transient", None),
        (httpx2.ConnectError("refused"), "Transient", None),
        (TimeoutError(), "Transient", None),
        (FileNotFoundError("a.pdf"), "Fatal", None),
        (json.JSONDecodeError("no", "", 0), "SchemaInvalid", None),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), "SchemaInvalid", None),
        (TypeError("a bug"), "Fatal", None),
        (KeyError("surprise"), "Transient", None),
        (RateLimited("slowly", retry_after="2m"), "RateLimited", 120),
    ],
    ids=lambda value: f"{type(value).__name__}" if isinstance(value, Exception) else str(value),
)
def test_an_exception_stands_for_a_category(error: Exception, kind: str, wait: float | None) -> None:
    envelope = result_from_exception(error)
    assert (envelope["status"], envelope["error_kind"], envelope.get("retry_after")) == ("error", kind, wait)


def test_your_own_mapping_goes_first() -> None:
    assert result_from_exception(TypeError("theirs"), {TypeError: RateLimited})["error_kind"] == "RateLimited"
