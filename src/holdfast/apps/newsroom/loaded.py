"""Finds what is loaded in a text: expressions of the lexicon, shouting, exclamation marks and scare quotes.

Nothing is found inside a quote or a link, nor in a name (reading.py). What stands for an expression depends on its
place in the sentence.
"""

# ruff: noqa: RUF001 - typographic marks are what this is about

import re
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.apps.newsroom.lexicon import KEPT, WORD_LISTS, Expression, lexicon
from holdfast.apps.newsroom.reading import (
    POSSESSIVE,
    Reading,
    article_before,
    before_a_noun,
    before_a_number,
    can_be_left_out,
    is_a_verb_here,
)

EXCLAMATION = re.compile(r"\s*\(!+\)|[!?]*![!?]*(?=[\s)\]\"”»]|$)")
# Behind "Disgraceful!" and "Outrageous:", if the sentence that they cry about follows.
ENDS_A_CRY = re.compile(r"[!:.…]+(?=\s+[\w\"“‘'])")
A_CRY = re.compile(r"(?:What an?|How)(?: [a-z][a-z'’-]*+){1,6}!+(?=\s|$)")
CHAIN = re.compile(r",?\s+(?:(?:and|or)\s+)?", re.I)
ENDS_A_GAP = re.compile(r"[^\w\s'’.-]|\.\s|\n")

SHOUTED_LETTERS = 5
gap_most_words = 6
chain_most_words = 6
near_chars = 40
DESCRIBING = ("adjective", "sensation")
SHOUTING, PUNCTUATION, SCARE_QUOTES, CRY = "shouting", "punctuation", "scare quotes", "sensation"
STRENGTH = {SHOUTING: 0.8, PUNCTUATION: 0.8, SCARE_QUOTES: 0.6, CRY: 0.75}

ACRONYMS = WORD_LISTS["acronyms"]
PLACES = WORD_LISTS["places"]
SHORT = WORD_LISTS["short"]
"""Words that are not taken for an acronym when they stand in the middle of shouting."""


@dataclass(frozen=True)
class Find:
    """A loaded expression from `start` to `end`, and what stands for it; empty: it is left out."""

    start: int
    end: int
    now: str
    kind: str
    strength: float


def spot(reading: Reading) -> list[Find]:
    """All that is loaded, in order, none over another."""
    rules = (_expressions, _find_shouting, _cries, _exclamations, _scare_quotes)
    found = sorted((find for rule in rules for find in rule(reading)), key=lambda find: (find.start, -find.end))
    separate: list[Find] = []
    for find in found:
        if not separate or find.start >= separate[-1].end:
            separate.append(find)
    return separate


def _expressions(reading: Reading) -> Iterator[Find]:
    known = lexicon()
    index = 0
    while index < len(reading.words):
        found = known.get(_plain(reading.words[index][0]), ())
        match = next(((one, last) for one in found if (last := _last_of(reading, index, one)) is not None), None)
        if match is None:
            index += 1
            continue
        expression, last = match
        find = _find(reading, index, last, expression)
        if expression.kind != KEPT and find:
            yield find
        index = last + 1


def _plain(word: str) -> str:
    return POSSESSIVE.sub("", word).replace("’", "'").lower()


def _last_of(reading: Reading, index: int, expression: Expression) -> int | None:
    """The number of the last word of an expression that begins at `index`; None if it does not stand there."""
    if expression.verb_only and not is_a_verb_here(reading, index):
        return None
    head, tail = expression.parts
    behind = _end_of(reading, index, head)
    if behind is None or not tail:
        return behind
    for first in range(behind + 2, min(behind + 2 + gap_most_words, len(reading.words))):
        between = reading.text[reading.words[behind].end() : reading.words[first].start()]
        if not between[0].isspace() or ENDS_A_GAP.search(between):
            return None
        if (last := _end_of(reading, first, tail)) is not None:
            return last
    return None


def _end_of(reading: Reading, index: int, words: tuple[str, ...]) -> int | None:
    """The number of the last of these words if they stand there, with nothing but blanks between."""
    if index + len(words) > len(reading.words):
        return None
    for step, word in enumerate(words):
        if _plain(reading.words[index + step][0]) != word or (step and not reading.follows(index + step - 1)):
            return None
    return index + len(words) - 1


def _find(reading: Reading, first: int, last: int, expression: Expression) -> Find | None:
    start, end = reading.words[first].start(), reading.words[last].end()
    end -= len(reading.words[last][0]) - len(POSSESSIVE.sub("", reading.words[last][0]))
    around = reading.text[max(0, start - 1) : start] + reading.text[end : end + 1]
    if reading.is_held(start, end) or re.search(r"[\d_@#]", around) or _is_a_name(reading, first, last, expression):
        return None
    instead = _in_the_case_of(reading, reading.words[first][0], expression.instead)
    head, tail = expression.parts
    if tail:  # what is in the gap stays to the letter
        gap = slice(reading.words[first + len(head) - 1].end(), reading.words[last - len(tail) + 1].start())
        now = instead + reading.text[gap].rstrip()
        return Find(start, reading.words[last].end(), now, expression.kind, expression.strength)
    if expression.spared and reading.begins_a_sentence(first) and (mark := ENDS_A_CRY.match(reading.text, end)):
        return Find(start, mark.end(), "", expression.kind, expression.strength)
    if expression.kind in DESCRIBING and before_a_number(reading, last):
        article = article_before(reading, first)
        return Find(start if article is None else article, end, "", expression.kind, expression.strength)
    now = instead
    if expression.spared:
        until = _end_of_a_chain(reading, last)
        if before_a_noun(reading, first, until, surely=expression.kind == "verb"):
            now, end = "", reading.words[until].end()
    if not now and not can_be_left_out(reading, first, start, end):
        if not expression.spared:
            return None
        now = instead
    return Find(start, end, now, expression.kind, expression.strength)


def _end_of_a_chain(reading: Reading, last: int) -> int:
    """The last of several words that can all be spared: "a shameful, cowardly and pathetic lie"."""
    for _ in range(chain_most_words):
        at = last + 1
        if at >= len(reading.words):
            break
        if at + 1 < len(reading.words):
            at += reading.words[at][0].lower() in ("and", "or")
        between = reading.text[reading.words[last].end() : reading.words[at].start()]
        word = reading.words[at][0]
        is_a_name = not word.islower() and not reading.title_case
        if not CHAIN.fullmatch(between) or is_a_name or not _is_spared(word.lower()):
            return last
        last = at
    return last


def _is_spared(word: str) -> bool:
    return any(one.words == (word,) and one.spared and one.kind != "verb" for one in lexicon().get(word, ()))


def _is_a_name(reading: Reading, first: int, last: int, expression: Expression) -> bool:
    words = [word[0] for word in reading.words[first : last + 1]]
    head, tail = expression.parts
    words = words[: len(head)] + words[len(words) - len(tail) :]
    if not any(word[0].isupper() for word in words):
        return False
    if any(word.isupper() and len(word) > 1 for word in words) or any(word in reading.names for word in words):
        return True  # what is shouted is made quiet first
    if reading.title_case:
        return False
    if any(word[0].isupper() for word in words[1:]) or not reading.begins_a_sentence(first):
        return True
    never_a_name = expression.kind == "intensifier" or "-" in words[0] or len(words) > 1
    behind = reading.follows(first)
    return not never_a_name and behind[:1].isupper() and not behind[:2].isupper()  # "Furious MPs" are not a name


def _in_the_case_of(reading: Reading, word: str, instead: str) -> str:
    if not word[0].isupper() or not instead:
        return instead
    if reading.title_case:
        return " ".join(part[0].upper() + part[1:] if len(part) > 3 else part for part in instead.split(" "))
    return instead[0].upper() + instead[1:]


def _find_shouting(reading: Reading) -> Iterator[Find]:
    defined = set(re.findall(r"\(([A-Z]{3,})\)", reading.text))
    for index, match in enumerate(reading.words):
        word = match[0]
        if not word.isupper() or not word.isalpha() or word in ACRONYMS or word in defined:
            continue
        if not (_is_shouted(reading, index) or (word.lower() in SHORT and _beside_shouting(reading, index))):
            continue
        around = reading.text[max(0, match.start() - 1) : match.start()] + reading.text[match.end() : match.end() + 1]
        if reading.is_held(*match.span()) or re.search(r"[\d_@#&.-]", around[:1] + around[1:].replace(".", "")):
            continue
        quiet = _quiet(reading, index)
        if quiet != word:
            yield Find(*match.span(), quiet, SHOUTING, STRENGTH[SHOUTING])


def _is_shouted(reading: Reading, index: int) -> bool:
    word = reading.words[index][0]
    if len(word) < SHOUTED_LETTERS or not re.search("[AEIOUYÄÖÜÉ]", word) or word in ACRONYMS:
        return False
    behind = reading.follows(index)
    part_of_a_name = behind[:1].isupper() and not behind.isupper() and not reading.begins_a_sentence(index)
    return word.lower() in lexicon() or reading.title_case or not part_of_a_name


def _beside_shouting(reading: Reading, index: int) -> bool:
    for other in (index - 1, index + 1):
        if 0 <= other < len(reading.words):
            word = reading.words[other][0]
            if word.isupper() and (_is_shouted(reading, other) or word.lower() in SHORT):
                return True
    return False


def _quiet(reading: Reading, index: int) -> str:
    word = reading.words[index][0]
    name = word[0] + word[1:].lower()
    named = name in reading.names or word.lower() in PLACES or reading.title_case
    return name if named or reading.begins_a_sentence(index) else word.lower()


def _cries(reading: Reading) -> Iterator[Find]:
    """Sentences such as "What a glorious day!": they judge and tell nothing. Not if it is all there is."""
    for index, word in enumerate(reading.words):
        cry = A_CRY.match(reading.text, word.start()) if word[0] in ("What", "How") else None
        if not cry or reading.is_held(*cry.span()) or not reading.begins_a_sentence(index):
            continue
        before, after = reading.text[: cry.start()], reading.text[cry.end() :]
        start = cry.start() if after.strip() else len(before.rstrip())
        blank = len(after) - len(after.lstrip()) if not before or before.endswith("\n") else 0
        if before.strip() or after.strip():
            yield Find(start, cry.end() + blank, "", CRY, STRENGTH[CRY])


def _exclamations(reading: Reading) -> Iterator[Find]:
    for mark in EXCLAMATION.finditer(reading.text):
        before, after = reading.text[: mark.start()], reading.text[mark.end() :]
        if reading.is_held(*mark.span()) or not before.strip() or _belongs_to_a_name(mark[0], before, after):
            continue
        now = "?" if "?" in mark[0] else "."
        ends_a_headline = reading.is_headline and now == "." and not after.strip()
        if reading.is_headline and now == "." and ":" not in before:
            now = ":"
        left = before.rstrip()
        if "\n" in before[len(left) :]:
            continue
        if "(" in mark[0] or left != before or before[-1] in ".?…,;:-–—([" or ends_a_headline:
            now = ""
        yield Find(len(left), mark.end(), now, PUNCTUATION, STRENGTH[PUNCTUATION])


def _belongs_to_a_name(mark: str, before: str, after: str) -> bool:
    """As in "the merger of Yahoo! and AOL"."""
    return mark == "!" and bool(re.search(r"\b[A-Z]\w*$", before[-near_chars:])) and bool(re.match(r"\s+[a-z]", after))


def _scare_quotes(reading: Reading) -> Iterator[Find]:
    for quote in reading.scared:
        yield Find(quote.start, quote.end, quote.inside(reading.text), SCARE_QUOTES, STRENGTH[SCARE_QUOTES])
