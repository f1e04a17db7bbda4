"""Looks for better thresholds: one after the other is moved to where the score (evaluation.py) is best, until none
moves.

Always by rules, also where a model softens the articles: a search that asks it hundreds of times would cost more
than it gains. What was found and what is tried are therefore compared by rules too. Deterministic: the same articles
lead to the same thresholds, and to search again from there leads nowhere else. It finds a summit, not always the
highest.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from holdfast.apps.newsroom.article import Article, Evaluation, Neutral, Sorted, Thresholds
from holdfast.apps.newsroom.brief import assemble
from holdfast.apps.newsroom.evaluation import evaluate
from holdfast.apps.newsroom.neutralize import soften

MIN_CONFIDENCE = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6)
SOFTENING = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
SENTENCES = (1, 2, 3, 4)
GAIN_LEAST = 0.005
ROUNDING = 1e-9


def improve(
    articles: Sequence[Article], sort: Callable[[float], Sequence[Sorted]], now: Thresholds, found: Evaluation
) -> tuple[Thresholds, Evaluation]:
    """Better thresholds and their figures; `now` and `found` if none is better by at least 0.005.

    `sort` gives the topics if an article needs that much confidence.
    """

    @cache
    def sorted_by(min_confidence: float) -> Sequence[Sorted]:
        return sort(min_confidence)

    @cache
    def softened_by(softening: float) -> Sequence[Neutral]:
        return [soften(article, softening) for article in articles]

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
        for among in (_confidences, _softenings, _lengths):
            for tried in among(best):
                if score(tried) > score(best) + ROUNDING:
                    best, moved = tried, True
    return best


def _confidences(around: Thresholds) -> Iterator[Thresholds]:
    nearest = sorted(MIN_CONFIDENCE, key=lambda value: (abs(value - around.min_confidence), value))
    return (replace(around, min_confidence=value) for value in nearest)


def _softenings(around: Thresholds) -> Iterator[Thresholds]:
    nearest = sorted(SOFTENING, key=lambda value: (abs(value - around.softening), value))
    return (replace(around, softening=value) for value in nearest)


def _lengths(around: Thresholds) -> Iterator[Thresholds]:
    nearest = sorted(SENTENCES, key=lambda value: (abs(value - around.sentences), value))
    return (replace(around, sentences=value) for value in nearest)
