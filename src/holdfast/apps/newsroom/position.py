"""Where in its sentence an expression stands, as far as the words beside it tell: before a noun, as a verb, in a place
from which it can go.

There is no grammar here, only lists of the small words (data/words.txt). In doubt an expression is taken to stand
where it must be replaced, not where it may go.
"""

# ruff: noqa: RUF001 - typographic marks are what this is about

import re

from holdfast.apps.newsroom.lexicon import lexicon
from holdfast.apps.newsroom.reading import POSSESSIVE, Reading
from holdfast.apps.newsroom.wordlists import word_list

NO_NOUN = word_list("no nouns")
"""What cannot follow an adjective in front of its noun."""
NO_ATTRIBUTE = word_list("no attribute behind")
"""What an adjective behind it belongs to, or is compared by: "is absurd", "more absurd"."""
DETERMINERS = word_list("determiners")
BEFORE_A_VERB = word_list("before a verb")
NO_PLURALS = word_list("no plurals")
DEGREES = word_list("degrees")
NUMBERS = word_list("numbers")
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
    if (not behind and not in_marks) or behind in NO_NOUN or _says_it_all(reading, first, last):
        return False
    before, gap = _before(reading, first)
    if surely:
        return not gap.strip() and (before.lower() in DETERMINERS or bool(POSSESSIVE.search(before)))
    if reading.begins_a_sentence(first) or not before:
        return True
    if gap.strip():
        return "," not in gap
    return before.lower() not in NO_ATTRIBUTE and not before.lower().endswith("ly")


def _says_it_all(reading: Reading, first: int, last: int) -> bool:
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


def acts(reading: Reading, first: int) -> bool:
    """Whether a word that could be a noun is a verb here: behind "will", "they" or a plural."""
    before, gap = _before(reading, first)
    word = before.lower()
    if not word or gap.strip():
        return False
    a_plural = len(word) >= PLURAL_LETTERS and word.endswith("s") and not word.endswith(("ss", "us", "is", "'s", "’s"))
    return word in BEFORE_A_VERB or (a_plural and word not in NO_PLURALS) or before == "MPs"


def can_go(reading: Reading, first: int, start: int, end: int) -> bool:
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
    while at >= max(0, first - skipped_most_words) and _will_go(reading.words[at][0]) and reading.follows(at):
        at -= 1
    if at < 0:
        return "", ""
    return reading.words[at][0], reading.text[reading.words[at].end() : reading.words[at + 1].start()]


def _will_go(word: str) -> bool:
    return any(one.words == (word.lower(),) and not one.instead for one in lexicon().get(word.lower(), ()))
