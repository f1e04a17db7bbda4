"""Feeds and articles for tests, made of what a test cares about."""

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname
from xml.sax.saxutils import escape

from holdfast.apps.newsroom.article import Article
from holdfast.apps.newsroom.feeds import odd_feed, read_feed, shipped_feeds

NOON = datetime(2026, 5, 12, 12, tzinfo=UTC)


def rss(*items: str, title: str = "The Paper", head: str = "") -> bytes:
    """An RSS feed. `items` are what stands between <item> and </item>."""
    inside = "".join(f"<item>{item}</item>" for item in items)
    name = f"<title>{escape(title)}</title>"
    return f'{head}<rss version="2.0"><channel>{name}{inside}</channel></rss>'.encode()


def item(title: str = "", text: str = "", link: str = "", date: str = "") -> str:
    fields = {"title": title, "description": text, "link": link, "pubDate": date}
    return "".join(f"<{tag}>{escape(value)}</{tag}>" for tag, value in fields.items() if value)


def article(name: str, text: str, title: str = "", link: str | None = None, at: datetime | None = NOON) -> Article:
    return Article(name, "The Paper", title, text, link, at)


def shipped_articles() -> list[Article]:
    paths = [Path(url2pathname(urlsplit(address).path)) for address in [*shipped_feeds(), odd_feed()]]
    return [article for path in paths for article in read_feed(path.read_bytes(), path.name)]
