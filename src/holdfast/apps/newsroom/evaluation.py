"""How good a brief is, in figures from 0 to 1.

- coverage: the share of the articles that stand in the brief under a topic; one under "other" counts half.
- neutrality: 1 - loadedness of all titles and texts, before and after softening (neutralize.py).
- readability: Flesch reading ease of the summaries, 0 and less as 0, 100 and more as 1. `grade` is Flesch-Kincaid,
  the years of school that a reader needs. Both know only the length of sentences and words: nonsense in short words
  reads well. Syllables are counted by groups of vowels, which is a guess; for other languages the figure means
  little.
- score: 0.45 sureness + 0.3 neutrality after + 0.15 readability + 0.1 telling, less 0.5 for each word changed per
  word read and 0.012 for each sentence that the mean entry has beyond its first; never below 0. sureness is
  coverage by the model's own confidence: an article covers as much as the model is sure of its topic, under "other"
  0.3. telling is the square root of the share of an article's words that its summary has.

So each threshold has a best value: a low one for the topic puts articles where the model is less than 0.3 sure of
them; to soften the mildest words gains less neutrality than the changes cost; each further sentence tells
less than the one before it and costs the same. The weights are a choice, not a measurement. Without articles all
figures are 0.

`improve` looks for better thresholds: one after the other is moved to where the score is best, until none moves.
Always by rules, also where a model softens the articles: a search that asks it hundreds of times would cost more
than it gains. What was found and what is tried are therefore compared by rules too. Deterministic: the same articles
lead to the same thresholds, and to search again from there leads nowhere else. It finds a summit, not always the
highest.
"""

# ruff: noqa: RUF001 - typographic marks are what this is about

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from holdfast.apps.newsroom.article import OTHER, Article, Brief, Entry, Evaluation, Neutral, Sorted, Thresholds
from holdfast.apps.newsroom.brief import assemble
from holdfast.apps.newsroom.neutralize import loadedness, soften
from holdfast.apps.newsroom.sentences import split_sentences

SURENESS, NEUTRALITY, READABILITY, TELLING = 0.45, 0.3, 0.15, 0.1
OTHER_COUNTS, OTHER_COVERS = 0.5, 0.3
COST_OF_A_CHANGED_WORD = 0.5
COST_OF_A_SENTENCE = 0.012
WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
VOWELS = re.compile(r"[aeiouyäöüéèáíóú]+")
EMPTY = Evaluation(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def evaluate(
    articles: Sequence[Article], topics: Sequence[Sorted], neutral: Sequence[Neutral], brief: Brief
) -> Evaluation:
    """The figures of a brief that was made of these."""
    if not articles:
        return EMPTY
    neutral_of = Neutral.by_article(articles, neutral)
    before = [part for article in articles for part in (article.title, article.text)]
    after = [part for article in articles for part in (neutral_of[article.id].title, neutral_of[article.id].text)]
    neutrality_before, neutrality_after = 1 - loadedness(*before), 1 - loadedness(*after)
    ease, grade = reading_ease(entry.summary for entry in brief.entries)
    readability = min(max(ease / 100, 0.0), 1.0)
    under = {entry.article: section.topic for section in brief.sections for entry in section.entries}
    stand = [(article.id, under[article.id]) for article in articles if article.id in under]
    coverage = sum(OTHER_COUNTS if topic == OTHER else 1.0 for _, topic in stand) / len(articles)
    confidence = {one.article: one.confidence for one in topics}
    sureness = sum(OTHER_COVERS if topic == OTHER else confidence.get(one, 0.0) for one, topic in stand) / len(articles)
    score = (
        SURENESS * sureness
        + NEUTRALITY * neutrality_after
        + READABILITY * readability
        + TELLING * _share_of_telling(neutral_of, brief.entries)
        - COST_OF_A_CHANGED_WORD * _changed_per_word(before, neutral)
        - COST_OF_A_SENTENCE * _sentences_beyond_the_first(brief.entries)
    )
    return Evaluation(coverage, neutrality_before, neutrality_after, readability, grade, min(max(score, 0.0), 1.0))


def reading_ease(texts: Iterable[str]) -> tuple[float, float]:
    """Flesch reading ease and Flesch-Kincaid grade of texts together; (0, 0) if they have no words."""
    sentences, words, syllables = 0, 0, 0
    for text in texts:
        spoken = WORD.findall(text)
        words += len(spoken)
        syllables += sum(map(count_syllables, spoken))
        sentences += len(split_sentences(text))
    if not words:
        return 0.0, 0.0
    per_sentence, per_word = words / max(sentences, 1), syllables / words
    ease = 206.835 - 1.015 * per_sentence - 84.6 * per_word
    return ease, max(0.39 * per_sentence + 11.8 * per_word - 15.59, 0.0)


def count_syllables(word: str) -> int:
    """The groups of vowels, without a silent e at the end; at least 1. A guess."""
    word = word.lower().removesuffix("'s").removesuffix("’s")
    groups = len(VOWELS.findall(re.sub(r"(?<=[aeiou])y(?=[aeiou])", "j", word)))
    if re.search(r"[^aeiouyl]e$|[^aeiou]es$|[^aeioutd]ed$", word) and not re.search(r"(?:s|x|z|ch|sh|[cg])es$", word):
        groups -= 1
    if re.search(r"[^aeiou]ism$|[aeiou]ing$|i[ao]n?$(?<!tion)(?<!sion)(?<!cian)", word):
        groups += 1
    return max(groups, 1)


def _share_of_telling(neutral_of: Mapping[str, Neutral], entries: Sequence[Entry]) -> float:
    words = {name: len(WORD.findall(neutral.text)) for name, neutral in neutral_of.items()}
    shares = [
        min(len(WORD.findall(entry.summary)) / words[entry.article], 1.0)
        for entry in entries
        if words.get(entry.article)
    ]
    return sum(map(math.sqrt, shares)) / len(shares) if shares else 0.0


def _changed_per_word(texts: Sequence[str], neutral: Sequence[Neutral]) -> float:
    words = sum(len(WORD.findall(text)) for text in texts)
    changed = sum(max(len(change.was.split()), 1) for one in neutral for change in one.changes)
    return changed / words if words else 0.0


def _sentences_beyond_the_first(entries: Sequence[Entry]) -> float:
    lengths = [len(split_sentences(entry.summary)) for entry in entries]
    return sum(max(length - 1, 0) for length in lengths) / len(lengths) if lengths else 0.0


TRIED: Mapping[str, Sequence[Any]] = {
    "min_confidence": (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6),
    "softening": (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
    "sentences": (1, 2, 3, 4),
}
GAIN_LEAST = 0.005
ROUNDING = 1e-9


def improve(
    articles: Sequence[Article], sort: Callable[[float], Sequence[Sorted]], now: Thresholds, found: Evaluation
) -> tuple[Thresholds, Evaluation]:
    """Better thresholds and their figures; `now` and `found` if none is better by at least 0.005.

    `sort` gives the topics if an article needs that much confidence.
    """
    sorted_by = cache(sort)
    softened_by = cache(lambda softening: [soften(article, softening) for article in articles])

    @cache
    def figures(tried: Thresholds) -> Evaluation:
        topics, neutral = sorted_by(tried.min_confidence), softened_by(tried.softening)
        return evaluate(articles, topics, neutral, assemble(articles, topics, neutral, tried.sentences))

    best = _climb(now, lambda tried: figures(tried).score)
    if figures(best).score - figures(now).score < GAIN_LEAST:
        return now, found
    return best, figures(best)


def _climb(start: Thresholds, score: Callable[[Thresholds], float]) -> Thresholds:
    """From summit to summit of a single threshold, until none of the three leads higher."""
    best, moved = start, True
    while moved:
        moved = False
        for name, values in TRIED.items():
            around = best
            for value in sorted(values, key=lambda value: (abs(value - getattr(around, name)), value)):
                tried = replace(around, **{name: value})
                if score(tried) > score(best) + ROUNDING:
                    best, moved = tried, True
    return best
