"""A brief: its order, its summaries, and that what feeds wrote stays text on the page."""

import re
import shutil
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from holdfast.apps.newsroom.article import Article, Brief, Change, Neutral, Sorted
from holdfast.apps.newsroom.brief import assemble, summarize, summary_of
from holdfast.apps.newsroom.page import as_html, as_markdown
from holdfast.apps.newsroom.sentences import split_sentences

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DAY = datetime(2026, 11, 16, 6, tzinfo=UTC)
HOSTILE = '<script>alert(1)</script> "&" *bold* [a](javascript:b)\u202e\x00'


def article(id: str, title: str = "Title", text: str = "", hours: float | None = 0, **more: str) -> Article:  # noqa: A002
    published = None if hours is None else DAY + timedelta(hours=hours)
    return Article(id, more.get("source", "Courier"), title, text, more.get("link"), published)


def hostile() -> Brief:
    return assemble(
        [article("x", HOSTILE, f"{HOSTILE} {'unbroken' * 60}.", source=HOSTILE, link='https://a.example/"><script>')],
        [Sorted("x", HOSTILE, 0.9)],
        [],
        2,
    )


class Elements(HTMLParser):
    """Which elements a page has, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def links(self) -> list[str | None]:
        return [attrs.get("href") for tag, attrs in self.found if tag == "a"]


def test_topics_come_in_the_papers_order_then_by_name_and_other_last() -> None:
    topics = ["zoology", "other", "culture", "art", "world", "sport", "politics"]
    articles = [article(f"a{number}") for number in range(len(topics) + 1)]
    brief = assemble(articles, [Sorted(f"a{n}", topic, 0.9) for n, topic in enumerate(topics)], [], 1)
    expected = ["world", "politics", "sport", "culture", "art", "zoology", "other"]
    assert [section.topic for section in brief.sections] == expected
    assert [entry.article for entry in brief.sections[-1].entries] == ["a1", "a7"]  # a7 was never sorted


def test_entries_come_newest_first_then_by_id_and_those_without_a_date_last() -> None:
    articles = [article("c", hours=None), article("b"), article("a"), article("d", hours=2)]
    naive = Article("e", "Herald", "Title", "", published=datetime(2026, 11, 16, 7))
    brief = assemble([*articles, naive], [], [], 1)
    assert [entry.article for entry in brief.sections[0].entries] == ["d", "e", "a", "b", "c"]
    assert brief.date == DAY + timedelta(hours=2)
    assert brief.sources == ("Courier", "Herald")


def test_an_entry_has_the_neutral_words_if_there_are_any_and_says_how_many_were_softened() -> None:
    neutral = Neutral("a", "Calm", "It is calm.", (Change("wild", "calm", "adjective"),) * 2)
    brief = assemble([article("a", "Wild!", "It is wild!"), article("b", "Wild!", "It is wild!")], [], [neutral], 1)
    found = [(entry.title, entry.summary, entry.softened) for entry in brief.sections[0].entries]
    assert found == [("Calm", "It is calm.", 2), ("Wild!", "It is wild!", 0)]
    assert "2 expressions softened" in as_html(brief)


def test_a_summary_has_the_best_sentences_in_their_order() -> None:
    text = (
        "It was a grey morning. Nobody wished to speak of it at length. "
        "The harbour bridge closed for repairs after a survey. People went home."
    )
    assert summarize("Harbour bridge closed", text, 1) == "The harbour bridge closed for repairs after a survey."
    assert summarize("Harbour bridge closed", text, 2).startswith("It was a grey morning. The harbour")
    assert summarize("Harbour bridge closed", text, 9) == text
    assert summarize("Harbour bridge closed", text, 0) == summarize("Title", "", 2) == ""
    assert summarize("Rain falls", "Rain falls. The river rose by a metre.", 1) == "The river rose by a metre."


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Ana Petrov met Mr. Jones of the U.S. Senate at 5 p.m. on Monday.", "It rained."],
        ['"We left. Nobody saw us. It rained," she said.', "Then it stopped."],
        ["“We left! Nobody saw us?” she asked.", "Then it stopped."],
        ["The price rose by 3.5 percent to 1.20 euros.", "J. K. Moss bought none."],
        ['She said: "It is over."', "He left."],
        ["Was it late?", "It was!", "So they left..."],
    ],
)
def test_a_sentence_never_ends_inside_a_quote_or_behind_an_abbreviation(sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences)) == sentences


def test_what_feeds_wrote_stays_text() -> None:
    page = as_html(hostile())
    elements = Elements(page)
    assert {tag for tag, _ in elements.found}.isdisjoint({"script", "img", "link", "iframe"})
    assert elements.links() == ["#topic-1", "https://a.example/%22%3E%3Cscript%3E"]
    assert "\u202e" not in page
    assert "\x00" not in page
    assert not any(name.startswith("on") for _, attrs in elements.found for name in attrs)


@pytest.mark.parametrize(
    "link",
    ["javascript:alert(1)", "data:text/html,x", "//a.example", "ftp://a.example", "https://", "http://[", "", None],
)  # fmt: skip
def test_only_addresses_of_the_web_become_links(link: str | None) -> None:
    brief = assemble([Article("a", "Courier", "Title", "Text.", link)], [], [], 1)
    assert Elements(as_html(brief)).links() == ["#topic-1"]
    assert "### Title" in as_markdown(brief)


def test_markdown_that_feeds_wrote_stays_text() -> None:
    text = as_markdown(assemble([article("a", "# *Bold* [x](y) <b>", "- one\n1. two `x`")], [], [], 3))
    assert r"### \# \*Bold\* \[x\]\(y\) \<b\>" in text
    assert "\n\\- one" in text
    assert not re.search(r"(?<!\\)[`<]", text)


def test_the_same_articles_make_the_same_bytes_in_whatever_order_they_come() -> None:
    articles = [article(f"a{number}", f"Title {number}", "One. Two.") for number in range(5)]
    topics = [Sorted(one.id, "world", 0.8) for one in articles]
    first, second = assemble(articles, topics, [], 1), assemble(articles[::-1], topics[::-1], [], 1)
    assert as_html(first) == as_html(second)
    assert as_markdown(first) == as_markdown(second)
    assert "Monday, 16 November 2026" in as_html(first)


def test_a_day_without_articles_has_a_page_too() -> None:
    empty = assemble([], [], [], 2)
    assert empty == Brief((), None, ())
    assert "No articles today." in as_html(empty)
    assert "No articles today." in as_markdown(empty)
    assert summary_of(empty) == {"articles": 0, "topics": {}, "sources": 0, "softened": 0, "headline": None}


def test_the_summary_counts_and_names_the_title_most_others_speak_of() -> None:
    articles = [
        article("a", "Cats sleep", "They do.", hours=3),
        article("b", "Bridge closed", "The ferry helps.", hours=2, source="Herald"),
        article("c", "Ferry full", "The bridge is closed.", hours=1),
        article("d", "Bridge survey", "It was closed in May.", hours=0),
    ]
    topics = [Sorted("a", "culture", 0.9), *(Sorted(one, "world", 0.9) for one in "bcd")]
    summary = summary_of(
        assemble(articles, topics, [Neutral("a", "Cats sleep", "They do.", (Change("x", "", "y"),))], 1)
    )
    assert summary == {
        "articles": 4,
        "topics": {"world": 3, "culture": 1},
        "sources": 2,
        "softened": 1,
        "headline": "Bridge closed",
    }


@pytest.mark.deep
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed here")
@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_window_and_asks_nobody(tmp_path: Path, width: int, scheme: str) -> None:
    (tmp_path / "brief.html").write_text(as_html(hostile()), "utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        asked: list[str] = []
        messages: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: messages.append(message.text))
        page.goto((tmp_path / "brief.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == width
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        browser.close()
    assert asked == [(tmp_path / "brief.html").as_uri()]
    assert messages == []
    assert (sum(map(int, re.findall(r"\d+", ground))) < 200) == (scheme == "dark")
