"""The newsroom as a whole: feeds in, a brief out, and what went wrong on the way told stage by stage."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.apps.newsroom.article import Thresholds
from holdfast.apps.newsroom.feeds import odd_feed, shipped_feeds
from holdfast.errors import RequestInvalid
from holdfast.lifecycles.pipeline.sdk import Pipeline
from holdfast.lifecycles.pipeline.store import Jobs
from holdfast.remote.places import objects_of
from holdfast.sdk.client import override_settings
from holdfast.settings import Settings
from holdfast.testing.engine import Engine, Ran
from tests.lifecycles.pipeline.newsroom.chat_server import KEY, ChatServer, chat_server
from tests.lifecycles.pipeline.newsroom.print_shop import item, rss
from tests.remote.site import Site, serving

pytestmark = pytest.mark.deep  # the sorter is trained in each process

ALL_ON: dict[str, Any] = {"enable_evaluation": True, "enable_auto_optimize": True}
STORM = "A storm has flooded the harbour of the capital, and the navy brought two hundred people to higher ground."
CUP = "The rowers of Lunne have won the cup by two lengths, and their coach jumped into the fjord in his suit."
RATE = "The central bank has left the interest rate as it was, and shares of builders gained two per cent."


class Harness:
    """The newsroom of a test, and what it makes."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.newsroom: Pipeline = Holdfast().newsroom()
        self.jobs = Jobs.over(engine.store)

    def run(self, *feeds: str, **params: Any) -> Ran[dict[str, Any]]:
        if feeds:
            params["feeds"] = list(feeds)
        return self.engine.run(self.newsroom, **params)

    def job(self, ran: Ran[Any]) -> dict[str, Any]:
        return self.engine.call(self.jobs.job(ran.handle.id)).model_dump(mode="json")

    def stages(self, ran: Ran[Any]) -> dict[str, Any]:
        return {one["name"]: one for one in self.job(ran)["stages"]}

    def outputs(self, ran: Ran[Any]) -> dict[str, str]:
        """The files that a job has made, with what is in them."""
        found, _, _ = self.engine.call(self.jobs.outputs(ran.handle.id))
        for one in found:
            self.engine.call(objects_of(self.newsroom.app.settings).fetch(one.key, self.folder / one.name))
        return {one.name: (self.folder / one.name).read_text() for one in found}

    def result(self, ran: Ran[Any], stage: str) -> Any:
        (step,) = (one for one in self.engine.call(self.engine.store.steps(ran.handle.id)) if one.name == stage)
        return step.result["result"]

    def write(self, name: str, content: bytes) -> str:
        (self.folder / name).write_bytes(content)
        return (self.folder / name).as_uri()


@pytest.fixture
def harness(holdfast: Engine, tmp_path: Path) -> Iterator[Harness]:
    yield Harness(holdfast, tmp_path)
    assert holdfast.call(holdfast.store.verify()) == []


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


def test_the_shipped_feeds_make_the_same_brief_each_time(harness: Harness) -> None:
    first, second = harness.run(), harness.run()
    assert (first.state, second.state) == ("COMPLETED", "COMPLETED")
    briefs = harness.outputs(first)
    assert set(briefs) == {"brief.html", "brief.md"}
    assert briefs == harness.outputs(second)
    assert harness.job(first)["summary"] == harness.job(second)["summary"]
    assert harness.job(first)["summary"]["articles"] == 24
    for title in ("Puffins nest two weeks early on Gull Rock", "Parliament passes harbour fees by three votes"):
        assert all(title in brief for brief in briefs.values())


def test_the_order_of_the_feeds_does_not_matter(harness: Harness) -> None:
    assert harness.outputs(harness.run(*reversed(shipped_feeds()))) == harness.outputs(harness.run())


def test_articles_that_cannot_be_sorted_make_it_partial_and_are_in_the_brief_all_the_same(harness: Harness) -> None:
    ran = harness.run(*shipped_feeds(), odd_feed())
    stages = harness.stages(ran)
    assert ran.state == "PARTIAL"
    assert (stages["CLASSIFY"]["status"], stages["CLASSIFY"]["errors"]) == (
        "partial",
        ["Tides: It has fewer than 5 words.", "Werft feiert Stapellauf mit den Nachbarn: It is not in English."],
    )
    assert [one["status"] for one in stages.values()].count("completed") == 4
    assert "Werft feiert Stapellauf mit den Nachbarn" in harness.outputs(ran)["brief.md"]


def test_a_feed_that_cannot_be_read_is_named_and_the_others_are_read(harness: Harness) -> None:
    broken, gone = harness.write("broken.xml", b"<html>no feed</html>"), (harness.folder / "gone.xml").as_uri()
    ran = harness.run(broken, *shipped_feeds(), gone, "ftp://elsewhere/feed.xml")
    ingest = harness.stages(ran)["INGEST"]
    assert (ran.state, ingest["status"]) == ("PARTIAL", "partial")
    assert [one.split(": ")[0] for one in ingest["errors"]] == [broken, gone, "ftp://elsewhere/feed.xml"]
    assert harness.job(ran)["summary"]["articles"] == 24


def test_feeds_of_which_none_can_be_read_fail_the_job(harness: Harness) -> None:
    ran = harness.run(harness.write("broken.xml", b"<html>no feed</html>"))
    assert ran.state == "FAILED"
    assert "cannot be read as a feed" in str(ran.error)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"sentences": 0}, "sentences is 0, and from 1 to 20 is taken"),
        ({"softening": 7}, "softening is 7, and from 0 to 1 is taken"),
        ({"feeds": []}, "0 feeds are named"),
    ],
    ids=str,
)
def test_what_would_make_no_brief_is_refused(harness: Harness, given: dict[str, Any], says: str) -> None:
    harness.run()
    if "feeds" in given:
        assert says in str(harness.engine.run(harness.newsroom, **given).error)
        return
    with pytest.raises(RequestInvalid, match=says):
        harness.engine.call(harness.jobs.make("newsroom", given, owner=""))
    with pytest.raises(RequestInvalid, match=says):
        harness.engine.call(harness.jobs.change_settings("newsroom", given, "me"))


def test_a_feed_without_articles_leaves_nothing_to_do(harness: Harness) -> None:
    ran = harness.run(harness.write("empty.xml", rss()))
    assert ran.state == "COMPLETED"
    assert {name for name, one in harness.stages(ran).items() if one["status"] == "completed"} == {
        "INGEST",
        "NEUTRALIZE",
    }
    assert harness.stages(ran)["BRIEF"]["reason"] == "There are no articles."


def test_feeds_come_from_the_web_and_a_server_that_is_busy_is_asked_again(
    holdfast: Engine, harness: Harness, site: Site
) -> None:
    settings = replace(harness.newsroom.app.settings, fetch_allow="127.0.0.1/32")
    feed = rss(item("Storm floods the harbour", STORM))
    address = site.answer("/feed.xml", b"", 429, Retry_After="60")
    with override_settings(settings):
        handle = holdfast.start(harness.newsroom, feeds=[address])
        holdfast.drain(moving=False)
        job = holdfast.call(harness.jobs.job(handle.id))
        assert (job.status, job.stages[0].status) == ("RUNNING", "running")
        site.answer("/feed.xml", feed)
        ran = holdfast.run(handle)
        assert (ran.state, ran.attempts) == ("COMPLETED", 1)
        assert "Storm floods the harbour" in harness.outputs(ran)["brief.md"]


def test_files_of_the_server_and_its_network_are_not_everybodys_to_name(
    holdfast: Engine, harness: Harness, site: Site
) -> None:
    mine = harness.write("mine.xml", rss(item("Storm floods the harbour", STORM)))
    assert harness.run(mine).state == "COMPLETED"
    prepared = harness.newsroom.opts(owner="somebody")
    refused = holdfast.run(prepared, feeds=[mine, "file:///etc/passwd", site.answer("/inside.xml", rss())])
    assert refused.state == "FAILED"
    errors = holdfast.call(harness.jobs.job(refused.handle.id)).stages[0].errors
    assert "Files of the server are not yours to name." in errors[0]
    assert site.asked == []
    assert holdfast.run(prepared, feeds=shipped_feeds()).state == "COMPLETED"


def test_the_evaluation_sees_the_softening_and_optimization_keeps_what_improved(harness: Harness) -> None:
    first = harness.run(**ALL_ON)
    assert first.state == "COMPLETED"
    found = json.loads(harness.outputs(first)["evaluation.json"])
    assert found["neutrality_before"] < found["neutrality_after"] <= 1
    tuned = harness.result(first, "OPTIMIZATION")
    settings = harness.engine.call(harness.jobs.pipelines("newsroom"))[0]["settings"]
    assert tuned["before"] == {**vars(Thresholds())}
    assert settings == (tuned["after"] if tuned["improved"] else {})
    assert tuned["score_after"] >= tuned["score_before"]

    second = harness.run(**ALL_ON)
    again = harness.result(second, "OPTIMIZATION")
    assert again["before"] == tuned["after"]
    assert again["score_before"] == pytest.approx(tuned["score_after"])
    assert not again["improved"]


def test_optimization_finds_its_way_back_from_bad_settings(harness: Harness) -> None:
    harness.run()
    bad = {"min_confidence": 0.6, "softening": 0.8, "sentences": 1}
    harness.engine.call(harness.jobs.change_settings("newsroom", bad, "an intern"))
    tuned = harness.result(harness.run(**ALL_ON), "OPTIMIZATION")
    assert tuned["before"] == bad
    assert tuned["score_after"] > tuned["score_before"] + 0.005
    assert harness.engine.call(harness.jobs.pipelines("newsroom"))[0]["settings"] == tuned["after"]


def test_a_model_is_asked_once_for_each_article_also_after_a_crash(
    holdfast: Engine, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: Settings = replace(harness.newsroom.app.settings, neutralizer="openai:tiny")
    stories = [item("Storm floods the harbour", STORM), item("Cup is won", CUP), item("Rate is left", RATE)]
    server: ChatServer
    with chat_server() as server, override_settings(settings):
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        feed = harness.write("feed.xml", rss(*stories))
        ran = holdfast.run(harness.newsroom, feeds=[feed], crash_after="NEUTRALIZE[1]")
        assert (ran.state, ran.attempts) == ("COMPLETED", 2)
        asked = [one["messages"][-1]["content"] for one in server.asked]
        times = [sum(title in one for one in asked) for title in ("Storm floods", "Cup is won", "Rate is left")]
        assert min(times) == 1, "what was kept is not asked again"
        assert max(times) <= 2, "the two beside it may have been under way in the crash"
        assert harness.job(ran)["summary"]["articles"] == 3
        assert sum(one["tokens_in"] for one in ran.usage) == 3 * 40
