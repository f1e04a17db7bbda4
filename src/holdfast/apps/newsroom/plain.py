"""HTML as plain text that can be read: paragraphs with a blank line between them, and nothing that could run.

No tree is built, and no character is looked at more than a few times: Python's own parser takes minutes for a page of
nothing but `<a `. What was escaped twice, as many feeds do, is read twice.
"""

import html
import re

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
BETWEEN = {"br": "\n", "td": " ", "th": " "} | dict.fromkeys(BLOCKS, "\n\n")
KNOWN = rf"(?:{'|'.join(sorted(HIDDEN | BLOCKS | INLINE))})(?![\w-])"
MARKUP = re.compile(rf"</?{KNOWN}|<!--|<!\[CDATA\[", re.I)
# No tag goes beyond the next "<": so all of them together cost no more than the length of the text. One that is
# unknown must be closed to be a tag; "<3" and an address in angle brackets are text.
TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[|\]\]>|<[!?][^<>]*+>?"
    r"|<(?P<end>/)?(?P<name>[a-z][a-z0-9:-]*+)(?=[\s/>])(?:(?:[^<>\"']|\"[^\"<]*+\"|'[^'<]*+')*+>|[^<>]*+>)"
    rf"|</?{KNOWN}[^<>]*+",
    re.I | re.S,
)
CLOSING = {name: re.compile(rf"</{name}(?![\w-])[^<>]*+>?", re.I) for name in HIDDEN}
# Control characters, but tab and newline; soft hyphens; marks of byte order; halves of surrogate pairs; marks that turn
# the direction of writing.
UNWANTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u200b\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
LINE_ENDS = re.compile("\r\n?|[\x85\u2028\u2029]")


def plain_text(markup: str) -> str:
    """What a reader sees of it, a blank line between paragraphs."""
    text = strip_tags(markup[:html_most_chars])
    for _ in range(passes_most - 1):
        if not MARKUP.search(text):
            break
        text = strip_tags(text)
    if MARKUP.search(text):
        text = text.replace("<", "")
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n[^\S\n]*\n", text))
    return "\n\n".join(filter(None, paragraphs))


def plain_line(markup: str) -> str:
    """The same in one line."""
    return " ".join(plain_text(markup).split())


def shorten(text: str, most_chars: int) -> str:
    """At most so many characters, cut between words where there are some."""
    if len(text) <= most_chars:
        return text
    cut = text[: most_chars - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[most_chars // 2 :] else cut).rstrip() + "…"


def strip_tags(markup: str) -> str:
    """The markup without its tags and without what they hide. Where there are tags, only they part paragraphs."""
    has_tags = MARKUP.search(markup) is not None
    parts: list[str] = []
    place = 0
    while token := TOKEN.search(markup, place):
        parts.append(unescape(markup[place : token.start()], has_tags))
        name = (token["name"] or "").lower()
        parts.append(BETWEEN.get(name, ""))
        place = token.end()
        if name in HIDDEN and not token["end"] and not token[0].endswith("/>"):
            closing = CLOSING[name].search(markup, place)
            place = closing.end() if closing else len(markup)
    parts.append(unescape(markup[place:], has_tags))
    return "".join(parts)


def unescape(piece: str, has_tags: bool) -> str:
    text = UNWANTED.sub("", LINE_ENDS.sub("\n", html.unescape(piece)))
    return re.sub(r"\s+", " ", text) if has_tags else text
