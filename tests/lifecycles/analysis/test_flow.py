"""From nothing to a download, as a client does it."""

import json
from typing import Any

import pytest

from holdfast.analysis import PROFILE_MY_DATA, Agent, Tool
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Submission
from holdfast.errors import AppInvalid, DatabaseUnreachable, RequestInvalid
from holdfast.lifecycles import declare_all
from tests.lifecycles.analysis.desk import TABLE, Desk


async def test_a_task_goes_from_upload_to_download(desk: Desk) -> None:
    task = await desk.create()
    assert (await desk.read(task))["status"] == "CREATED"
    links = await desk.links(task)
    assert (await desk.put(links["primary"])).status_code == 200
    answer = await desk.process(task)
    assert (answer.status_code, answer.json()["status"]) == (202, "QUEUED")
    desk.work()
    status = await desk.read(task)
    assert (status["status"], status["progress"]) == ("COMPLETED", 100)
    assert await desk.downloads(task) == {
        "lines/lines.json": {"lines": 3, "word": ""},
        "size/more/name.json": {"name": "data.csv"},
        "size/size.json": {"bytes": len(TABLE)},
    }


async def test_parameters_change_what_an_agent_does(desk: Desk) -> None:
    task = await desk.completed(["lines"], lines={"word": "anchor"})
    assert (await desk.downloads(task))["lines/lines.json"]["word"] == "anchor"


async def test_a_baseline_is_brought_to_the_agent_that_compares(desk: Desk) -> None:
    task = await desk.create(["compare"])
    links = await desk.links(task, primary={}, baseline={})
    await desk.put(links["primary"], b"a\n1\n2\n3\n")
    await desk.put(links["baseline"], b"a\n1\n")
    await desk.process(task)
    desk.work()
    assert await desk.downloads(task) == {"compare/compare.json": {"more": 2}}


async def test_agents_run_in_the_order_in_which_they_were_named(desk: Desk) -> None:
    task = await desk.completed(["size", "lines"])
    assert [one.step for one in await desk.store.step_events(task)] == ["size", "lines"]
    assert (await desk.read(task))["agents"] == ["size", "lines"]


async def test_no_content_of_a_file_is_kept_in_the_database(desk: Desk) -> None:
    task = await desk.completed(["lines"], body=b"word\nseaweed\n", lines={"word": "bladderwrack"})
    everything = json.dumps(
        [await desk.store.read(task), await desk.analyses.read((await desk.store.find_ids(task))[0])], default=str
    ) + "".join(str(one) for one in [*await desk.store.events(task), *await desk.store.steps(task)])
    assert "seaweed" not in everything
    assert "bladderwrack" not in everything


async def test_the_same_key_makes_one_task(desk: Desk) -> None:
    body, key = {"tool_id": "count", "agents": ["lines"]}, {"Idempotency-Key": "once"}
    first = await desk.http.post("/tasks", json=body, headers=key)
    again = await desk.http.post("/tasks", json=body, headers=key)
    assert first.json() == again.json()
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["Idempotency-Replayed"] == "true"
    other = await desk.http.post("/tasks", json={**body, "agents": ["size"]}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "key-conflict")


async def test_what_nobody_could_run_is_refused_at_creation(desk: Desk) -> None:
    for body, says in [
        ({"tool_id": "nothing", "agents": ["lines"]}, "There is no tool 'nothing'."),
        ({"tool_id": "count", "agents": []}, "agents is empty."),
        ({"tool_id": "count", "agents": ["lines", "guess"]}, "count has no agent 'guess'."),
        ({"tool_id": "count", "agents": ["lines", "lines"]}, "An agent is named twice."),
    ]:
        answer = await desk.http.post("/tasks", json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "request-invalid")
        assert says in answer.json()["detail"]


async def test_the_tools_are_listed_with_their_prices(desk: Desk) -> None:
    tools = {one["id"]: one for one in (await desk.http.get("/tools")).json()["items"]}
    assert {one["name"]: one["credits"] for one in tools["count"]["agents"]} == {
        "lines": 2, "size": 3, "compare": 1, "free": 0,
    }  # fmt: skip
    assert [one["name"] for one in tools["profile-my-data"]["agents"]] == [
        "unified-profiler", "score-risk", "detect-drift", "suggest-cleaning",
    ]  # fmt: skip


async def test_an_agent_that_compares_wants_a_baseline_before_anything_is_uploaded(desk: Desk) -> None:
    task = await desk.create(["compare"])
    answer = await desk.ask_links(task)
    assert (answer.status_code, answer.json()["code"]) == (422, "request-invalid")
    assert "compare needs a baseline" in answer.json()["detail"]
    assert (await desk.read(task))["status"] == "CREATED"


async def test_processing_twice_is_queued_once(desk: Desk) -> None:
    task = await desk.queued()
    again = await desk.process(task)
    assert (again.status_code, again.json()["status"]) == (202, "QUEUED")
    assert [one.verb for one in await desk.store.events(task)].count("process") == 1
    assert (await desk.wallet())["reserved"] == 5


async def test_a_retried_task_is_uploaded_and_run_anew(desk: Desk) -> None:
    old = await desk.completed()
    task = str(await desk.store.retry(old))
    assert (await desk.read(task))["status"] == "CREATED"
    links = await desk.links(task)
    await desk.put(links["primary"], b"a\n1\n2\n3\n4\n")
    await desk.process(task)
    desk.work()
    assert (await desk.downloads(task))["lines/lines.json"]["lines"] == 5
    assert (await desk.wallet())["spent"] == 10


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
async def test_a_retry_cannot_say_what_the_task_is(desk: Desk, payload: Any) -> None:
    task = await desk.completed(["lines"])
    answer = await desk.http.post(f"/api/v1/tasks/{task}/retry", json={"payload": payload})
    assert (answer.status_code, answer.json()["code"]) == (422, "request-invalid"), answer.text


async def test_a_retry_with_other_agents_costs_what_they_cost_today(desk: Desk) -> None:
    task = await desk.completed(["lines"])
    payload = {"tool_id": "count", "agents": ["size"]}
    again = (await desk.http.post(f"/api/v1/tasks/{task}/retry", json={"payload": payload})).json()["task_id"]
    assert (await desk.read(again))["credits"] == {"price": 3, "charged": 0, "reserved": 0}
    assert (await desk.read(again))["progress_detail"]["agents_completed"] == 0
    await desk.cancel(again)
    assert await desk.downloads(again) == {}


async def test_a_task_without_a_tool_is_not_a_users_task(desk: Desk) -> None:
    (made,) = await desk.store.submit(Submission(lifecycle="analysis"))
    assert (await desk.http.get(f"/tasks/{made.id}")).status_code == 404


async def test_who_only_knows_a_tool_does_not_change_it(desk: Desk) -> None:
    dear = {**PROFILE_MY_DATA.published(), "title": "Dear"}
    await desk.analyses.define_tool(dear)
    await declare_all(desk.store)
    assert {**dear, "available": False} in (await desk.http.get("/tools")).json()["items"]


async def test_a_tool_says_whether_somebody_runs_it(desk: Desk) -> None:
    await desk.store.hello("w", label="", queues=["analysis"], names=["count"], slots=1)
    tools = {one["id"]: one["available"] for one in (await desk.http.get("/tools")).json()["items"]}
    assert (tools["count"], tools["profile-my-data"]) == (True, False)
    desk.clock.advance(minutes=1)
    assert not any(one["available"] for one in (await desk.http.get("/tools")).json()["items"])


@pytest.mark.parametrize("agent", [{"name": "../x"}, {"credits": -5}, {"credits": None}, {"credits": 1.5}])
async def test_a_tool_that_nobody_could_pay_is_refused(desk: Desk, agent: dict[str, Any]) -> None:
    whole = {"name": "a", "title": "", "credits": 1, "needs_baseline": False}
    with pytest.raises(RequestInvalid, match="has no name, or no price"):
        await desk.analyses.define_tool({"id": "odd", "title": "", "agents": [{**whole, **agent}]})


@pytest.mark.parametrize("price", [-1, 1.5, "2", True, 10**7])
def test_an_agent_has_a_price_in_whole_credits(price: Any) -> None:
    with pytest.raises(AppInvalid, match="has no price"):
        Tool("odd", [Agent("a", lambda job: None, credits=price)])


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"readng": {}}, "there is no section 'readng'. There are: reading, lines, size, compare, free."),
        ({"lines": 5}, "lines holds no object"),
        ({"lines": {"wrd": "x"}}, "lines.wrd: Extra inputs are not permitted"),
    ],
)
async def test_wrong_parameters_are_found_before_anything_is_paid(
    desk: Desk, parameters: dict[str, Any], says: str
) -> None:
    task = await desk.queued(["size", "lines"], **parameters)
    desk.work()
    status = await desk.read(task)
    assert (status["status"], status["error_code"]) == ("FAILED", "FILE_FORMAT_ERROR")
    assert says in status["error_message"]
    assert (await desk.wallet())["spent"] == 0


async def test_the_same_key_gives_the_same_task_whatever_became_of_the_tool(desk: Desk) -> None:
    body, key = {"tool_id": "count", "agents": ["lines"]}, {"Idempotency-Key": "once"}
    first = await desk.http.post("/tasks", json=body, headers=key)
    await desk.analyses.define_tool({"id": "count", "title": "", "agents": [
        {"name": "size", "title": "", "credits": 9, "needs_baseline": False}]})  # fmt: skip
    again = await desk.http.post("/tasks", json=body, headers=key)
    assert (again.status_code, again.json()) == (201, first.json())


async def test_inputs_stay_when_nobody_knows_whether_the_task_was_queued(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the database is lost after its commit."""
    task = await desk.uploaded(["lines"])
    act = Store.act

    async def lose_the_answer(store: Store, *given: Any) -> str:
        await act(store, *given)
        raise DatabaseUnreachable("the line is dead")

    monkeypatch.setattr(Store, "act", lose_the_answer)
    assert (await desk.process(task)).status_code == 503
    monkeypatch.undo()
    assert (await desk.process(task)).json()["status"] == "QUEUED"
    desk.work()
    assert (await desk.read(task))["status"] == "COMPLETED"


async def test_two_attempts_of_an_agent_write_to_two_places(desk: Desk) -> None:
    task, first = await desk.processing(["lines"])
    await desk.store.hand_back("a test")
    desk.work()
    (step,) = await desk.store.steps(task)
    assert all(first.token.hex not in one["key"] for one in step.result)
    assert len({one["key"].split("/")[-2] for one in step.result}) == 1


async def test_a_task_of_another_lifecycle_is_not_found_here(desk: Desk) -> None:
    made = await desk.http.post("/dispatch/tasks", json={"task": "anything"})
    answer = await desk.http.get(f"/tasks/{made.json()['task_id']}")
    assert answer.status_code == 404
