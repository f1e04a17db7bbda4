"""A document that was read, or why it was not; and its text in the form that every later step may rely on.

What Postgres takes, one kind of line end, no run of blank lines.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from io import StringIO

SUPPORTED = "PDF, Word (.docx), HTML, Markdown and plain text"
text_most = 20_000_000
Read = tuple[str, str, tuple[int, ...]]
"""What a reader finds: a title, a text, and the offsets of its pages."""


@dataclass(frozen=True)
class Extracted:
    """The text of a document. `pages` are the offsets in it where the pages begin; a text without pages has none."""

    kind: str
    title: str
    text: str
    pages: tuple[int, ...] = ()


class Unreadable(Exception):
    """A file that is not read, with a code for programs and a sentence for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


def unsupported_format(what: str) -> Unreadable:
    return Unreadable("unsupported", f"It is {what}. What can be read: {SUPPORTED}.")


def binary() -> Unreadable:
    return unsupported_format("binary, and none of the kinds we know")


def too_long() -> Unreadable:
    return Unreadable("too-long", f"It has more than {text_most:,} characters of text. Cut it into parts.")


LINE_ENDS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# Control characters, but tab and newline; soft hyphens; marks of byte order; halves of surrogate pairs.
UNWANTED = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\ufeff\ud800-\udfff]")
BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n){2,}")
LEADING = re.compile(r"\A(?:[^\S\n]*\n)+")


def clean(text: str) -> str:
    """The text, with nothing at its edges. The indentation of its first line stays."""
    text = UNWANTED.sub("", LINE_ENDS.sub("\n", text))
    return LEADING.sub("", BLANK_LINES.sub("\n\n", text)).rstrip()


def one_line(text: str | None) -> str:
    """A title: cleaned, in one line, of a length that can be shown."""
    return " ".join(clean(text or "").split())[:300].rstrip()


def join_pages(pages: Iterable[str]) -> tuple[str, tuple[int, ...]]:
    """Pages as one text, a blank line between them, and where in it each begins. Raises Unreadable if too long."""
    text = StringIO()
    offsets: list[int] = []
    for page in pages:
        cleaned = clean(page)
        if cleaned and text.tell():
            text.write("\n\n")
        offsets.append(text.tell())
        text.write(cleaned)
        if text.tell() > text_most:
            raise too_long()
    return text.getvalue(), tuple(offsets)
