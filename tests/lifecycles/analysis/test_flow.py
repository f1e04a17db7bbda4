"""From nothing to a download, as a client does it."""

import json

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


async def test_a_task_of_another_lifecycle_is_not_found_here(desk: Desk) -> None:
    made = await desk.http.post("/dispatch/tasks", json={"task": "anything"})
    answer = await desk.http.get(f"/tasks/{made.json()['task_id']}")
    assert answer.status_code == 404
