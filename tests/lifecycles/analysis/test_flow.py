"""From nothing to a download, as a client does it."""

import json
from typing import Any

import pytest

from holdfast.analysis import PROFILE_MY_DATA, Agent, Tool
from holdfast.apps import offer_bundled
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Submission
from holdfast.errors import AppInvalid, DatabaseUnreachable, RequestInvalid
from tests.lifecycles.analysis.harness import TABLE, Harness


@pytest.mark.over_http
async def test_a_task_goes_from_upload_to_download(harness: Harness) -> None:
    task = await harness.create()
    assert (await harness.read(task))["status"] == "CREATED"
    links = await harness.links(task)
    assert (await harness.put(links["primary"])).status_code == 200
    answer = await harness.process(task)
    assert (answer.status_code, answer.json()["status"]) == (202, "QUEUED")
    harness.work()
    status = await harness.read(task)
    assert (status["status"], status["progress"]) == ("COMPLETED", 100)
    assert await harness.downloads(task) == {
        "lines/lines.json": {"lines": 3, "mark": ""},
        "size/more/name.json": {"name": "data.csv"},
        "size/size.json": {"bytes": len(TABLE)},
    }


async def test_parameters_change_what_an_agent_does(harness: Harness) -> None:
    task = await harness.completed(["lines"], lines={"mark": "anchor"})
    assert (await harness.downloads(task))["lines/lines.json"]["mark"] == "anchor"


async def test_a_baseline_is_brought_to_the_agent_that_compares(harness: Harness) -> None:
    task = await harness.create(["compare"])
    links = await harness.links(task, primary={}, baseline={})
    await harness.put(links["primary"], b"a\n1\n2\n3\n")
    await harness.put(links["baseline"], b"a\n1\n")
    await harness.process(task)
    harness.work()
    assert await harness.downloads(task) == {"compare/compare.json": {"more": 2}}


async def test_agents_run_in_the_order_in_which_they_were_named(harness: Harness) -> None:
    task = await harness.completed(["size", "lines"])
    assert [one.step for one in await harness.store.step_events(task)] == ["size", "lines"]
    assert (await harness.read(task))["agents"] == ["size", "lines"]


async def test_no_content_of_a_file_is_kept_in_the_database(harness: Harness) -> None:
    task = await harness.completed(["lines"], body=b"word\nseaweed\n", lines={"mark": "bladderwrack"})
    everything = json.dumps(
        [await harness.store.read(task), await harness.analyses.read((await harness.store.find_ids(task))[0])],
        default=str,
    ) + "".join(str(one) for one in [*await harness.store.events(task), *await harness.store.steps(task)])
    assert "seaweed" not in everything
    assert "bladderwrack" not in everything


async def test_the_same_key_makes_one_task(harness: Harness) -> None:
    body, key = {"tool_id": "count", "agents": ["lines"]}, {"Idempotency-Key": "once"}
    first = await harness.http.post("/tasks", json=body, headers=key)
    again = await harness.http.post("/tasks", json=body, headers=key)
    assert first.json() == again.json()
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["Idempotency-Replayed"] == "true"
    other = await harness.http.post("/tasks", json={**body, "agents": ["size"]}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "key-conflict")


async def test_what_nobody_could_run_is_refused_at_creation(harness: Harness) -> None:
    for body, says in [
        ({"tool_id": "nothing", "agents": ["lines"]}, "There is no tool 'nothing'."),
        ({"tool_id": "count", "agents": []}, "agents is empty."),
        ({"tool_id": "count", "agents": ["lines", "guess"]}, "count has no agent 'guess'."),
        ({"tool_id": "count", "agents": ["lines", "lines"]}, "An agent is named twice."),
    ]:
        answer = await harness.http.post("/tasks", json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "request-invalid")
        assert says in answer.json()["detail"]


async def test_the_tools_are_listed_with_their_prices(harness: Harness) -> None:
    tools = {one["id"]: one for one in (await harness.http.get("/tools")).json()["items"]}
    assert {one["name"]: one["credits"] for one in tools["count"]["agents"]} == {
        "lines": 2, "size": 3, "compare": 1, "free": 0,
    }  # fmt: skip
    assert [one["name"] for one in tools["profile-my-data"]["agents"]] == [
        "unified-profiler", "score-risk", "detect-drift", "suggest-cleaning",
    ]  # fmt: skip


async def test_an_agent_that_compares_wants_a_baseline_before_anything_is_uploaded(harness: Harness) -> None:
    task = await harness.create(["compare"])
    answer = await harness.ask_links(task)
    assert (answer.status_code, answer.json()["code"]) == (422, "request-invalid")
    assert "compare needs a baseline" in answer.json()["detail"]
    assert (await harness.read(task))["status"] == "CREATED"


async def test_processing_twice_is_queued_once(harness: Harness) -> None:
    task = await harness.queued()
    again = await harness.process(task)
    assert (again.status_code, again.json()["status"]) == (202, "QUEUED")
    assert [one.verb for one in await harness.store.events(task)].count("process") == 1
    assert (await harness.wallet())["reserved"] == 5


async def test_a_retried_task_is_uploaded_and_run_anew(harness: Harness) -> None:
    old = await harness.completed()
    task = str(await harness.store.retry(old))
    assert (await harness.read(task))["status"] == "CREATED"
    links = await harness.links(task)
    await harness.put(links["primary"], b"a\n1\n2\n3\n4\n")
    await harness.process(task)
    harness.work()
    assert (await harness.downloads(task))["lines/lines.json"]["lines"] == 5
    assert (await harness.wallet())["spent"] == 10


@pytest.mark.parametrize(
    "payload",
    [
        {}, [], "x", 5, {"tool_id": "count"}, {"tool_id": "count", "agents": []},
        {"tool_id": "count", "agents": "lines"}, {"tool_id": "count", "agents": ["/etc/x"]},
        {"tool_id": "count", "agents": ["lines", None]}, {"tool_id": "other", "agents": ["lines"]},
        {"tool_id": "count", "agents": ["lines"], "prices": {}},
    ],
    ids=str,
)  # fmt: skip
async def test_a_retry_cannot_say_what_the_task_is(harness: Harness, payload: Any) -> None:
    task = await harness.completed(["lines"])
    answer = await harness.http.post(f"/api/v1/tasks/{task}/retry", json={"payload": payload})
    assert (answer.status_code, answer.json()["code"]) == (422, "request-invalid"), answer.text


async def test_a_retry_with_other_agents_costs_what_they_cost_today(harness: Harness) -> None:
    task = await harness.completed(["lines"])
    payload = {"tool_id": "count", "agents": ["size"]}
    again = (await harness.http.post(f"/api/v1/tasks/{task}/retry", json={"payload": payload})).json()["task_id"]
    assert (await harness.read(again))["credits"] == {"price": 3, "charged": 0, "reserved": 0}
    assert (await harness.read(again))["progress_detail"]["agents_completed"] == 0
    await harness.cancel(again)
    assert await harness.downloads(again) == {}


async def test_a_task_without_a_tool_is_not_a_users_task(harness: Harness) -> None:
    (made,) = await harness.store.submit(Submission(lifecycle="analysis"))
    assert (await harness.http.get(f"/tasks/{made.id}")).status_code == 404


async def test_who_only_knows_a_tool_does_not_change_it(harness: Harness) -> None:
    dear = {**PROFILE_MY_DATA.published(), "title": "Dear"}
    await harness.analyses.define_tool(dear)
    await offer_bundled(harness.store)
    assert {**dear, "available": False} in (await harness.http.get("/tools")).json()["items"]


async def test_a_tool_says_whether_somebody_runs_it(harness: Harness) -> None:
    await harness.store.hello("w", label="", queues=["analysis"], names=["count"], slots=1)
    tools = {one["id"]: one["available"] for one in (await harness.http.get("/tools")).json()["items"]}
    assert (tools["count"], tools["profile-my-data"]) == (True, False)
    harness.clock.advance(minutes=1)
    assert not any(one["available"] for one in (await harness.http.get("/tools")).json()["items"])


@pytest.mark.parametrize("agent", [{"name": "../x"}, {"credits": -5}, {"credits": None}, {"credits": 1.5}])
async def test_a_tool_that_nobody_could_pay_is_refused(harness: Harness, agent: dict[str, Any]) -> None:
    whole = {"name": "a", "title": "", "credits": 1, "needs_baseline": False}
    with pytest.raises(RequestInvalid, match="has no name, or no price"):
        await harness.analyses.define_tool({"id": "odd", "title": "", "agents": [{**whole, **agent}]})


@pytest.mark.parametrize("price", [-1, 1.5, "2", True, 10**7])
def test_an_agent_has_a_price_in_whole_credits(price: Any) -> None:
    with pytest.raises(AppInvalid, match="has no price"):
        Tool("odd", [Agent("a", lambda job: None, credits=price)])


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"readng": {}}, "there is no section 'readng'. There are: reading, lines, size, compare, free."),
        ({"lines": 5}, "lines is not an object"),
        ({"lines": {"wrd": "x"}}, "lines.wrd: Extra inputs are not permitted"),
    ],
)
async def test_wrong_parameters_are_found_before_anything_is_paid(
    harness: Harness, parameters: dict[str, Any], says: str
) -> None:
    task = await harness.queued(["size", "lines"], **parameters)
    harness.work()
    status = await harness.read(task)
    assert (status["status"], status["error_code"]) == ("FAILED", "FILE_FORMAT_ERROR")
    assert says in status["error_message"]
    assert (await harness.wallet())["spent"] == 0


async def test_the_same_key_gives_the_same_task_whatever_became_of_the_tool(harness: Harness) -> None:
    body, key = {"tool_id": "count", "agents": ["lines"]}, {"Idempotency-Key": "once"}
    first = await harness.http.post("/tasks", json=body, headers=key)
    await harness.analyses.define_tool({"id": "count", "title": "", "agents": [
        {"name": "size", "title": "", "credits": 9, "needs_baseline": False}]})  # fmt: skip
    again = await harness.http.post("/tasks", json=body, headers=key)
    assert (again.status_code, again.json()) == (201, first.json())


async def test_inputs_stay_when_nobody_knows_whether_the_task_was_queued(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the database is lost after its commit."""
    task = await harness.uploaded(["lines"])
    act = Store.act

    async def lose_the_answer(store: Store, *given: Any) -> str:
        await act(store, *given)
        raise DatabaseUnreachable("the line is dead")

    monkeypatch.setattr(Store, "act", lose_the_answer)
    assert (await harness.process(task)).status_code == 503
    monkeypatch.undo()
    assert (await harness.process(task)).json()["status"] == "QUEUED"
    harness.work()
    assert (await harness.read(task))["status"] == "COMPLETED"


async def test_two_attempts_of_an_agent_write_to_two_places(harness: Harness) -> None:
    task, first = await harness.processing(["lines"])
    await harness.store.release_leases("a test")
    harness.work()
    (step,) = await harness.store.steps(task)
    assert all(first.token.hex not in one["key"] for one in step.result)
    assert len({one["key"].split("/")[-2] for one in step.result}) == 1


async def test_a_task_of_another_lifecycle_is_not_found_here(harness: Harness) -> None:
    made = await harness.http.post("/dispatch/tasks", json={"task": "anything"})
    answer = await harness.http.get(f"/tasks/{made.json()['task_id']}")
    assert answer.status_code == 404
