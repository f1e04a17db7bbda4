"""HTML as plain text that can be read: paragraphs with a blank line between them, and nothing that could run.

It is read by Python's own parser, which builds no tree. What was escaped twice, as many feeds do, is read twice.
"""

import re
from html.parser import HTMLParser

html_most_chars = 100_000
passes_most = 3
HIDDEN = {"script", "style", "noscript", "template", "head", "svg", "math", "iframe", "object", "select", "textarea"}
BLOCKS = {
    "address", "article", "aside", "blockquote", "dd", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer",
    "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section",
    "table", "tr", "ul",
}  # fmt: skip
INLINE = {
    "a", "abbr", "audio", "b", "base", "body", "br", "cite", "code", "em", "embed", "font", "html", "i", "img", "input",
    "link", "meta", "q", "small", "span", "strong", "sub", "sup", "td", "th", "u", "video",
}  # fmt: skip
TAG = re.compile(rf"</?(?:{'|'.join(sorted(HIDDEN | BLOCKS | INLINE))})(?![\w-])[^<>]*>|<!--|<!\[CDATA\[", re.I)
# Control characters, but tab and newline; soft hyphens; marks of byte order; halves of surrogate pairs; marks that turn
# the direction of writing.
UNWANTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u200b\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
LINE_ENDS = re.compile("\r\n?|[\x85\u2028\u2029]")
LOOSE_TAG = re.compile(r"<(?=[a-z/!?])", re.I)


def plain_text(markup: str) -> str:
    """What a reader sees of it, a blank line between paragraphs. A tag that nobody knows is text."""
    text = LINE_ENDS.sub("\n", markup[:html_most_chars])
    for _ in range(passes_most):
        has_tags = TAG.search(text) is not None
        text = Seen.of(text, keep_paragraphs=not has_tags)
        if TAG.search(text) is None:
            break
    else:
        text = LOOSE_TAG.sub("", text)
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", UNWANTED.sub("", text)))
    return "\n\n".join(filter(None, paragraphs))


def plain_line(markup: str) -> str:
    """The same in one line."""
    return " ".join(plain_text(markup).split())


def shortened(text: str, most_chars: int) -> str:
    """At most so many characters, cut between words where there are some."""
    if len(text) <= most_chars:
        return text
    cut = text[: most_chars - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[most_chars // 2 :] else cut).rstrip() + "…"


class Seen(HTMLParser):
    """What a reader of the page sees, gathered while it is parsed."""

    def __init__(self, keep_paragraphs: bool) -> None:
        super().__init__(convert_charrefs=True)
        self._keep_paragraphs = keep_paragraphs
        self._hidden: list[str] = []
        self._parts: list[str] = []

    @classmethod
    def of(cls, markup: str, keep_paragraphs: bool) -> str:
        seen = cls(keep_paragraphs)
        seen.feed(markup)
        seen.close()
        return "".join(seen._parts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in HIDDEN:
            self._hidden.append(tag)
        elif not self._hidden:
            self._parts.append("\n\n" if tag in BLOCKS else "\n" if tag == "br" else " " if tag in {"td", "th"} else "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in HIDDEN:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            del self._hidden[self._hidden.index(tag) :]
        elif tag in BLOCKS and not self._hidden:
            self._parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data if self._keep_paragraphs else re.sub(r"\s+", " ", data))
