"""What the faults do to a client, over real connections."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from holdfast.testing.providers import (
    Fault,
    Faults,
    Forward,
    Server,
    change,
    delay,
    drip,
    dropped,
    gzipped,
    html,
    lost_answer,
    rewrite,
    status,
    truncated,
)


class Counter:
    """An app that counts what it was asked to do."""

    def __init__(self) -> None:
        self.done = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            sent = await Request(scope, receive).body()
            self.done += 1
            await JSONResponse({"done": self.done, "sent": sent.decode()})(scope, receive, send)


@pytest.fixture
def counter() -> Counter:
    return Counter()


@pytest.fixture
def faults(counter: Counter, tmp_path: Path) -> Faults:
    return Faults(counter, ledger=tmp_path / "requests.jsonl", note=["x-amz-target"])


@pytest.fixture
def server(faults: Faults) -> Iterator[Server]:
    with Server(faults) as server:
        yield server


@pytest.fixture
def http(server: Server) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, trust_env=False, timeout=10) as client:
        yield client


def test_what_no_rule_names_goes_through(http: httpx2.Client, faults: Faults) -> None:
    faults.add("POST", "/other", lost_answer())
    assert http.post("/jobs", content=b"x").json() == {"done": 1, "sent": "x"}
    assert http.get("/other").status_code == 200


def test_a_lost_answer_is_work_that_was_done(http: httpx2.Client, faults: Faults, counter: Counter) -> None:
    faults.add("POST", "/jobs$", lost_answer())
    with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
        http.post("/jobs", content=b"x" * 100_000)
    assert counter.done == 1
    assert http.post("/jobs").json()["done"] == 2


def test_a_dropped_request_is_work_that_was_not_done(http: httpx2.Client, faults: Faults, counter: Counter) -> None:
    faults.add("POST", "/jobs$", dropped())
    with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)):
        http.post("/jobs")
    assert counter.done == 0


@pytest.mark.parametrize(
    ("fault", "error", "timeout"),
    [
        (truncated(), httpx2.RemoteProtocolError, 30),
        (drip(60), httpx2.ReadTimeout, 3),
        (delay(60), httpx2.ReadTimeout, 3),
    ],
)
def test_an_answer_can_come_in_part_or_too_late(
    http: httpx2.Client, faults: Faults, counter: Counter, fault: Fault, error: type[Exception], timeout: float
) -> None:
    faults.add("GET", "/jobs", fault)
    with pytest.raises(error):
        http.get("/jobs", timeout=httpx2.Timeout(60, read=timeout))
    assert counter.done == 1


def test_an_answer_can_be_made_up(http: httpx2.Client, faults: Faults, counter: Counter) -> None:
    faults.add("GET", "/jobs", status(429, {"Retry-After": "7"}, {"error": {"code": "slow_down"}}))
    faults.add("GET", "/jobs", html(), nth=2)
    first, second = http.get("/jobs"), http.get("/jobs")
    assert (first.status_code, first.headers["retry-after"], first.json()["error"]["code"]) == (429, "7", "slow_down")
    assert (second.status_code, second.headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert counter.done == 0


def test_an_answer_can_be_changed(http: httpx2.Client, faults: Faults) -> None:
    def as_text(answer: Any) -> Any:
        return {"done": str(answer["done"])}

    faults.add("GET", "/jobs", rewrite(as_text))
    faults.add("GET", "/jobs", change({"more": 1}, remove=["sent"]), nth=2)
    faults.add("GET", "/jobs", gzipped(), nth=3)
    assert http.get("/jobs").json() == {"done": "1"}
    assert http.get("/jobs").json() == {"done": 2, "more": 1}
    with http.stream("GET", "/jobs", headers={"Accept-Encoding": "identity"}) as answer:
        assert json.loads(gzip.decompress(b"".join(answer.iter_raw())))["done"] == 3


def test_a_rule_meets_the_requests_that_it_counts(http: httpx2.Client, faults: Faults) -> None:
    faults.add("*", "/jobs", status(503), nth=2, times=2)
    faults.add("*", "/jobs", status(500), nth=5, times=None)
    http.get("/elsewhere")
    assert [http.get("/jobs").status_code for _ in range(7)] == [200, 503, 503, 200, 500, 500, 500]
    faults.clear()
    assert http.get("/jobs").status_code == 200


def test_a_rule_can_ask_for_a_header(http: httpx2.Client, faults: Faults) -> None:
    faults.add("POST", "^/$", status(400), headers={"X-Amz-Target": r"\.StartTranscriptionJob$"}, times=None)
    assert http.post("/", headers={"X-Amz-Target": "Transcribe.GetTranscriptionJob"}).status_code == 200
    assert http.post("/", headers={"X-Amz-Target": "Transcribe.StartTranscriptionJob"}).status_code == 400
    assert [one.noted["x-amz-target"].partition(".")[2] for one in faults.requests()] == [
        "GetTranscriptionJob",
        "StartTranscriptionJob",
    ]


def test_the_ledger_outlives_the_server(http: httpx2.Client, faults: Faults, counter: Counter) -> None:
    faults.add("POST", "/jobs$", lost_answer())
    with pytest.raises(httpx2.TransportError):
        http.post("/jobs?limit=1")
    http.get("/other")
    later = Faults(counter, ledger=faults.ledger)
    assert [(one.method, one.path, one.query, one.status, one.fault) for one in later.requests()] == [
        ("POST", "/jobs", "limit=1", 200, "lost_answer"),
        ("GET", "/other", "", 200, None),
    ]
    assert len(later.requests("GET", "/oth")) == 1


def test_a_server_in_another_process_takes_rules_over_http(http: httpx2.Client) -> None:
    rule = {"method": "GET", "path": "/jobs", "fault": {"kind": "status", "status": 503, "body": {}}, "times": 2}
    assert http.post("/_faults", json=[rule]).status_code == 200
    assert http.get("/jobs").status_code == 503
    assert http.get("/_faults").json()[0]["seen"] == 1
    http.delete("/_faults")
    assert http.get("/jobs").status_code == 200
    assert [one["status"] for one in http.get("/_faults/requests").json()] == [None, 200]


def test_a_server_starts_again_on_its_port(server: Server, counter: Counter) -> None:
    httpx2.get(f"{server.url}/jobs")
    server.stop()
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{server.url}/jobs")
    server.start()
    assert httpx2.get(f"{server.url}/jobs").json()["done"] == 2


def test_faults_can_stand_before_a_real_server(counter: Counter) -> None:
    with Server(counter) as real, Server(faults := Faults(Forward(real.url))) as proxy:
        faults.add("POST", "/jobs", lost_answer(), nth=2)
        assert httpx2.post(f"{proxy.url}/jobs?a=b", content=b"x").json() == {"done": 1, "sent": "x"}
        with pytest.raises(httpx2.TransportError):
            httpx2.post(f"{proxy.url}/jobs")
        assert counter.done == 2
