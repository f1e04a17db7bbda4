"""A feed becomes articles in plain text, whoever wrote it; what is no feed is refused by name."""

import socket
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.apps.newsroom.feeds import read_feed, shipped_feeds
from holdfast.apps.newsroom.plain import MARKUP
from holdfast.errors import SchemaInvalid
from tests.lifecycles.pipeline.newsroom.print_shop import item, rss, shipped_articles
from tests.tiers import deep

RSS_091 = '<rss version="0.91"><channel><title>Æther</title><item><title>Ébb</title></item></channel></rss>'
RSS_10 = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<channel><title>Æther</title></channel><item><title>Ébb</title></item></rdf:RDF>"""
ATOM = '<feed xmlns="http://www.w3.org/2005/Atom"><title>Æther</title><entry><title>Ébb</title></entry></feed>'
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))


@pytest.mark.parametrize("feed", [RSS_091, RSS_10, ATOM], ids=["rss 0.91", "rss 1.0", "atom"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "iso-8859-1", "windows-1252", "utf-16"])
def test_every_kind_of_feed_is_read_in_every_encoding(feed: str, encoding: str) -> None:
    declared = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>{feed}'
    [article] = read_feed(declared.encode(encoding), "address")
    assert (article.source, article.title, article.text) == ("Æther", "Ébb", "")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" \n\t",
        b"<!DOCTYPE html><html><head><title>Sorry</title></head><body><p>Gone</p></body></html>",
        b"<html><body><ul><li>One</li></ul></body></html>",
        b'{"version": "https://jsonfeed.org/version/1"}',
        b"<rss version='2.0'><channel><title>Cut of",
        b"<rss",
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        b"<!SGML nonsense><!DOCTYPE rss [<!ENTITY a 'b'>]><rss version='2.0'></rss>",
        b"<!DOCTYPE rss [ <!ENTITY a 'never closed",
        b"/etc/passwd",
        b"https://paper.example/feed",
    ],
)
def test_what_is_no_feed_is_refused_by_name(content: bytes) -> None:
    with pytest.raises(SchemaInvalid, match="the morning paper") as refused:
        read_feed(content, "the morning paper")
    assert refused.value.code == "feed"


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_any_bytes_are_a_feed_or_refused(content: bytes) -> None:
    try:
        articles = read_feed(content, "noise")
    except SchemaInvalid as refusal:
        message = refusal.message
    else:
        message = f"{len(articles)} articles of noise"
    assert "noise" in message


def test_a_feed_without_articles_is_a_feed() -> None:
    assert read_feed(rss(), "address") == []


def test_of_a_feed_that_breaks_off_the_whole_articles_are_read() -> None:
    whole = rss(item("One", "First."), item("Two", "Second."))
    articles = read_feed(whole[: whole.index(b"Second") + 3], "address")
    assert (articles[0].title, articles[0].text) == ("One", "First.")


def test_an_article_has_plain_text_in_paragraphs() -> None:
    text = "<h2>Fire</h2><p>Cod &amp; <b>chips</b>\n at caf&eacute;s.</p><p>Ten<br/>boats</p><ul><li>one<li>two</ul>"
    [article] = read_feed(rss(item("Fish &amp; <i>ships</i>", text)), "address")
    assert article.title == "Fish & ships"
    assert article.text == "Fire\n\nCod & chips at cafés.\n\nTen boats\n\none\n\ntwo"


def test_paragraphs_of_plain_text_stay() -> None:
    [article] = read_feed(rss(item("T", "One,\nstill one.\n\nTwo: 5 < 6 & 7 > 2.")), "address")
    assert article.text == "One, still one.\n\nTwo: 5 < 6 & 7 > 2."


@pytest.mark.parametrize(
    "evil",
    [
        "<script>steal()</script>",
        "<SCRIPT SRC=//x.example/steal()></SCRIPT>",
        "<style>steal(){}</style>",
        "<svg><script>steal()</script></svg>",
        "<svg/onload=steal()>",
        "<img src=x onerror=steal()>",
        "<scr<script>ipt>steal()</scr</script>ipt>",
        "&lt;script&gt;steal()&lt;/script&gt;",
        "&amp;lt;script&amp;gt;steal()&amp;lt;/script&amp;gt;",
        "<iframe srcdoc='<script>steal()</script>'></iframe>",
        "<!-- <script>steal()</script> -->",
        "<a href='javascript:steal()'></a>",
        "<script>steal()",
    ],
)
def test_no_script_survives(evil: str) -> None:
    [article] = read_feed(rss(item(f"Calm {evil}", f"<p>Before.</p>{evil}")), "address")
    assert article.title.startswith("Calm")
    assert article.text.startswith("Before.")
    for text in (article.title, article.text):
        assert "<script" not in text.lower()
        assert MARKUP.search(text) is None
        assert "onerror" not in text


TAGS = ["<p>", "</p>", "<script>", "</script>", "<b", ">", "&lt;", "&amp;lt;", "<!--", "-->", "<![CDATA[", "]]>"]
LETTERS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=12)
SCRAPS = st.lists(st.sampled_from(TAGS) | LETTERS, max_size=12).map("".join)


@given(SCRAPS, SCRAPS)
@settings(deadline=None)
def test_whatever_is_written_the_text_is_plain(title: str, text: str) -> None:
    allowed = str.maketrans({chr(code): " " for code in (*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF)})
    feed = rss(item(f"A {title.translate(allowed)}", text.translate(allowed)), item("The last", "It is read."))
    articles = read_feed(feed, "address")
    assert articles == read_feed(feed, "address")
    assert articles[-1].text == "It is read."
    for article in articles:
        assert MARKUP.search(article.title) is None
        assert MARKUP.search(article.text) is None
        assert "\n" not in article.title
        assert article.text == article.text.strip()


@pytest.mark.parametrize(
    "document_type",
    [
        f'<!DOCTYPE rss [<!ENTITY l0 "laugh">{LAUGHS}]>',
        f'<!-- <rss --><!DOCTYPE rss [<!ENTITY l0 "laugh">{LAUGHS}]>',
        f'<?pi <rss ?><!DOCTYPE rss [<!-- \'"]> --><!ENTITY l0 "laugh">{LAUGHS}]>',
        '<!DOCTYPE rss [<!ENTITY l9 "laugh">]>',
        '<!DOCTYPE rss [<!ENTITY l9 SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE rss SYSTEM "http://127.0.0.1:9/evil.dtd" [<!ENTITY % p SYSTEM "http://127.0.0.1:9/"> %p;]>',
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-7"])
def test_entities_are_not_expanded_and_nothing_is_fetched(
    document_type: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "socket", refuse)
    feed = rss("<title>Ha &l9; ha</title>", head=f'<?xml version="1.0" encoding="{encoding}"?>{document_type}')
    [article] = read_feed(feed.decode().encode(encoding), "address")
    assert article.title == "Ha &l9; ha"


@pytest.mark.parametrize(
    "hostile",
    [
        deep(b"<rss version='2.0'><channel>" + b"<a>" * 50_000),
        b"<rss version='2.0'><channel><item><title>" + b"<" * 200_000,
        b"<!DOCTYPE " + b"\"'" * 200_000,
        b"<!--" * 200_000,
        rss(item("x", "<!--" * 50_000)),
        rss(item("x", "<a " * 50_000)),
        rss(item("x", "&lt;" * 50_000)),
        rss(item("x", "<b>" * 50_000)),
    ],
)
@pytest.mark.timeout(30)
def test_a_hostile_feed_comes_to_an_end(hostile: bytes) -> None:
    with suppress(SchemaInvalid):
        read_feed(hostile, "address")


def test_there_is_a_limit_to_articles_and_to_their_length() -> None:
    articles = read_feed(
        rss(item("Number 0", "word " * 9_000), *[item(f"Number {n}") for n in range(1, 510)]), "address"
    )
    assert [article.title for article in articles] == [f"Number {n}" for n in range(500)]
    assert 19_990 < len(articles[0].text) <= 20_000
    assert articles[0].text.endswith("word…")


def test_a_feed_that_is_too_large_is_refused() -> None:
    with pytest.raises(SchemaInvalid, match=r"address .* bytes"):
        read_feed(rss(item("x", "y" * 9_000_000)), "address")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Tue, 12 May 2026 10:00:00 +0200", datetime(2026, 5, 12, 8, tzinfo=UTC)),
        ("2026-05-12T10:00:00Z", datetime(2026, 5, 12, 10, tzinfo=UTC)),
        ("", None),
        ("the day before yesterday", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", None),
        ("Tue, 99 Foo 2026 99:99:99 GMT", None),
    ],
)
def test_a_date_is_in_utc_or_none(written: str, meant: datetime | None) -> None:
    [article] = read_feed(rss(item("T", "Text.", date=written)), "address")
    assert article.published == meant
    assert article.published is None or article.published.tzinfo is UTC


def test_what_was_never_published_has_the_date_of_its_last_change() -> None:
    dated = ATOM.replace("</entry>", "<updated>2026-05-12T10:00:00+02:00</updated></entry>")
    assert read_feed(dated.encode(), "address")[0].published == datetime(2026, 5, 12, 8, tzinfo=UTC)
    both = dated.replace("</entry>", "<published>2026-05-11T10:00:00Z</published></entry>")
    assert read_feed(both.encode(), "address")[0].published == datetime(2026, 5, 11, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "link",
    ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "ftp://paper.example/", "/a/1", "http://", "http://[x"],
)  # fmt: skip
def test_a_link_that_is_not_of_the_web_is_left_out(link: str) -> None:
    [article] = read_feed(rss(item("T", "Text.", link=link)), "address")
    assert article.link is None


def test_links_to_one_article_give_one_id_and_others_another() -> None:
    one = "https://paper.example/a?page=2"
    same = [
        "https://PAPER.example/a?page=2",
        "https://paper.example:443/a?utm_source=x&page=2",
        "https://paper.example/a?page=2&fbclid=7#top",
    ]
    others = ["https://paper.example/a?page=3", "https://paper.example/A?page=2", "https://paper.example:8443/a?page=2"]
    articles = read_feed(rss(*[item("T", "Text.", link=link) for link in (one, *same, *others)]), "address")
    ids = [article.id for article in articles]
    assert len(set(ids[:4])) == 1
    assert len(set(ids)) == 1 + len(others)


def test_articles_that_all_link_to_the_home_page_are_distinguished_by_their_titles() -> None:
    home_page = "https://paper.example/"
    one, two = read_feed(rss(item("One", "a", home_page), item("Two", "b", home_page)), "address")
    assert one.id != two.id
    assert read_feed(rss(item("One", "changed", home_page)), "elsewhere")[0].id == one.id


def test_an_article_needs_a_title_or_a_text() -> None:
    nothing = item(link="https://paper.example/1")
    blank = item("<p> </p>", "<script>x</script>")
    only_text = item(text="A whale was seen off the pier this morning.")
    [article] = read_feed(rss(nothing, blank, only_text), "address")
    assert article.title == article.text == "A whale was seen off the pier this morning."


def test_the_source_is_the_title_of_the_feed_or_the_name_it_was_asked_by() -> None:
    assert read_feed(rss(item("T"), title="<b>The</b> Post"), "address")[0].source == "The Post"
    assert read_feed(rss(item("T"), title=" "), "address")[0].source == "address"


def test_the_longer_of_summary_and_content_is_the_text() -> None:
    long, short = "<p>All of it, at length.</p>", "In short."
    for summary, content in [(long, short), (short, long)]:
        feed = rss(f"{item('T', summary)}<c:encoded><![CDATA[{content}]]></c:encoded>").replace(
            b"<rss ", b'<rss xmlns:c="http://purl.org/rss/1.0/modules/content/" '
        )
        assert read_feed(feed, "address")[0].text == "All of it, at length."


def test_the_shipped_feeds_are_read_whole() -> None:
    assert shipped_feeds() == sorted(shipped_feeds())
    assert all(address.startswith("file:///") for address in shipped_feeds())
    articles = shipped_articles()
    assert len({article.source for article in articles}) == 5
    assert len(articles) == 30
    for article in articles:
        assert article.link
        assert article.published
        assert datetime(2026, 5, 11, tzinfo=UTC) <= article.published < datetime(2026, 5, 14, tzinfo=UTC)
        assert "count(" not in article.text
        assert "&" not in article.text
