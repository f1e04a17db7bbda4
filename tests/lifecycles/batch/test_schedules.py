"""Seeded schedules of crashes, lost answers, refusals and cancels, against each provider's own books."""

import asyncio
import gc
import json
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.apps.providers import answers
from holdfast.apps.providers.aws import AWS
from holdfast.apps.providers.local.process import Model
from holdfast.apps.providers.local.provider import Local
from holdfast.apps.providers.openai import OpenAI
from holdfast.batch import Provider
from holdfast.errors import RateLimited, Transient
from holdfast.objects import Objects
from holdfast.remote.places import objects_of
from holdfast.sdk.client import OVERRIDES
from holdfast.testing.engine import Engine
from holdfast.testing.providers import Fault, Faults, OpenAIStandIn, Server, dropped, html, lost_answer, status
from holdfast.testing.providers.aws import GET, START, Amazon
from tests.lifecycles.batch.bureau import Bureau
from tests.lifecycles.batch.crashes import watch_reports
from tests.lifecycles.batch.schedules import Schedules, Witness
from tests.providers.jobs import ROOT
from tests.tiers import deep

seeds_on_this_machine = 15
seeds_that_meet_everything = 10
FIFTY = [range(2), deep(range(2, 15)), pytest.param(range(15, 50), marks=pytest.mark.long)]
AT_A_BUREAU = [range(2), deep(range(2, 15))]
seeds_in_long = 1000

# A crash here stops threads, and one that is stopped in the middle of opening something leaves that to the collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What was left open is not laid at the next test's door."""
    yield
    gc.collect()


class AtBureau:
    """A provider in the test's hand, of one of the kinds that there are."""

    def __init__(self, **kind: Any) -> None:
        self.bureau = Bureau(**kind)
        self.provider: Provider = self.bureau

    def inputs(self, rng: random.Random) -> dict[str, Any]:
        return {"urls": [f"https://example.org/{n}.wav" for n in range(rng.randint(1, 5))]}

    def trouble(self, rng: random.Random) -> None:
        for call in ("submit", "find", "poll", "fetch", "cancel"):
            for when in (self.bureau.before, self.bureau.after if call == "submit" else {call: []}):
                when[call] = rng.choices(
                    [None, Transient("lost"), RateLimited("slow", retry_after=30), ValueError("odd")], [6, 2, 1, 1], k=6
                )
                if when is self.bureau.after:  # what was begun is no refusal
                    when[call] = [one if not isinstance(one, RateLimited) else None for one in when[call]]

    def calm(self) -> None:
        self.bureau.before.clear()
        self.bureau.after.clear()

    def begun(self) -> Sequence[str]:
        return [one.token for one in self.bureau.ledger]

    def running(self) -> Sequence[str]:
        return self.bureau.running


class AtOpenAI:
    """OpenAI's stand-in, over HTTP."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self.stand_in = OpenAIStandIn(folder / "openai")
        self.faults = Faults(self.stand_in, ledger=folder / "requests.jsonl")
        server.app = self.faults
        self.provider: Provider = OpenAI()
        self.provider.inputs_per_job = 2

    def inputs(self, rng: random.Random) -> dict[str, Any]:
        path = self.folder / "prompts.txt"
        path.write_text("".join(f"prompt {n}\n" for n in range(rng.randint(1, 4))))
        return {"urls": [path.as_uri()], "models": ["stand-in"]}

    def trouble(self, rng: random.Random) -> None:
        self.stand_in.behave(polls=rng.randint(1, 2), hidden_lists=0, cancel=rng.choice(["works", "too_late"]))
        requests = [
            ("POST", "/batches$"),
            ("POST", "/files$"),
            ("GET", "/batches$"),
            ("GET", "/batches/"),
            ("GET", "/content"),
        ]
        for method, path in requests:
            for _ in range(rng.randint(0, 2)):
                self.faults.add(method, path, rng.choice(WIRE), nth=rng.randint(1, 3))

    def calm(self) -> None:
        self.faults.clear()

    def begun(self) -> Sequence[str]:
        return [one["metadata"]["holdfast_job"] for one in self.stand_in.ledger()]

    def running(self) -> Sequence[str]:
        batches = [json.loads(path.read_text()) for path in (self.folder / "openai" / "batches").glob("batch_*.json")]
        over = ("completed", "failed", "expired", "cancelled", "cancelling")
        return [batch["id"] for batch in batches if batch["status"] not in over]


class AtAmazon:
    """moto behind faults, over HTTP."""

    def __init__(self, amazon: Amazon) -> None:
        self.amazon = amazon
        self.provider: Provider = AWS()
        self.number = 0

    def inputs(self, rng: random.Random) -> dict[str, Any]:
        self.number += 1
        urls = [f"s3://calls/{self.number}-{n}.wav" for n in range(rng.randint(1, 2))]
        for url in urls:
            self.amazon.record(url)
            if rng.random() < 0.1:
                self.amazon.fail(url, "Unsupported media format")
        return {"urls": urls}

    def trouble(self, rng: random.Random) -> None:
        for headers in (START, GET):
            for _ in range(rng.randint(0, 2)):
                fault = rng.choice([*WIRE[:3], status(400, body=throttled())])
                self.amazon.faults.add("POST", "^/$", fault, headers=headers, nth=rng.randint(1, 3))

    def calm(self) -> None:
        self.amazon.faults.clear()

    def begun(self) -> Sequence[str]:
        return self.amazon.begun()

    def running(self) -> Sequence[str]:
        return []  # what was begun there ends by itself, and nobody can stop it: the inbox tells


class AtLocal:
    """This machine, with a model that writes down what it was given."""

    def __init__(self, folder: Path, objects: Callable[[], Objects]) -> None:
        self.folder = folder
        self.objects = objects
        self.local = Local()
        self.local.speech = Model("tests.providers.fragile", answer_most=timedelta(seconds=20))
        self.provider: Provider = self.local
        self.provider.inputs_per_job = 2
        self.logs: list[Path] = []

    def inputs(self, rng: random.Random) -> dict[str, Any]:
        urls = []
        for _ in range(rng.randint(1, 4)):
            log, path = self.folder / f"{len(self.logs)}.log", self.folder / f"{len(self.logs)}.wav"
            path.write_text(f"count {log}")
            self.logs.append(log)
            urls.append(path.as_uri())
        return {"urls": urls}

    def trouble(self, rng: random.Random) -> None:
        """Crashes are enough: there is no wire."""

    def calm(self) -> None:
        """There was none."""

    def begun(self) -> Sequence[str]:
        found = asyncio.run(self.objects().keys("batches"))
        return [one.key.split("/")[-2] for one in found if one.key.endswith("/inputs.json")]

    def running(self) -> Sequence[str]:
        return []  # nothing happens between two polls

    def times_heard(self) -> list[int]:
        return [len(log.read_text()) if log.exists() else 0 for log in self.logs]


def throttled() -> dict[str, str]:
    return {"__type": "ThrottlingException", "message": "Rate exceeded"}


WIRE: list[Fault] = [
    lost_answer(), dropped(), status(500), status(503, {"Retry-After": "5"}), status(429, {"Retry-After": "7"}), html(),
]  # fmt: skip

BUREAUS: dict[str, dict[str, Any]] = {
    "that lists": {},
    "that knows its tokens": {"repeats_submit": True},
    "that cannot tell": {"can_tell": False},
    "that cannot stop": {"can_cancel": False},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(OpenAIStandIn(tmp_path_factory.mktemp("first"))) as server:
        yield server


@pytest.fixture(scope="module")
def amazon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Amazon]:
    with Amazon(tmp_path_factory.mktemp("amazon")) as amazon:
        yield amazon


def play(engine: Engine, monkeypatch: pytest.MonkeyPatch, witness: Witness, task_type: str, seeds: range) -> None:
    schedules = Schedules(engine, witness, task_type)
    watch_reports(monkeypatch, lambda where: schedules.crashes(where))
    for seed in seeds:
        schedules.play(seed)
    if len(seeds) < seeds_that_meet_everything:
        return
    assert schedules.played.states["COMPLETED"], schedules.played
    assert schedules.played.states["CANCELLED"], schedules.played
    before_the_job = ("after intend", "before submit", "after submit", "before accept")
    assert sum(schedules.played.crashes[where] for where in before_the_job) > 2, schedules.played


@pytest.fixture
def at_openai(tmp_path: Path, server: Server, holdfast: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[AtOpenAI]:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-no-secret")
    monkeypatch.setattr(answers, "clocks_differ", timedelta(days=36_500))  # the database's clock is moved
    at = AtOpenAI(tmp_path, server)
    yield at
    holdfast.call(at.provider.close())


@pytest.fixture
def at_local(tmp_path: Path, holdfast: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[AtLocal]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    at = AtLocal(tmp_path, lambda: objects_of(OVERRIDES[-1]))
    yield at
    holdfast.call(at.provider.close())


@pytest.fixture
def at_amazon(amazon: Amazon, holdfast: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[AtAmazon]:
    for name, value in amazon.variables.items():
        monkeypatch.setenv(name, value)
    at = AtAmazon(amazon)
    yield at
    holdfast.call(at.provider.close())


Start = Callable[[range], None]


@pytest.mark.parametrize("seeds", AT_A_BUREAU, ids=str)
@pytest.mark.parametrize("kind", BUREAUS.values(), ids=BUREAUS.keys())
def test_at_a_bureau_no_job_is_begun_twice(
    holdfast: Engine, monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any], seeds: range
) -> None:
    play(holdfast, monkeypatch, AtBureau(**kind), "transcription", seeds)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seeds", FIFTY, ids=str)
def test_at_openai_no_job_is_begun_twice(
    holdfast: Engine, monkeypatch: pytest.MonkeyPatch, at_openai: AtOpenAI, seeds: range
) -> None:
    play(holdfast, monkeypatch, at_openai, "completion", seeds)


@pytest.mark.timeout(300)
@pytest.mark.deep
@pytest.mark.parametrize("seeds", FIFTY, ids=str)
def test_at_amazon_no_job_is_begun_twice(
    holdfast: Engine, monkeypatch: pytest.MonkeyPatch, at_amazon: AtAmazon, seeds: range
) -> None:
    play(holdfast, monkeypatch, at_amazon, "transcription", seeds)


@pytest.mark.deep
@pytest.mark.timeout(300)
def test_on_this_machine_no_recording_is_heard_again_once_that_is_kept(
    holdfast: Engine, monkeypatch: pytest.MonkeyPatch, at_local: AtLocal
) -> None:
    play(holdfast, monkeypatch, at_local, "transcription", range(seeds_on_this_machine))
    heard = at_local.times_heard()
    assert sum(number > 1 for number in heard) < len(heard) / 5, "only who was cut off by a crash is heard again"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", BUREAUS.values(), ids=BUREAUS.keys())
def test_in_many_schedules_at_a_bureau_no_job_is_begun_twice(
    holdfast: Engine, monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]
) -> None:
    play(holdfast, monkeypatch, AtBureau(**kind), "transcription", range(1000, 1000 + seeds_in_long // 4))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_in_a_thousand_schedules_at_openai_no_job_is_begun_twice(
    holdfast: Engine, monkeypatch: pytest.MonkeyPatch, at_openai: AtOpenAI
) -> None:
    play(holdfast, monkeypatch, at_openai, "completion", range(1000, 1000 + seeds_in_long))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_in_a_thousand_schedules_at_amazon_no_job_is_begun_twice(
    holdfast: Engine, monkeypatch: pytest.MonkeyPatch, at_amazon: AtAmazon
) -> None:
    play(holdfast, monkeypatch, at_amazon, "transcription", range(1000, 1000 + seeds_in_long))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_in_a_thousand_schedules_on_this_machine_no_job_is_begun_twice(
    holdfast: Engine, monkeypatch: pytest.MonkeyPatch, at_local: AtLocal
) -> None:
    play(holdfast, monkeypatch, at_local, "transcription", range(1000, 1000 + seeds_in_long))
