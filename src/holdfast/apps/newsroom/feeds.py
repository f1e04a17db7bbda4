"""RSS and Atom, as articles in plain text.

A feed is what strangers wrote: nothing it names is fetched, its document type is thrown away before a parser sees it,
so that no entity of its own is ever expanded, and there is a limit to all that it brings. Of a feed that was cut off,
what came before the cut is read.
"""

import calendar
import hashlib
import io
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import struct_time
from typing import Any

from holdfast.apps.newsroom.article import Article
from holdfast.apps.newsroom.duplicates import article_link, web_link
from holdfast.apps.newsroom.plain import plain_line, plain_text, shorten
from holdfast.errors import SchemaInvalid

feed_most_bytes = 8 * 1024 * 1024
entries_most = 500
text_most_chars = 20_000
title_most_chars = 300
FIRST_YEAR, LAST_YEAR = 1990, 2100  # what is dated otherwise was dated by mistake
SHIPPED = Path(__file__).with_name("shipped")
HARMLESS = {"CharacterEncodingOverride", "NonXMLContentType"}

# What may stand before the first element. Nothing is tried twice, so a long one costs no more than its length.
PROLOG = re.compile(
    rb"(?:[^<]++|<\?.*?\?>|<!--.*?-->"
    rb"|<!DOCTYPE(?:[^\[>\"']|\"[^\"]*\"|'[^']*')*+(?:\[(?:[^\]\"'<]|<!--.*?-->|<(?!!--)|\"[^\"]*\"|'[^']*')*+\]\s*)?>)*+",
    re.I | re.S,
)


def shipped_feeds() -> list[str]:
    """The addresses of the feeds that come with Holdfast."""
    return [path.as_uri() for path in sorted(SHIPPED.iterdir()) if path.suffix == ".xml"]


def odd_feed() -> str:
    """One more, of whose three articles two cannot be sorted: one is too short, one in another language."""
    return (SHIPPED / "odd" / "harbour-notes.xml").as_uri()


def read_feed(content: bytes, name: str) -> list[Article]:
    """The first 500 articles of a feed, in its order. Raises SchemaInvalid, naming it `name`, if it is not a feed."""
    import feedparser  # type: ignore[import-untyped]

    if len(content) > feed_most_bytes:
        raise no_feed(name, f"it has more than {feed_most_bytes:,} bytes")
    # In a stream: bytes by themselves would be taken for the name of a file.
    stream = io.BytesIO(without_document_type(content, name))
    feed = feedparser.parse(stream, resolve_relative_uris=False, sanitize_html=False)
    if not feed.get("version"):
        raise no_feed(name, "it is neither RSS nor Atom")
    if not feed.entries and feed.bozo and type(feed.get("bozo_exception")).__name__ not in HARMLESS:
        raise no_feed(name, f"it breaks off or is not well-formed before its first article: {feed.bozo_exception}")
    source = shorten(plain_line(text_at(feed.feed, "title")), title_most_chars) or name
    articles = (read_entry(entry, source) for entry in feed.entries[:entries_most])
    return [article for article in articles if article]


def no_feed(name: str, why: str) -> SchemaInvalid:
    return SchemaInvalid(f"{name} cannot be read as a feed: {why}.", code="feed")


def without_document_type(content: bytes, name: str) -> bytes:
    """The feed in UTF-8, from its first element on. Raises SchemaInvalid if there is none."""
    from feedparser.encodings import convert_to_utf8  # type: ignore[import-untyped]

    found: dict[str, Any] = {}
    decoded: bytes = convert_to_utf8({}, content, found) if content.strip() else b""
    if not found.get("encoding"):
        decoded = decoded.decode("utf-8", "replace").encode()
    match = PROLOG.match(decoded)
    root = decoded[match.end() :] if match else b""
    if not re.match(rb"<[\w:]", root):
        raise no_feed(name, "it is empty" if not decoded.strip() else "it is neither RSS nor Atom")
    return b"<?xml version='1.0' encoding='utf-8'?>\n" + root


def read_entry(entry: Mapping[str, Any], source: str) -> Article | None:
    """None for an entry that says nothing."""
    title = plain_line(text_at(entry, "title"))
    bodies = [text_at(entry, "summary"), *(text_at(content, "value") for content in contents_of(entry))]
    text = shorten(max(map(plain_text, bodies), key=len), text_most_chars)
    if not title and not text:
        return None
    title = shorten(title, title_most_chars) or shorten(" ".join(text.split()), 80)
    link = web_link(text_at(entry, "link"))
    return Article(identity(link, source, title), source, title, text, link, publication_time(entry))


def contents_of(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = entry.get("content")
    return [content for content in found if isinstance(content, Mapping)] if isinstance(found, list) else []


def text_at(entry: Mapping[str, Any], key: str) -> str:
    found = entry.get(key)
    return found if isinstance(found, str) else ""


def identity(link: str | None, source: str, title: str) -> str:
    """The same whenever the article is read again, and from wherever it is linked."""
    return hashlib.sha256((article_link(link) or f"{source}\n{title}").encode()).hexdigest()[:16]


def publication_time(entry: Mapping[str, Any]) -> datetime | None:
    """When it was published, else last changed, in UTC. None if it does not say, or says what cannot be."""
    for key in ("published_parsed", "updated_parsed"):
        # Only what is there: asked for the one, feedparser answers with the other, and warns.
        moment = dict(entry).get(key)
        if isinstance(moment, struct_time) and FIRST_YEAR <= moment.tm_year <= LAST_YEAR:
            return datetime.fromtimestamp(calendar.timegm(moment), UTC)
    return None
