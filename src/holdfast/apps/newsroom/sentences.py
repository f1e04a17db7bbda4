"""Where quotes and sentences begin and end in English prose, as far as marks and letters can tell.

A straight mark opens a quote at the beginning of a word and closes it at the end of one. A double mark that is
not closed quotes the rest of its paragraph, as newspapers do when a quote goes on in the next. A single mark that is
not closed is an apostrophe. An abbreviation that is not listed ends a sentence, if a capital follows it.
"""

# ruff: noqa: RUF001 - typographic marks are what this is about

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from holdfast.apps.newsroom.lexicon import WORD_LISTS

CLOSING = {'"': '"', "“": "”", "„": "“”", "«": "»", "‘": "’", "'": "'"}
MARK = re.compile(f"[{''.join(CLOSING)}]")
SINGLE = "'‘"
ABBREVIATIONS = WORD_LISTS["abbreviations"]
ENDS_A_SENTENCE = re.compile(r"[.!?…]+[)\]\"”’»']*(?=\s+|$)|\n\s*\n")
LAST_WORD = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]+$")
SPEECH = WORD_LISTS["speech"]
"""What tells that somebody's own words follow, or just came."""


@dataclass(frozen=True)
class Quote:
    """A quote with its marks; `closed` is false if it goes on to the end of its paragraph."""

    start: int
    end: int
    closed: bool = True

    def inside(self, text: str) -> str:
        """The words between the marks."""
        return text[self.start + 1 : self.end - 1] if self.closed else text[self.start + 1 : self.end]


def quotes(text: str) -> Sequence[Quote]:
    """All quotes of a text, in order; those within another are part of it."""
    found: list[Quote] = []
    for mark in MARK.finditer(text):
        is_within = found and mark.start() < found[-1].end
        if not is_within and _opens(text, mark.start()) and (quote := _quote_from(text, mark.start())):
            found.append(quote)
    return tuple(found)


def _opens(text: str, at: int) -> bool:
    before = text[at - 1] if at else " "
    after = text[at + 1] if at + 1 < len(text) else " "
    if text[at] == '"':
        return not (before.isdigit() and not after.isalnum())  # an inch
    return not after.isspace() and not before.isalnum()


def _quote_from(text: str, at: int) -> Quote | None:
    mark = text[at]
    paragraph = text.find("\n\n", at)
    limit = len(text) if paragraph < 0 else paragraph
    for end in range(at + 1, limit):
        if text[end] not in CLOSING[mark]:
            continue
        inside_a_word = mark in SINGLE and (text[end - 1].isspace() or text[end + 1 : end + 2].isalnum())
        if not inside_a_word:
            return Quote(at, end + 1)
    return None if mark in SINGLE else Quote(at, limit, closed=False)


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Where each sentence begins and ends; never inside a quote, nor after an abbreviation or an initial."""
    held = [(quote.start, quote.end) for quote in quotes(text)]
    ends = [mark.end() for mark in ENDS_A_SENTENCE.finditer(text) if _is_an_end(text, mark, held)]
    spans = []
    for start, end in pairwise([0, *ends, len(text)]):
        if sentence := text[start:end].strip():
            first = text.index(sentence, start)
            spans.append((first, first + len(sentence)))
    return spans


def speaks(text: str) -> bool:
    """Whether somebody says something in it."""
    return any(word.lower() in SPEECH for word in re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", text))


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, each on one line."""
    return [" ".join(text[start:end].split()) for start, end in sentence_spans(text)]


def _is_an_end(text: str, mark: re.Match[str], held: list[tuple[int, int]]) -> bool:
    around = next(((start, end) for start, end in held if start < mark.start() < end), None)
    if around and mark.end() < around[1]:
        return False
    following = text[mark.end() :].lstrip()[:1]
    if around and following and not following.isupper() and following not in CLOSING and not following.isdigit():
        return False
    if not mark[0].startswith(".") or mark[0].startswith(".."):
        return not (following and following.islower())
    word = LAST_WORD.search(text[: mark.start()][-40:])
    if word and is_abbreviation(word[0]):
        return not following
    return not (following and following.islower())


def is_abbreviation(word: str) -> bool:
    """Whether a full stop behind it belongs to it: "Dr", "U.S", "J"."""
    bare = word.lower().replace(".", "")
    return bare in ABBREVIATIONS or "." in word or (len(word) == 1 and word.isupper() and word != "I")
