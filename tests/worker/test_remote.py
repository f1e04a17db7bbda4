"""A host without a database: its workers and applications speak to a server, and nothing there starts a database."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.task import Submission
from holdfast.errors import (
    DatabaseError,
    RequestInvalid,
    ServerUnreachable,
    TaskCancelled,
    TaskFailed,
    TaskNotFound,
    WorkerRefused,
)
from holdfast.remote.worker_backend import open_remote
from holdfast.sdk.client import Holdfast
from holdfast.sdk.handle import Handle
from holdfast.settings import Settings
from holdfast.testing import Database, Ground
from tests.over_http import key_to, staffing
from tests.sharing import free_ports
from tests.worker import app
from tests.worker.crew import Crew
from tests.worker.servers import ServerProcess
from tests.worker.test_running import command


@pytest.fixture(scope="module")
def office(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, Crew]]:
    """One worker for all tests here, over HTTP."""
    folder = tmp_path_factory.mktemp("office")
    with ground.live_database() as database, staffing(database, folder, "http") as crew:
        crew.start()
        yield database, crew


@pytest.fixture
async def client(staff: Crew, tmp_path: Path) -> AsyncIterator[Holdfast]:
    """The application on a host that knows the server only."""
    settings = Settings(
        api=staff.environment["HOLDFAST_API"], key=staff.environment["HOLDFAST_KEY"], home=tmp_path / ".holdfast"
    )
    client = Holdfast(settings=settings)
    for task in app.hf.tasks.values():
        client.task(name=task.name, lifecycle=app.hf.lifecycles.get(task.lifecycle, "dispatch"))(task.function)
    yield client
    await asyncio.to_thread(client.close)
    assert not settings.home.exists(), "no database was started here"


async def test_an_application_starts_tasks_and_waits_for_them(client: Holdfast) -> None:
    handle = await client.tasks["add"].astart(20, 22)
    assert await handle == 42
    assert (await handle.aread())["state"] == "Completed"
    assert [event.verb async for event in handle.watch()] == ["submit", "claim", "done"]
    many = await client.asubmit(client.tasks["add"].submission(n, 1) for n in range(50))
    assert [await one for one in many] == list(range(1, 51))


async def test_plain_code_does_so_too(client: Holdfast, staff: Crew) -> None:
    def start() -> Handle[Any]:
        held = client.tasks["cooperative"].opts(key="once", tags=["x"]).start("held")
        assert client.tasks["cooperative"].opts(key="once", tags=["x"]).start("held") == held
        return held

    def end(held: Handle[Any]) -> None:
        assert held.why().reason == "leased"
        with pytest.raises(TimeoutError):
            held.result(timeout=0.2)
        assert held.cancel("no need") == "requested"
        with pytest.raises(TaskCancelled):
            held.result(timeout=30)
        with pytest.raises(TaskFailed):
            client.tasks["quit_politely"].start("sys.exit").result(timeout=60)
        with pytest.raises(TaskNotFound):
            client.handle("01b8dac5-b400-730f-8c80-71bbed710aed").result(timeout=5)

    held = await asyncio.to_thread(start)
    await staff.noted("held")
    await asyncio.to_thread(end, held)


async def test_what_takes_a_database_is_refused_with_the_fix(client: Holdfast) -> None:
    with pytest.raises(RequestInvalid, match="HOLDFAST_URL"):
        await client.tasks["add"].opts(on=object()).astart(1, 2)
    with pytest.raises(RequestInvalid, match="HOLDFAST_URL"):
        await client.tasks["ticket"].astart("moved")
    with pytest.raises(RequestInvalid, match="the owner of the key"):
        await client.tasks["add"].opts(owner="ada").astart(1, 2)
    with pytest.raises(RequestInvalid, match="HOLDFAST_URL"):
        await client.acall(client.open_store())
    with pytest.raises(RequestInvalid, match="HOLDFAST_URL"):
        await client.asgi().open()


async def test_a_task_of_somebody_else_is_not_there(client: Holdfast, staff: Crew) -> None:
    (task,) = await staff.submit(Submission("add", {"a": 1, "b": 2}, owner="bob"))
    with pytest.raises(TaskNotFound):
        await client.handle(task).aresult(timeout=10)


TWO_KINDS = """
from holdfast import Holdfast

hf = Holdfast()
brief = hf.pipeline("brief")

@brief.stage
def read() -> int:
    return 1

@brief.stage
def summary(read: int) -> str:
    return f"{read} line"

@hf.task
def plain() -> str:
    return "ran"
"""


@pytest.mark.deep
async def test_tasks_of_other_lifecycles_run_there_too(staff: Crew, tmp_path: Path) -> None:
    file = tmp_path / "kinds.py"
    file.write_text(TWO_KINDS)
    with command(staff, "--app", str(file), "--grace", "1s") as process:
        try:
            (end,) = await staff.run(Submission("plain"))
            (job,) = await staff.run(Submission("brief", lifecycle="pipeline", queue="pipeline"))
        finally:
            process.terminate()
        output = process.communicate(timeout=60)[1].decode()
    assert end.result == "ran"
    assert (job.state, job.result["summary"]) == ("COMPLETED", "1 line")
    assert "brief, plain" in output
    assert staff.environment["HOLDFAST_API"] in output
    assert "HTTP Request" not in output, "not a line for each call"


@pytest.mark.deep
async def test_a_worker_whose_server_is_not_there_says_so(tmp_path: Path) -> None:
    crew = Crew("", tmp_path)
    crew.speak_http(f"http://127.0.0.1:{free_ports(1)[0]}", "hf_none")
    with command(crew, "--app", "tests.worker.app") as process:
        output = (await asyncio.to_thread(process.communicate, timeout=60))[1].decode()
    assert process.returncode == ServerUnreachable.exit_code
    assert "The server does not answer." in output


@pytest.mark.deep
async def test_a_key_that_does_not_count_ends_the_start(staff: Crew, tmp_path: Path) -> None:
    crew = Crew("", tmp_path)
    crew.speak_http(staff.environment["HOLDFAST_API"], "hf_none")
    with command(crew, "--app", "tests.worker.app") as process:
        output = (await asyncio.to_thread(process.communicate, timeout=60))[1].decode()
    assert process.returncode == 2
    assert "Set HOLDFAST_KEY" in output


async def test_a_worker_whose_key_was_revoked_says_so_and_what_to_do(staff: Crew, tmp_path: Path) -> None:
    api = staff.environment["HOLDFAST_API"]
    key = await staff.store.keys.make("leaver", ["worker"])
    async with open_remote(Settings(api=api, key=key.secret, home=tmp_path)) as remote:
        assert await remote.which_wait([]) == set()
        await staff.store.keys.revoke(key.id)
        with pytest.raises(WorkerRefused) as refused:
            await remote.which_wait([])
    assert isinstance(refused.value, DatabaseError), "it is waited for like one that is away"
    assert str(refused.value).splitlines()[1:] == [
        f"{api} refuses the key in HOLDFAST_KEY: it was revoked, or is of another server.",
        "Make one with `holdfast keys create NAME --role worker`, and start the worker with it.",
    ]


@pytest.mark.deep
async def test_a_server_that_is_away_costs_nothing(live: Database, tmp_path: Path) -> None:
    """The only one: what runs runs on, what ended waits to be settled, and no lease is lost."""
    server = ServerProcess(live.owner_url, tmp_path, free_ports(1)[0])
    with contextlib.closing(server), contextlib.closing(Crew(live.url, tmp_path)) as crew:
        await asyncio.to_thread(server.start)
        crew.speak_http(server.address, await asyncio.to_thread(key_to, live))
        async with live.store() as crew.store:
            await until_lost(crew, server)


async def until_lost(crew: Crew, server: ServerProcess) -> None:
    crew.start(lease_seconds=30.0)
    tasks = await crew.submit(app.hold.submission("go", "held"), app.outlasts.submission("done_meanwhile"))
    await crew.noted("held")
    await crew.noted("done_meanwhile")
    server.kill()
    crew.open("go")
    await crew.noted("held-done")
    assert len(await crew.store.outcomes(tasks)) < 2
    await asyncio.to_thread(server.start)
    for end in await crew.ended(tasks, within=60):
        read = await crew.read(end.task_id)
        assert (end.outcome, read["attempt"], read["crashes"], read["failures"]) == ("done", 1, 0, 0)
    assert len(crew.notes("held")) == 1
    assert await crew.store.verify() == []
