"""`holdfast up`: the banner comes when all of it answers, and Ctrl-C leaves nothing running and nothing lost."""

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest

from holdfast.lifecycles import LIFECYCLES
from holdfast.postgres.embedded import Embedded, is_watched, read_postmaster
from holdfast.postgres.embedded.folder import try_lock
from holdfast.testing import Database, Ground


def start_up(folder: Path, **environment: str) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", "up"],
        cwd=folder, env={**clean, "HOLDFAST_PORT": "0", **environment}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


class Up:
    """A running `holdfast up`, past its banner."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.process = start_up(folder, **environment)
        self.banner = ""
        assert self.process.stdout
        while not (found := re.search(r"http://\S+", self.banner)) or "Ctrl-C" not in self.banner:
            line = self.process.stdout.readline()
            if not line:
                assert self.process.stderr
                pytest.fail(self.process.stderr.read())
            self.banner += line
        self.url = found[0]

    def get(self, path: str) -> httpx2.Response:
        return httpx2.get(self.url + path, timeout=30)

    def stop(self, number: int = signal.SIGINT) -> str:
        """Ask it to end; what it said on stderr."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=30)[1]


@pytest.fixture(scope="module")
def up(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One for all that only look."""
    with ground.database() as database:
        up = Up(tmp_path_factory.mktemp("up"), HOLDFAST_URL=database.url)
        yield up
        assert "Stopped." in up.stop()


def test_health_ready_and_the_page_answer(up: Up) -> None:
    assert up.get("/health").json()["status"] == "ok"
    ready = up.get("/ready").json()
    assert (ready["status"], ready["database_time"]) == ("ready", "2030-01-01T00:00:00Z")
    page = up.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "Ready." in page.text
    assert "/test_" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


@pytest.mark.deep
def test_the_lifecycles_are_there_in_every_form(up: Up) -> None:
    names = [item["name"] for item in up.get("/api/v1/lifecycles").json()["items"]]
    assert names == sorted(lifecycle.name for lifecycle in LIFECYCLES)
    page = up.get("/").text
    for name in names:
        path = f"/api/v1/lifecycles/{name}"
        assert f"{path[1:]}?format=svg" in page
        assert up.get(path).json()["name"] == name
        assert up.get(f"{path}?format=svg").headers["content-type"] == "image/svg+xml"
        assert up.get(f"{path}?format=mermaid").text.startswith("stateDiagram-v2")
        assert up.get(f"{path}?format=matrix").text.startswith("| from")
    missing = up.get("/api/v1/lifecycles/nope")
    assert (missing.status_code, missing.json()["type"]) == (404, "urn:holdfast:lifecycle-unknown")


def test_errors_are_problems(up: Up) -> None:
    missing = up.get("/nowhere")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")
    assert missing.json()["instance"] == "/nowhere"
    wrong = httpx2.post(f"{up.url}/health")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
    assert wrong.json()["title"] == "Method Not Allowed"


@pytest.mark.deep
def test_the_embedded_server_comes_and_goes_with_it(tmp_path: Path) -> None:
    up = Up(tmp_path)
    assert f"embedded in {tmp_path}/.holdfast" in up.banner
    assert f"Objects:         the folder {tmp_path}/.holdfast/objects" in up.banner
    assert up.get("/ready").json()["migrations"] >= 1
    server, _, _ = server_in(tmp_path / ".holdfast")
    output = up.stop()
    assert up.process.returncode == 0
    assert "Stopped." in output
    assert "Traceback" not in output
    server.wait(30)


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(tmp_path: Path, database: Database, number: int) -> None:
    up = Up(tmp_path, HOLDFAST_URL=database.url)
    assert "Stopped." in up.stop(number)
    assert up.process.returncode == 0


@pytest.mark.deep
def test_ctrl_c_while_it_starts_ends_it_too(tmp_path: Path) -> None:
    with start_up(tmp_path) as starting:
        while not (tmp_path / ".holdfast" / "watchdog.lock").exists():
            threading.Event().wait(0.005)
        starting.send_signal(signal.SIGINT)
        out, output = starting.communicate(timeout=30)
        assert (out, starting.returncode) == ("", 0)
        assert "Traceback" not in output
    while is_watched(tmp_path / ".holdfast"):
        threading.Event().wait(0.01)


@pytest.mark.deep
def test_ctrl_c_while_the_start_hangs_ends_it_at_once(tmp_path: Path) -> None:
    home = tmp_path / ".holdfast"
    home.mkdir()
    stuck = try_lock(home / "watchdog.lock", fcntl.LOCK_EX)  # a watchdog that never gets its server ready
    with start_up(tmp_path) as starting:
        while not Embedded(home).is_in_use():
            threading.Event().wait(0.005)
        starting.send_signal(signal.SIGINT)
        assert "Stopped." in starting.communicate(timeout=60)[1]
        assert starting.returncode == 0
    assert stuck is not None
    os.close(stuck)


@pytest.mark.deep
def test_it_finds_an_embedded_server_that_had_to_move(tmp_path: Path) -> None:
    up = Up(tmp_path)
    server, watchdog, port = server_in(tmp_path / ".holdfast")
    up.process.send_signal(signal.SIGSTOP)
    watchdog.kill()
    server.wait(30)
    with socket.create_server(("127.0.0.1", port)):
        up.process.send_signal(signal.SIGCONT)
        while up.get("/ready").status_code != 200:
            threading.Event().wait(0.02)
        assert server_in(tmp_path / ".holdfast")[2] != port
    up.stop()


def server_in(home: Path) -> tuple[psutil.Process, psutil.Process, int]:
    """The postmaster, its watchdog and its port."""
    running = read_postmaster(home)
    assert running
    watchdog = psutil.Process(running.pid).parent()
    assert watchdog
    return psutil.Process(running.pid), watchdog, running.port


@pytest.mark.deep
def test_a_taken_port_is_passed_over_and_named(tmp_path: Path, database: Database) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        up = Up(tmp_path, HOLDFAST_URL=database.url, HOLDFAST_PORT=str(port))
        assert f"(port {port} is taken)" in up.banner
        assert up.get("/health").status_code == 200
        up.stop()


@pytest.mark.deep
def test_two_servers_share_one_database(tmp_path: Path) -> None:
    one, two = Up(tmp_path), Up(tmp_path)
    assert one.url != two.url
    one.stop()
    assert two.get("/ready").status_code == 200
    two.stop()


@pytest.mark.deep
def test_readiness_follows_the_database_and_health_does_not(tmp_path: Path) -> None:
    up = Up(tmp_path)
    server, watchdog, _ = server_in(tmp_path / ".holdfast")
    watchdog.suspend()
    server.kill()
    gone = up.get("/ready")
    assert (gone.status_code, gone.json()["type"]) == (503, "urn:holdfast:database-unreachable")
    assert up.get("/health").status_code == 200
    assert "Not ready." in up.get("/").text
    watchdog.resume()
    while up.get("/ready").status_code != 200:
        threading.Event().wait(0.02)
    assert "Ready." in up.get("/").text
    up.stop()


@pytest.mark.deep
def test_logs_are_json_lines_without_a_terminal(tmp_path: Path, empty_database: Database) -> None:
    up = Up(tmp_path, HOLDFAST_URL=empty_database.owner_url)
    lines = [json.loads(line) for line in up.stop().splitlines() if line.startswith("{")]
    assert {"event": "schema changed", "applied": "engine/0001_clock"}.items() <= lines[0].items()
