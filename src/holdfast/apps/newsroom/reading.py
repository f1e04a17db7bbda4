"""A text as the rules read it: its words, its quotes, its names, and what is out of reach.

A name is what has a capital in mid-sentence. A text in which every longer word has a capital is a headline of the
American kind: there only the names are known that the article itself has in mid-sentence.

Where in its sentence an expression stands, as far as the words beside it show: before a noun, as a verb, in a place
from which it can go. There is no grammar here, only lists of the small words (data/words.txt). In doubt an expression
is taken to stand where it must be replaced, not where it may go.
"""

# ruff: noqa: RUF001 - typographic marks are what this is about

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.apps.newsroom.lexicon import WORD_LISTS, lexicon
from holdfast.apps.newsroom.sentences import Quote, is_abbreviation, quotes, sentence_spans, speaks

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
LINK = re.compile(r"(?:https?://|www\.)\S+|\S+@\S+|[@#]\w+|\b[\w-]+\.(?:com|org|net|edu|gov|info|io|co|uk|de|eu)\b\S*")
OPENS_A_SENTENCE = re.compile(r"(?:^|[.!?…:][)\]\"”’»']*\s+|\n\s*)[\"“‘«'(\[•–—-]*\s*$")
POSSESSIVE = re.compile(r"['’]s$")
TITLE_CASE_WORDS = 3
SMALL = WORD_LISTS["small in titles"]


@dataclass(frozen=True)
class Reading:
    """A text with its words, and which of them are out of reach."""

    text: str
    names: frozenset[str]
    is_headline: bool
    words: Sequence[re.Match[str]]
    scared: Sequence[Quote]
    held: Sequence[tuple[int, int]]
    title_case: bool

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
    reading = Reading(text, names, headline, words, scared, held, title_case)
    return replace(reading, names=names | names_in(reading))


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
    before = text[start : quote.start].rstrip()
    return bool(before or text[quote.end : end].strip()) and before[-1:] != ":" and not speaks(text[start:end])


NO_NOUN = WORD_LISTS["no nouns"]
"""What cannot follow an adjective in front of its noun."""
NO_ATTRIBUTE = WORD_LISTS["no attribute behind"]
"""What an adjective behind it belongs to, or is compared by: "is absurd", "more absurd"."""
DETERMINERS = WORD_LISTS["determiners"]
BEFORE_A_VERB = WORD_LISTS["before a verb"]
NO_PLURALS = WORD_LISTS["no plurals"]
DEGREES = WORD_LISTS["degrees"]
NUMBERS = WORD_LISTS["numbers"]
A_FIGURE = re.compile(r"\s+[$€£]?\d")
OPENS_MARKS = re.compile(r"\s+[\"“‘'«]\w")
ONE_WORD_MORE = re.compile(r"\s+[\w'’-]+\s*(?:[.!?…]|$)")
FORMS_OF_BE = {"be", "been", "being", "is", "are", "was", "were", "it's", "it’s", "that's", "that’s"}
PLURAL_LETTERS = 4
skipped_most_words = 4


def before_a_noun(reading: Reading, first: int, last: int, *, surely: bool) -> bool:
    """Whether the words from `first` to `last` only describe the noun behind them.

    `surely`: an article or the like must stand before them, since they could as well be a verb.
    """
    behind = reading.follows(last).lower()
    in_marks = OPENS_MARKS.match(reading.text, reading.words[last].end())
    if (not behind and not in_marks) or behind in NO_NOUN or _is_all_of_it(reading, first, last):
        return False
    before, gap = _before(reading, first)
    if surely:
        return not gap.strip() and (before.lower() in DETERMINERS or bool(POSSESSIVE.search(before)))
    if reading.begins_a_sentence(first) or not before:
        return True
    if gap.strip():
        return "," not in gap
    return before.lower() not in NO_ATTRIBUTE and not before.lower().endswith("ly")


def _is_all_of_it(reading: Reading, first: int, last: int) -> bool:
    """Whether nothing is said without it: "it was a disastrous day", or the same without "it was"."""
    if article_before(reading, first) is None:
        return False
    if first > 1 and reading.follows(first - 2) and reading.words[first - 2][0].lower() in FORMS_OF_BE:
        return True
    return reading.begins_a_sentence(first - 1) and bool(ONE_WORD_MORE.match(reading.text, reading.words[last].end()))


def before_a_number(reading: Reading, last: int) -> bool:
    """As in "a whopping 40 million" and "finished a pitiful fifth"."""
    return bool(A_FIGURE.match(reading.text, reading.words[last].end())) or reading.follows(last).lower() in NUMBERS


def article_before(reading: Reading, first: int) -> int | None:
    """Where an "a" or "an" begins that stands before the word."""
    if not first or reading.words[first - 1][0].lower() not in ("a", "an") or not reading.follows(first - 1):
        return None
    return reading.words[first - 1].start()


def is_a_verb_here(reading: Reading, first: int) -> bool:
    """Whether a word that could be a noun is a verb here: behind "will", "they" or a plural."""
    before, gap = _before(reading, first)
    word = before.lower()
    if not word or gap.strip():
        return False
    a_plural = len(word) >= PLURAL_LETTERS and word.endswith("s") and not word.endswith(("ss", "us", "is", "'s", "’s"))
    return word in BEFORE_A_VERB or (a_plural and word not in NO_PLURALS) or before == "MPs"


def can_be_left_out(reading: Reading, first: int, start: int, end: int) -> bool:
    """Whether the sentence stands without it: not if it is all there is between two marks, or is denied or compared."""
    before, after = reading.text[max(0, start - 12) : start], reading.text[end : end + 12]
    if POSSESSIVE.match(after[:2]) or _is_a_matter_of_degree(reading, first):
        return False
    goes_on = bool(re.match(r",?\s+[\w\"“‘'(]", after))
    if reading.begins_a_sentence(first):
        return goes_on
    if re.search(r"(?:\w|,|[)”\"’])\s+$", before):
        return bool(re.match(r"\s|[,.;:?!)\]]|$", after))
    return bool(re.match(r"\s+\w", after)) and bool(re.search(r"[(\s]$", before))


def _is_a_matter_of_degree(reading: Reading, first: int) -> bool:
    """ "Not completely closed" is not "not closed", and "more brutally than" needs its adverb."""
    if not first or not reading.follows(first - 1):
        return False
    before = reading.words[first - 1][0].lower()
    return before in DEGREES or before.endswith(("n't", "n’t"))


def _before(reading: Reading, first: int) -> tuple[str, str]:
    """The word before that of this number, and what is between; words that will be left out are not counted."""
    at = first - 1
    while at >= max(0, first - skipped_most_words) and _will_be_left_out(reading.words[at][0]) and reading.follows(at):
        at -= 1
    if at < 0:
        return "", ""
    return reading.words[at][0], reading.text[reading.words[at].end() : reading.words[at + 1].start()]


def _will_be_left_out(word: str) -> bool:
    return any(one.words == (word.lower(),) and not one.instead for one in lexicon().get(word.lower(), ()))
