"""`holdfast search`: the best passages, the words in them marked, and a kind word where there is nothing."""

import contextlib
from array import array
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from holdfast.apps.documents.embedders import open_embedder
from holdfast.cli.search import alike, excerpt, mark
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Checkpoint, Submission
from holdfast.lifecycles.ingest.store import Embedder, Library, Passage
from holdfast.settings import Settings
from holdfast.testing import Database
from tests.cli.conftest import Keyboard, Stage
from tests.http.serving import serving

TEXT = "Kelp clings to rocks. " * 20 + "A lighthouse keeper wrote down every hour. " + "The sea is wide. " * 40
EVIL = "The keeper's [red]log\x1b[2J of kelp"

Typing = Callable[..., contextlib.AbstractContextManager[Keyboard]]


@pytest.fixture
def at(holdfast: Keyboard, database: Database, monkeypatch: pytest.MonkeyPatch) -> Typing:
    """The command, with a server on the test's own database, and this embedder."""

    @contextlib.contextmanager
    def opened(embedder: Embedder | None = None) -> Iterator[Keyboard]:
        with serving(database, embedder=embedder) as address:
            monkeypatch.setenv("HOLDFAST_API", address)
            yield holdfast

    return opened


async def keep(store: Store, name: str, text: str, embedder: Embedder) -> None:
    """A document as a worker leaves it: one passage, on page 7."""
    (vector,) = await embedder.embed([text])
    await store.make_queue("ingest_item")
    payload: dict[str, Any] = {"uri": "https://example.org", "name": name}
    await store.submit(Submission("documents", {}, "ingest"), Submission("documents", payload, "ingest_item", parent=0))
    (lease,) = await store.claim(["ingest_item"], worker="w1", lasting=timedelta(minutes=1))
    await Library.over(store).persist(
        lease, name=name, sha256=uuid4().hex * 2, recipe="1", about={"title": name},
        passages=[Passage(0, 0, len(text), 7, text)], embedder=embedder.name, dimensions=embedder.dimensions,
        vectors=array("f", vector), entities=[],
    )  # fmt: skip
    for state in ("FETCHED", "CONTENT_EXTRACTED", "PERSISTED", "INDEXED"):
        await store.checkpoint(Checkpoint(lease, state, "done", to=state))


def test_where_nothing_is_ingested_it_says_how(at: Typing) -> None:
    with at() as holdfast:
        done = holdfast("search", "kelp", "--mode", "text")
    assert (done.code, done.out) == (0, "")
    assert "Nothing is ingested yet. holdfast ingest FILES... --wait does it." in done.err


def test_passages_come_with_their_name_page_and_ranks(at: Typing, stage: Stage) -> None:
    embedder = open_embedder(Settings())
    stage(lambda store: keep(store, "a/kelp.md", "Kelp clings to the rock by its holdfast.", embedder))
    stage(lambda store: keep(store, "a/bread.md", EVIL, embedder))
    with at(embedder) as holdfast:
        found = holdfast("search", "what", "holds", "kelp", "on", "the", "rock", "--limit", "1")
        answered = holdfast("search", "log", "--json").json
        nothing = holdfast("search", "zeppelin", "--mode", "text")
        steered = holdfast("search", "log", "--mode", "text")
    head, passage, *_ = found.lines
    place, name, page, number, score, *ranks = head.split()
    assert (place, name, page, number) == ("1", "a/kelp.md", "page", "7")
    assert (0 < float(score) <= 1.25, " ".join(ranks)) == (True, "(words 1, meaning 1)")
    assert passage.strip() == "Kelp clings to the rock by its holdfast."
    assert (answered["mode"], answered["items"][0]["name"]) == ("hybrid", "a/bread.md")
    assert (nothing.out, nothing.err) == ("", "Nothing is found for 'zeppelin'.\n")
    assert "The keeper's [red]log\\x1b[2J of kelp" in steered.out


def test_a_server_without_an_embedder_says_that_it_searched_text(at: Typing, stage: Stage) -> None:
    embedder = open_embedder(Settings())
    stage(lambda store: keep(store, "kelp.md", "Kelp clings to the rock.", embedder))
    with at() as holdfast:
        done = holdfast("search", "kelp")
        refused = holdfast("search", "kelp", "--mode", "vector")
    assert "kelp.md" in done.out
    assert "By words alone" in done.err
    assert (refused.code, "No embedder is installed here." in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("worker", "workers", True), ("waited", "waits", True), ("holding", "hold", True), ("star", "start", False),
     ("kelp", "help", False), ("in", "inn", False), ("a", "a", True)],
)  # fmt: skip
def test_matches_ignore_endings(one: str, other: str, same: bool) -> None:
    assert alike(one, other) == alike(other, one) == same


def test_a_long_passage_is_cut_to_where_most_matches_are() -> None:
    printed = excerpt(TEXT, "who kept the lighthouse hours", 200)
    assert printed.startswith("… ")
    assert "lighthouse keeper wrote down every hour" in printed
    assert len(printed) <= 200
    assert excerpt("short", "anything", 200) == "short"


def test_terms_of_the_query_are_marked_and_small_ones_are_not() -> None:
    text = mark("The keepers of the light", "the keeper of light")
    assert [text.plain[one.start : one.end] for one in text.spans] == ["keepers", "light"]
