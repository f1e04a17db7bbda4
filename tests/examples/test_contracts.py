"""The step that examples/contracts.py adds: the happy path, and the four ways to fail. Copy it for a step of yours."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from examples.contracts import ingest_contract

from holdfast.testing import Engine, Ran
from tests.servers import QuietHandler, QuietServer, running

CONTRACT = "# Lease\n\n1. The boat is lent for a week.\n\n2. It comes back clean.\n"
CLAUSES = {"clauses": ["The boat is lent for a week.", "It comes back clean."], "tokens": 21}


class Service:
    """What finds clauses, over real HTTP: it answers by script, then well."""

    def __init__(self) -> None:
        self.script: list[tuple[int, dict[str, str]]] = []
        self.asked = 0

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        self.asked += 1
        status, headers = self.script.pop(0) if self.script else (200, {})
        return status, headers, json.dumps(CLAUSES if status == 200 else {}).encode()


@contextmanager
def serving(service: Service) -> Iterator[str]:
    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 - http.server calls it so
            self.rfile.read(int(self.headers["Content-Length"]))
            status, headers, body = service.answer()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    with running(QuietServer(("127.0.0.1", 0), Handler)) as port:
        yield f"http://127.0.0.1:{port}/clauses"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    service = Service()
    with serving(service) as url:
        monkeypatch.setenv("CLAUSES_URL", url)
        yield service


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = tmp_path / "lease.md"
    path.write_text(CONTRACT)
    return path.as_uri()


def category(ran: Ran[Any]) -> str:
    return str(ran.events[-1].data["category"])


def test_the_clauses_are_found_and_paid_for_once(holdfast: Engine, service: Service, uri: str) -> None:
    ran = holdfast.run(ingest_contract, uri, crash_after="CLAUSES_FOUND")
    assert (ran.state, ran.value["clauses"]) == ("DONE", CLAUSES["clauses"])
    assert (service.asked, ran.steps.count("CLAUSES_FOUND")) == (1, 1)
    assert [one["tokens_in"] for one in ran.usage if one["model"] == "clause-finder"] == [21]


def test_asked_to_slow_down_it_waits(holdfast: Engine, service: Service, uri: str) -> None:
    service.script = [(429, {"Retry-After": "120"})] * 9
    began = holdfast.clock.now()
    ran = holdfast.run(ingest_contract, uri)
    assert (ran.state, ran.attempts, service.asked) == ("DONE", 1, 10)
    assert (holdfast.clock.now() - began).total_seconds() >= 9 * 120


def test_a_service_that_is_away_is_asked_again_a_few_times(holdfast: Engine, service: Service, uri: str) -> None:
    service.script = [(503, {})] * 5
    ran = holdfast.run(ingest_contract, uri)
    assert (ran.state, ran.attempts, service.asked) == ("DONE", 6, 6)
    service.script = [(503, {})] * 99
    ran = holdfast.run(ingest_contract, uri)
    assert (ran.state, category(ran)) == ("FAILED", "Transient")


@pytest.mark.parametrize(("status", "expected"), [(422, "SchemaInvalid"), (401, "Fatal")])
def test_what_will_not_mend_goes_to_the_inbox_at_once(
    holdfast: Engine, service: Service, uri: str, status: int, expected: str
) -> None:
    service.script = [(status, {})]
    ran = holdfast.run(ingest_contract, uri)
    assert (ran.state, category(ran), service.asked) == ("FAILED", expected, 1)
