"""HTML, by trafilatura, which leaves menus and adverts out; all that is visible where it finds nothing.

A page is read by a plain parser first, which builds no tree: it tells how deep the page is nested, and a page that is
nested too deep would overflow the stack of what comes after.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import trafilatura
from lxml import etree

from holdfast.apps.documents.extract.document import Read, Unreadable, binary, clean, one_line, too_long
from holdfast.apps.documents.extract.plain import declared_encoding, decode_bytes

depth_most = 2_000
page_most_bytes = 40 * 1024 * 1024
guessed_most = 1_000_000  # characters; trafilatura takes 1 s for as much, and 13 s for four times that
CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([a-z0-9_:.-]{1,40})", re.I)
DECLARATION = re.compile(r"\A\s*<\?xml[^>]*>")
HIDDEN = {"script", "style", "noscript", "template", "head", "svg", "math", "iframe", "object", "select", "textarea"}
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
BLOCKS = HEADINGS | {
    "address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset", "figcaption", "figure",
    "footer", "form", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "table", "td", "th", "tr", "ul",
}  # fmt: skip


def read(path: Path, content_type: str | None) -> Read:
    """Title and text. Raises Unreadable."""
    if path.stat().st_size > page_most_bytes:
        raise too_long()
    page = decode(path.read_bytes(), content_type)
    parser = etree.HTMLParser(target=Seen(), huge_tree=True)
    parser.feed(page)
    seen: Seen = parser.close()
    text = main_text(page) if len(page) <= guessed_most else ""
    return seen.title, clean(text) or clean("".join(seen.text)), ()


def decode(data: bytes, content_type: str | None) -> str:
    """By its mark, as UTF-8, as the server or the page says, or as it looks most like."""
    meta = CHARSET.search(data[:4096])
    page = decode_bytes(data, declared_encoding(content_type) or (meta[1].decode("ascii") if meta else None))
    if page is None:
        raise binary()
    return DECLARATION.sub("", page.replace("\0", ""))


def main_text(page: str) -> str:
    try:
        return trafilatura.extract(page, include_comments=False, include_tables=True) or ""
    except (RecursionError, ValueError):
        return ""


class Seen:
    """What a reader of the page sees, gathered while it is parsed. Raises Unreadable where that is nested too deep."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self._depth = 0
        self._hidden = 0
        self._titles: dict[str, str] = {}
        self._in_title = ""

    @property
    def title(self) -> str:
        """Of the metadata, of the head, or the first heading."""
        titles = (one_line(self._titles.get(place)) for place in ("meta", "title", "heading"))
        return next(filter(None, titles), "")

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth > depth_most:
            raise Unreadable("bomb", f"Its elements are nested more than {depth_most:,} deep.")
        if tag in HIDDEN:
            self._hidden += 1
        if tag in BLOCKS:
            self.text.append("\n")
        place = "title" if tag == "title" else "heading" if tag in HEADINGS else ""
        if place and not self._titles.get(place, "").strip():
            self._in_title = place
            self._titles[place] = ""
        if tag == "meta" and attributes.get("property") == "og:title":
            self._titles.setdefault("meta", attributes.get("content", ""))

    def end(self, tag: str) -> None:
        self._depth -= 1
        if tag in HIDDEN:
            self._hidden -= 1
        if tag in BLOCKS and tag != "br":
            self.text.append("\n")
        if tag == "title" or tag in HEADINGS:
            self._in_title = ""

    def data(self, text: str) -> None:
        if self._in_title:
            self._titles[self._in_title] += text
        if not self._hidden:
            self.text.append(re.sub(r"\s+", " ", text))

    def close(self) -> "Seen":
        return self
