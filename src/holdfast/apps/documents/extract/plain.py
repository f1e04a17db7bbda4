"""Markdown and plain text: kept as written, once it is known in which encoding."""

import re
from pathlib import Path

from charset_normalizer import from_bytes

from holdfast.apps.documents.extract.document import Read, binary, clean, text_most, too_long
from holdfast.apps.documents.extract.kinds import MARKS, controls_most

guessed_by_bytes = 64 * 1024
UNKNOWN = "\ufffd"
CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
# A block between two lines of --- or +++ at the very start, that begins like YAML or TOML.
FRONT_MATTER = re.compile(
    r"\A(---|\+\+\+)[ \t]*\n(?=\s*(?:#[^\n]*\n\s*)*[\w\"'-]+[ \t]*[:=])(.*?\n)(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.S
)
CHARSET = re.compile(r"charset\s*=\s*\"?([A-Za-z0-9_:.-]{1,40})", re.I)
TITLE = re.compile(r"^title\s*[:=]\s*(\S.*)$", re.M | re.I)
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
ATX = re.compile(r" {0,3}#{1,6}(?=[ \t]|$)")
CLOSING = re.compile(r"(^|[ \t])#+$")
UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")


def read_text(path: Path, content_type: str | None) -> Read:
    return "", clean(decode(path, content_type)), ()


def read_markdown(path: Path, content_type: str | None) -> Read:
    """The title is that of the front matter, which is left out, or the first heading, which stays."""
    text = clean(decode(path, content_type))
    title = ""
    if matter := FRONT_MATTER.match(text):
        text = clean(text[matter.end() :])
        if named := TITLE.search(matter[2]):
            title = named[1].strip().strip("\"'")
    return title or heading(text), text, ()


def decode(path: Path, content_type: str | None) -> str:
    """The text of the file: by its mark, as UTF-8, as the server said, or as it looks most like. Raises Unreadable."""
    if path.stat().st_size > 4 * text_most + 4:
        raise too_long()
    text = decode_bytes(path.read_bytes(), declared_encoding(content_type))
    if text is None or len(CONTROLS.findall(text, 0, guessed_by_bytes)) > controls_most * len(text[:guessed_by_bytes]):
        raise binary()
    return text


def declared_encoding(content_type: str | None) -> str | None:
    """The encoding that a server says."""
    found = CHARSET.search(content_type or "")
    return found[1] if found else None


def decode_bytes(data: bytes, declared: str | None) -> str | None:
    """None if these bytes are in no encoding that is known."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    for encoding in filter(None, ("utf-8", declared)):
        try:
            return data.decode(encoding)
        except (UnicodeError, LookupError):
            continue
    text = data.decode("utf-8", "replace")
    wrong, right = text.count(UNKNOWN), len(text) - len(text.encode("ascii", "ignore"))
    if right > 10 * wrong:  # it is UTF-8, with a few bytes damaged
        return text
    guess = None if b"\0" in data else from_bytes(data[:guessed_by_bytes]).best()
    if guess:
        return data.decode(guess.encoding, "replace")
    return text if wrong < len(text) * controls_most else None


def heading(text: str) -> str:
    """The first heading of a Markdown text, outside of code."""
    fence, before = "", ""
    for line in text.split("\n"):
        if found := FENCE.match(line):
            if not fence:
                fence = found[1]
            elif found[1].startswith(fence):
                fence = ""
        elif not fence:
            if hashes := ATX.match(line):
                if title := CLOSING.sub("", line[hashes.end() :].strip()):
                    return title
            elif before.strip() and UNDERLINE.match(line):
                return before
        before = "" if fence else line
    return ""
