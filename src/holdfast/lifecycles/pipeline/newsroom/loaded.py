"""Finds what is loaded in a text: expressions of the lexicon, shouting, exclamation marks and scare quotes.

Nothing is found inside a quote or a link, nor in a name, which is what has a capital in mid-sentence. A text in
which every longer word has a capital is a headline of the American kind: there only the names are spared that the
article itself has in mid-sentence.
"""

# ruff: noqa: RUF001 - typographic marks are what this is about

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.lifecycles.pipeline.newsroom.lexicon import KEPT, Expression, lexicon
from holdfast.lifecycles.pipeline.newsroom.sentences import Quote, is_abbreviation, quotes, sentence_spans, speaks
from holdfast.lifecycles.pipeline.newsroom.wordlists import word_list

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
LINK = re.compile(r"(?:https?://|www\.)\S+|\S+@\S+|[@#]\w+|\b[\w-]+\.(?:com|org|net|edu|gov|info|io|co|uk|de|eu)\b\S*")
EXCLAMATION = re.compile(r"\s*\(!+\)|[!?]*![!?]*(?=[\s)\]\"”»]|$)")
OPENS_A_SENTENCE = re.compile(r"(?:^|[.!?…:][)\]\"”’»']*\s+|\n\s*)[\"“‘«'(\[•–—-]*\s*$")
POSSESSIVE = re.compile(r"['’]s$")
AN_ADVERB = re.compile(r"[^\W\d_]+ly\b")

SHOUTED_LETTERS = 5
TITLE_CASE_WORDS = 3
SHOUTING, PUNCTUATION, SCARE_QUOTES = "shouting", "punctuation", "scare quotes"
STRENGTH = {SHOUTING: 0.8, PUNCTUATION: 0.8, SCARE_QUOTES: 0.6}

ACRONYMS = word_list("acronyms")
PLACES = word_list("places")
SHORT = word_list("short")
"""Words that nobody takes for an acronym when they stand in the middle of shouting."""
SMALL = word_list("small in titles")


@dataclass(frozen=True)
class Find:
    """A loaded expression from `start` to `end`, and what stands for it; empty: it is left out."""

    start: int
    end: int
    now: str
    kind: str
    strength: float


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


def spot(reading: Reading) -> list[Find]:
    """All that is loaded, in order, none over another."""
    found = [*_expressions(reading), *_shouting(reading), *_exclamations(reading), *_scare_quotes(reading)]
    found.sort(key=lambda find: (find.start, -find.end))
    apart: list[Find] = []
    for find in found:
        if not apart or find.start >= apart[-1].end:
            apart.append(find)
    return apart


def _expressions(reading: Reading) -> Iterator[Find]:
    known = lexicon()
    index = 0
    while index < len(reading.words):
        first = _plain(reading.words[index][0])
        match = next((one for one in known.get(first, ()) if _stands_at(reading, index, one)), None)
        if match is None:
            index += 1
            continue
        last = index + len(match.words) - 1
        find = _find(reading, index, last, match)
        if match.kind != KEPT and find:
            yield find
        index = last + 1


def _plain(word: str) -> str:
    return POSSESSIVE.sub("", word).replace("’", "'").lower()


def _stands_at(reading: Reading, index: int, expression: Expression) -> bool:
    if index + len(expression.words) > len(reading.words):
        return False
    for step, word in enumerate(expression.words):
        if _plain(reading.words[index + step][0]) != word:
            return False
        if step and not reading.follows(index + step - 1):
            return False
    return True


def _find(reading: Reading, first: int, last: int, expression: Expression) -> Find | None:
    start = reading.words[first].start()
    end = start + len(reading.text[start : reading.words[last].end()])
    end -= len(reading.words[last][0]) - len(POSSESSIVE.sub("", reading.words[last][0]))
    around = reading.text[max(0, start - 1) : start] + reading.text[end : end + 1]
    if reading.is_held(start, end) or re.search(r"[\d_@#]", around) or _is_a_name(reading, first, last, expression):
        return None
    now = _in_the_case_of(reading, reading.words[first][0], expression.instead)
    if not now and not _can_go(reading, first, start, end):
        return None
    return Find(start, end, now, expression.kind, expression.strength)


def _is_a_name(reading: Reading, first: int, last: int, expression: Expression) -> bool:
    words = [word[0] for word in reading.words[first : last + 1]]
    if not any(word[0].isupper() for word in words):
        return False
    if any(word.isupper() for word in words) or any(word in reading.names for word in words):
        return True  # what is shouted is made quiet first
    if reading.title_case:
        return False
    if any(word[0].isupper() for word in words[1:]) or not reading.begins_a_sentence(first):
        return True
    never_a_name = expression.kind == "intensifier" or "-" in words[0] or len(words) > 1
    behind = reading.follows(first)
    return not never_a_name and behind[:1].isupper() and not behind[:2].isupper()  # "Furious MPs" are nobody's name


def _in_the_case_of(reading: Reading, word: str, instead: str) -> str:
    if not word[0].isupper() or not instead:
        return instead
    if reading.title_case:
        return " ".join(part[0].upper() + part[1:] if len(part) > 3 else part for part in instead.split(" "))
    return instead[0].upper() + instead[1:]


def _can_go(reading: Reading, first: int, start: int, end: int) -> bool:
    """Whether the sentence stands without it: not if it is all there is between two marks."""
    before, after = reading.text[max(0, start - 12) : start], reading.text[end : end + 12]
    if POSSESSIVE.match(after[:2]):
        return False
    goes_on = bool(re.match(r",?\s+[\w\"“‘'(]", after))
    if reading.begins_a_sentence(first):
        return goes_on
    if re.search(r"(?:\w|,|[)”\"’])\s+$", before):
        return bool(re.match(r"\s|[,.;:?!)\]]|$", after))
    return bool(re.match(r"\s+\w", after)) and bool(re.search(r"[(\s]$", before))


def _shouting(reading: Reading) -> Iterator[Find]:
    defined = set(re.findall(r"\(([A-Z]{3,})\)", reading.text))
    for index, word in enumerate(reading.words):
        said = word[0]
        if not said.isupper() or not said.isalpha() or said in ACRONYMS or said in defined:
            continue
        if not (_is_shouted(reading, index) or (said.lower() in SHORT and _beside_shouting(reading, index))):
            continue
        around = reading.text[max(0, word.start() - 1) : word.start()] + reading.text[word.end() : word.end() + 1]
        if reading.is_held(*word.span()) or re.search(r"[\d_@#&.-]", around[:1] + around[1:].replace(".", "")):
            continue
        quiet = _quiet(reading, index)
        if quiet != said:
            yield Find(*word.span(), quiet, SHOUTING, STRENGTH[SHOUTING])


def _is_shouted(reading: Reading, index: int) -> bool:
    said = reading.words[index][0]
    if len(said) < SHOUTED_LETTERS or not re.search("[AEIOUYÄÖÜÉ]", said) or said in ACRONYMS:
        return False
    behind = reading.follows(index)
    part_of_a_name = behind[:1].isupper() and not behind.isupper() and not reading.begins_a_sentence(index)
    return said.lower() in lexicon() or reading.title_case or not part_of_a_name


def _beside_shouting(reading: Reading, index: int) -> bool:
    for other in (index - 1, index + 1):
        if 0 <= other < len(reading.words):
            word = reading.words[other][0]
            if word.isupper() and (_is_shouted(reading, other) or word.lower() in SHORT):
                return True
    return False


def _quiet(reading: Reading, index: int) -> str:
    said = reading.words[index][0]
    name = said[0] + said[1:].lower()
    named = name in reading.names or said.lower() in PLACES or reading.title_case
    return name if named or reading.begins_a_sentence(index) else said.lower()


def _exclamations(reading: Reading) -> Iterator[Find]:
    for mark in EXCLAMATION.finditer(reading.text):
        before, after = reading.text[: mark.start()], reading.text[mark.end() :]
        if reading.is_held(*mark.span()) or not before.strip() or _belongs_to_a_name(mark[0], before, after):
            continue
        now = "?" if "?" in mark[0] else "."
        ends_a_headline = reading.is_headline and now == "." and not after.strip()
        left = before.rstrip()
        if "\n" in before[len(left) :]:
            continue
        if "(" in mark[0] or left != before or before[-1] in ".?…,;:-–—([" or ends_a_headline:
            now = ""
        yield Find(len(left), mark.end(), now, PUNCTUATION, STRENGTH[PUNCTUATION])


def _belongs_to_a_name(mark: str, before: str, after: str) -> bool:
    """As in "the merger of Yahoo! and AOL"."""
    return mark == "!" and bool(re.search(r"\b[A-Z]\w*$", before)) and bool(re.match(r"\s+[a-z]", after))


def _scares(text: str, quote: Quote) -> bool:
    """Whether the marks hold no quote, but one or two words at arm's length."""
    inside = quote.inside(text)
    if not quote.closed or not re.fullmatch(r"[a-zà-ÿ'’-]{3,}(?: [a-zà-ÿ'’-]+)?", inside):
        return False
    start, end = next(((a, b) for a, b in sentence_spans(text) if a <= quote.start < b), (0, len(text)))
    said = text[start : quote.start].rstrip()
    return bool(said or text[quote.end : end].strip()) and said[-1:] != ":" and not speaks(text[start:end])


def _scare_quotes(reading: Reading) -> Iterator[Find]:
    for quote in reading.scared:
        yield Find(quote.start, quote.end, quote.inside(reading.text), SCARE_QUOTES, STRENGTH[SCARE_QUOTES])


def adverb_at(text: str, at: int) -> bool:
    """Whether a word that ends as an adverb does begins there."""
    return bool(AN_ADVERB.match(text, at))
