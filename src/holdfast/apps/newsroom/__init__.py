"""The newsroom: feeds are read, sorted, softened and summed up in a brief; then the brief is judged, and tuned.

A feed that cannot be read and an article that cannot be sorted are reported, and the others go on. The same feeds
make the same brief, to the byte.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from holdfast.apps.newsroom.article import Article, Brief, Evaluation, Ingested, Neutral, Sorted, Thresholds
from holdfast.apps.newsroom.brief import assemble, summary_of
from holdfast.apps.newsroom.duplicates import without_duplicates
from holdfast.apps.newsroom.evaluation import evaluate, improve
from holdfast.apps.newsroom.feeds import feed_most_bytes, odd_feed, read_feed, shipped_feeds
from holdfast.apps.newsroom.neutralize import soften
from holdfast.apps.newsroom.page import as_html, as_markdown
from holdfast.apps.newsroom.rewriter import Rewriter
from holdfast.apps.newsroom.topics import sort_articles
from holdfast.distribution import install_hint
from holdfast.errors import Failure, Fatal, RateLimited, SchemaInvalid, Transient
from holdfast.execution.context import current, progress, step
from holdfast.execution.threads import in_thread
from holdfast.lifecycles.pipeline.handlers import Skip, attach, keep_settings, problem
from holdfast.objects.scratch import scratch
from holdfast.remote.fetch import fetch
from holdfast.remote.fetch.guard import Guard
from holdfast.remote.places import objects_of
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.lifecycles.pipeline.sdk import Pipeline
    from holdfast.sdk.client import Holdfast

Share = Annotated[float, Field(ge=0, le=1)]
Few = Annotated[int, Field(ge=1, le=20)]

NEEDED = ("feedparser", "sklearn")
DEFAULT = Thresholds()

feeds_most = 200
feed_seconds = 120
asked_at_once = 4


def is_installed() -> bool:
    """Whether this process has what feeds are read and articles are sorted with."""
    return all(find_spec(name) for name in NEEDED)


def offer(app: "Holdfast", name: str = "newsroom") -> "Pipeline":
    """A pipeline of this application. Raises AppInvalid."""
    newsroom = Newsroom(lambda: app.settings)
    pipeline = app.pipeline(name, title="Feeds are read, sorted, softened and summed up in a brief", timeout="15m")
    pipeline.stage("INGEST")(newsroom.ingest)
    pipeline.stage("CLASSIFY")(newsroom.classify)
    pipeline.stage("NEUTRALIZE")(newsroom.neutralize)
    pipeline.stage("BRIEF")(newsroom.brief)
    pipeline.stage("SUMMARY")(newsroom.summary)
    pipeline.stage("EVALUATION", when="enable_evaluation")(newsroom.evaluation)
    pipeline.stage("OPTIMIZATION", when="enable_auto_optimize")(newsroom.optimization)
    return pipeline


class Newsroom:
    """The stages. Each takes what those before it gave, and parameters of the job."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    async def ingest(self, feeds: list[str] | None = None) -> Ingested:
        """Read the feeds, by default those that are shipped; each article once. Raises what all of them failed by."""
        if not is_installed():
            raise Fatal(f"This worker cannot read feeds: {install_hint('newsroom')}.", code="not-installed")
        addresses = shipped_feeds() if feeds is None else list(dict.fromkeys(feeds))
        if not 1 <= len(addresses) <= feeds_most:
            raise SchemaInvalid(f"{len(addresses)} feeds are named, and 1 to {feeds_most} are taken.", code="feeds")
        found: list[Article] = []
        failures: list[Failure] = []
        for number, address in enumerate(addresses):
            progress(number, len(addresses), note=address)
            try:
                async with asyncio.timeout(feed_seconds):
                    found += await self.read(address)
            except TimeoutError:
                failures.append(SchemaInvalid(f"{address}: It took longer than {feed_seconds} seconds.", code="feed"))
            except Failure as failure:
                failure.message = f"{address}: {failure.message}"
                failures.append(failure)
        if len(failures) == len(addresses):
            raise next((one for one in failures if isinstance(one, (RateLimited, Transient))), failures[0])
        for each in failures:
            problem(each.message)
        articles, duplicates = await in_thread(without_duplicates, found)
        return Ingested(articles, len(addresses) - len(failures), duplicates)

    async def read(self, address: str) -> list[Article]:
        """The articles of a feed. Raises Failure."""
        is_ours = address in (*shipped_feeds(), odd_feed())
        if not address.startswith(("http://", "https://")) and not is_ours:
            if not address.startswith("file:///"):
                raise SchemaInvalid("It is not the address of a feed: write https://... or file:///...", code="uri")
            if current().owner:
                raise SchemaInvalid("Files of the server are not yours to name.", code="uri")
        settings = self._settings()
        with scratch() as folder:
            path = folder / "feed"
            guard = Guard(settings.fetch_networks)
            await fetch(address, path, objects=objects_of(settings), guard=guard, most_bytes=feed_most_bytes)
            return await in_thread(read_feed, path.read_bytes(), address.rpartition("/")[2] or address)

    def classify(self, ingest: Ingested, min_confidence: Share = DEFAULT.min_confidence) -> list[Sorted]:
        """The topic of each article. Those that cannot be sorted are reported."""
        if not ingest.articles:
            raise Skip("There are no articles.")
        topics, refused = sort_articles(ingest.articles, min_confidence)
        titles = {article.id: article.title for article in ingest.articles}
        for article, why in refused:
            problem(f"{titles[article]}: {why}")
        if not topics:
            raise Fatal("None of the articles can be sorted.", code="unsorted")
        return topics

    async def neutralize(self, ingest: Ingested, softening: Share = DEFAULT.softening) -> list[Neutral]:
        """The articles with loaded language softened. One that a model has spoilt stays as it was, and is reported."""
        kind, _, model = self._settings().neutralizer.partition(":")
        if kind == "rules":
            return [soften(article, softening) for article in ingest.articles]
        rewriter = Rewriter(model)

        async def rewrite(article: Article) -> Neutral | str:
            try:
                return await rewriter.rewrite(article, softening)
            except SchemaInvalid as refusal:
                return refusal.message

        # Each is a step: what was paid for is not asked again.
        answers = await step.map("NEUTRALIZE", rewrite, ingest.articles, at_once=asked_at_once)
        for article, answer in zip(ingest.articles, answers, strict=True):
            if isinstance(answer, str):
                problem(f"{article.title}: {answer}")
        return [one for one in answers if isinstance(one, Neutral)]

    def brief(
        self,
        ingest: Ingested,
        classify: Sequence[Sorted] | None = None,
        neutralize: Sequence[Neutral] | None = None,
        sentences: Few = DEFAULT.sentences,
    ) -> Brief:
        """What the readers get, as a page and as text: of what was sorted and softened, and of the rest as it came."""
        if not ingest.articles:
            raise Skip("There are no articles.")
        brief = assemble(ingest.articles, classify or [], neutralize or [], sentences)
        attach("brief.html", as_html(brief))
        attach("brief.md", as_markdown(brief), content_type="text/markdown")
        return brief

    def summary(self, brief: Brief) -> dict[str, Any]:
        """The brief in figures."""
        return summary_of(brief)

    def evaluation(
        self,
        ingest: Ingested,
        brief: Brief,
        classify: Sequence[Sorted] | None = None,
        neutralize: Sequence[Neutral] | None = None,
    ) -> Evaluation:
        """How good the brief is."""
        found = evaluate(ingest.articles, classify or [], neutralize or [], brief)
        attach("evaluation.json", json.dumps(asdict(found), indent=2))
        return found

    def optimization(
        self,
        ingest: Ingested,
        evaluation: Evaluation,
        min_confidence: Share = DEFAULT.min_confidence,
        softening: Share = DEFAULT.softening,
        sentences: Few = DEFAULT.sentences,
    ) -> dict[str, Any]:
        """Look for better thresholds, and let the next jobs begin with them if there are."""
        now = Thresholds(min_confidence, softening, sentences)
        best, reached = improve(
            ingest.articles, lambda least: sort_articles(ingest.articles, least)[0], now, evaluation
        )  # fmt: skip
        if best != now:
            keep_settings(**asdict(best))
        return {
            "improved": best != now, "before": asdict(now), "after": asdict(best),
            "score_before": evaluation.score, "score_after": reached.score,
        }  # fmt: skip
