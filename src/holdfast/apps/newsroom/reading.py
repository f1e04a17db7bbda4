"""A text as the rules read it: its words, its quotes, its names, and what is out of reach.

A name is what has a capital in mid-sentence. A text in which every longer word has a capital is a headline of the
American kind: there only the names are known that the article itself has in mid-sentence.
"""

# ruff: noqa: RUF001 - typographic marks are what this is about

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.apps.newsroom.sentences import Quote, is_abbreviation, quotes, sentence_spans, speaks
from holdfast.apps.newsroom.wordlists import word_list

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
LINK = re.compile(r"(?:https?://|www\.)\S+|\S+@\S+|[@#]\w+|\b[\w-]+\.(?:com|org|net|edu|gov|info|io|co|uk|de|eu)\b\S*")
OPENS_A_SENTENCE = re.compile(r"(?:^|[.!?…:][)\]\"”’»']*\s+|\n\s*)[\"“‘«'(\[•–—-]*\s*$")
POSSESSIVE = re.compile(r"['’]s$")
TITLE_CASE_WORDS = 3
SMALL = word_list("small in titles")


@dataclass(frozen=True)
class Reading:
    """A text with its words, and which of them are out of reach."""

    text: str
    names: frozenset[str]
    is_headline: bool
    words: Sequence[re.Match[str]]
    quotes: Sequence[Quote]
    scared: Sequence[Quote]
    held: Sequence[tuple[int, int]]
    title_case: bool = field(default=False)

    def begins_a_sentence(self, index: int) -> bool:
        """Whether the word of that number is the first of a sentence."""
        word = self.words[index]
        if not OPENS_A_SENTENCE.search(self.text[max(0, word.start() - 12) : word.start()] if index else ""):
            return False
        gap = self.text[self.words[index - 1].end() : word.start()] if index else ""
        return not (gap.strip() == "." and "\n" not in gap and is_abbreviation(self.words[index - 1][0]))

    def is_held(self, start: int, end: int) -> bool:
        """Whether it touches a quote or a link."""
        return any(start < until and begin < end for begin, until in self.held)

    def follows(self, index: int) -> str:
        """The word behind that of this number, if only a blank is between; else nothing."""
        if index + 1 >= len(self.words):
            return ""
        gap = self.text[self.words[index].end() : self.words[index + 1].start()]
        return self.words[index + 1][0] if gap.isspace() else ""


def read(text: str, *, names: frozenset[str] = frozenset(), headline: bool = False) -> Reading:
    """A text, ready to be searched. `names` are those known from elsewhere."""
    found = quotes(text)
    scared = [quote for quote in found if _scares(text, quote)]
    held = [(quote.start, quote.end) for quote in found] + [link.span() for link in LINK.finditer(text)]
    words = list(WORD.finditer(text))
    title_case = _is_title_case(text, [word[0] for word in words[1:] if word[0].lower() not in SMALL])
    reading = Reading(text, names, headline, words, found, scared, held, title_case)
    return reading if title_case else Reading(text, names | names_in(reading), headline, words, found, scared, held)


def _is_title_case(text: str, words: Sequence[str]) -> bool:
    if len(words) < TITLE_CASE_WORDS or text.rstrip().endswith(".") or all(word.isupper() for word in words):
        return False
    return all(word[0].isupper() for word in words)


def names_in(reading: Reading) -> frozenset[str]:
    """All words that have a capital in mid-sentence; none if the whole text is written so."""
    if reading.title_case:
        return frozenset()
    return frozenset(
        word[0]
        for index, word in enumerate(reading.words)
        if word[0][0].isupper() and not word[0].isupper() and not reading.begins_a_sentence(index)
    )


def _scares(text: str, quote: Quote) -> bool:
    """Whether the marks hold no quote, but one or two words at arm's length."""
    inside = quote.inside(text)
    if not quote.closed or not re.fullmatch(r"[a-zà-ÿ'’-]{3,}(?: [a-zà-ÿ'’-]+)?", inside):
        return False
    start, end = next(((a, b) for a, b in sentence_spans(text) if a <= quote.start < b), (0, len(text)))
    said = text[start : quote.start].rstrip()
    return bool(said or text[quote.end : end].strip()) and said[-1:] != ":" and not speaks(text[start:end])
