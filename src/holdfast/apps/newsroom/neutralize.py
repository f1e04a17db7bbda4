"""Softens loaded language by rules, offline: the same article always becomes the same text.

What people are quoted to have said, names, numbers and links stay as they are, to the letter. What is softened once
is left alone the second time. The rules know words, not meanings: they do not see irony, an insinuation in neutral
words, or a one-sided choice of facts, and now and then they take the edge off a word that was meant literally.
HOLDFAST_NEUTRALIZER puts a model in their place (rewriter.py).

loadedness = 1 - exp(-10 x), x being the strengths of all that is loaded, divided by the words: one expression of 0.7
in ten words makes 0.5, one in a hundred 0.07. A text without words is not loaded.
"""

# ruff: noqa: RUF001 - typographic marks are what this is about

import math
import re
from collections.abc import Sequence
from functools import lru_cache

from holdfast.apps.newsroom.article import Article, Change, Neutral
from holdfast.apps.newsroom.loaded import PUNCTUATION, SCARE_QUOTES, SHOUTING, Find, spot
from holdfast.apps.newsroom.reading import WORD, Reading, names_in, read

PASSES_MOST = 12
near_chars = 40
"""How far a comma, a conjunction or an article is looked for: a text of one word repeated must not take minutes."""
STEEPNESS_PER_WORD = 10.0
AN_ADVERB = re.compile(r"[^\W\d_]+ly\b")
ARTICLE = re.compile(r"(?<![\w'’.-])(an?|An?)(\s+)$")
SOUNDS_LIKE_A_CONSONANT = re.compile(
    r"uni(?:[^mnd]|$)|us[aeiu]|ut[ei]|eu|ew|one\b|one-|once|ubiq|u[krl][aeiou]", re.IGNORECASE
)
SILENT_H = re.compile(r"hour|honest|honou?r|heir", re.IGNORECASE)
SPELT_WITH_A_VOWEL = "AEFHILMNORSX"


def soften(article: Article, softening: float) -> Neutral:
    """The article without what is loaded by at least `softening`, and all that was changed."""
    text, changed = _soften_text(article.text, softening, frozenset(), headline=False)
    title, renamed = _soften_text(article.title, softening, names_in(read(text)), headline=True)
    return Neutral(article.id, title, text, tuple(renamed + changed))


def loadedness(*texts: str) -> float:
    """How loaded texts are together, from 0 to 1."""
    weight, words = 0.0, 0
    for text in texts:
        loaded, length = _weigh(text)
        weight += loaded
        words += length
    return 1 - math.exp(-STEEPNESS_PER_WORD * weight / words) if words else 0.0


@lru_cache(maxsize=2048)
def _weigh(text: str) -> tuple[float, int]:
    """The strengths of what is loaded, and the words; kept, since OPTIMIZATION asks for the same texts often."""
    reading = read(text)
    return sum(find.strength for find in spot(reading)), len(reading.words)


def _soften_text(text: str, softening: float, names: frozenset[str], *, headline: bool) -> tuple[str, list[Change]]:
    """Again and again until nothing is found: what is left out may bring two words together that are loaded."""
    changes: list[Change] = []
    for _ in range(PASSES_MOST):
        reading = read(text, names=names, headline=headline)
        finds = [find for find in spot(reading) if find.strength >= softening]
        if not finds:
            break
        replaced, done = _replace(reading, finds)
        changes += [Change(text[find.start : find.end].strip(), find.now, find.kind) for find in done]
        text = replaced
    return text, changes


def _replace(reading: Reading, finds: Sequence[Find]) -> tuple[str, list[Find]]:
    """The text with what was found replaced, and the blanks, commas and articles around it put right; and what was.

    Of two that share a blank, the second is left for the next time.
    """
    made, done = "", 0
    capital = False
    taken: list[Find] = []
    for index, find in enumerate(finds):
        behind = finds[index + 1] if index + 1 < len(finds) else None
        reach = _reach(reading.text, find, behind, done) if find.start >= done else None
        if reach is None:
            continue
        start, end = reach
        taken.append(find)
        piece = _begin_piece(reading, done, start, capital)
        made += piece
        capital = capital and not piece
        now = find.now
        if not now and find.kind != PUNCTUATION:
            capital = capital or reading.text[find.start].isupper()
        elif capital and now:
            now, capital = now[0].upper() + now[1:], False
        rest = now or reading.text[end : end + near_chars]
        if find.kind not in (PUNCTUATION, SHOUTING, SCARE_QUOTES):
            made = _with_the_right_article(made, rest)
        made += now
        done = end
    return made + _begin_piece(reading, done, len(reading.text), capital), taken


def _begin_piece(reading: Reading, start: int, end: int, capital: bool) -> str:
    """A piece of the text; with a capital if it has become the beginning of a sentence with a plain word."""
    piece = reading.text[start:end]
    word = WORD.match(piece)
    if not capital or not word or not word[0].islower() or reading.is_held(start, start + 1):
        return piece
    return piece[0].upper() + piece[1:]


def _reach(text: str, find: Find, behind: Find | None, done: int) -> tuple[int, int] | None:
    """From where to where text goes when an expression does: its blank, and commas and conjunctions that held it.

    None if that reaches back into what is done.
    """
    start, end = find.start, find.end
    if find.now or find.kind == PUNCTUATION:
        return start, end
    goes_too = behind is not None and not behind.now and behind.kind != PUNCTUATION
    link = re.compile(r",?\s+(?:and|or|but)\s+|,\s+").match(text, end)
    if link and ((goes_too and behind and behind.start == link.end()) or AN_ADVERB.match(text, link.end())):
        return start, link.end()  # "brutally and quickly removed", but not "failed utterly and left"
    near = max(0, start - near_chars)
    joined = re.compile(r"ly,?( (?:and|or|but)) $").search(text, near, start)
    if joined and joined.start(1) >= done and re.compile(r"\s+\w").match(text, end):
        return joined.start(1), end
    comma_before = re.compile(r"[^\S\n]*,\s+$").search(text, near, start)
    comma_behind = re.compile(r",\s+").match(text, end)
    if comma_behind and (find.start == 0 or text[find.start].isupper()):
        return start, comma_behind.end()
    if comma_before and comma_behind and comma_before.start() >= done:
        return comma_before.start(), end + 1
    blank = re.compile(r"[^\S\n]+(?=\S)").match(text, end)
    if blank:
        return start, blank.end()
    left = text[:start].rstrip(" \t")
    left = left.rstrip(", \t") if comma_before else left
    return (len(left), end) if len(left) >= done else None


def _with_the_right_article(before: str, rest: str) -> str:
    article = ARTICLE.search(before, max(0, len(before) - near_chars))
    following = re.match(r"[\"“‘'(]*(\w+)", rest)
    if not article or not following:
        return before
    if article[1][0] == "A" and re.search(r"\w\s*$", before[max(0, article.start() - near_chars) : article.start()]):
        return before  # a letter, as in "group A"
    right = article[1][0] + ("n" if _takes_an(following[1]) else "")
    return before[: article.start()] + right + article[2]


def _takes_an(word: str) -> bool:
    if word[0].isdigit():
        return word.startswith("8") or word in ("11", "18")
    if word.isupper() and len(word) > 1:
        return word[0] in SPELT_WITH_A_VOWEL
    if SILENT_H.match(word):
        return True
    return word[0].lower() in "aeiou" and not SOUNDS_LIKE_A_CONSONANT.match(word)
