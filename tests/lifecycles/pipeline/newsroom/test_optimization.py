"""Better thresholds: they lie inside, do not depend on chance, and are found once."""

from collections.abc import Sequence

import pytest

from holdfast.apps.newsroom.article import Article, Evaluation, Sorted, Thresholds
from holdfast.apps.newsroom.brief import assemble
from holdfast.apps.newsroom.evaluation import TRIED, evaluate, improve
from holdfast.apps.newsroom.neutralize import soften

CONFIDENCES = [0.95, 0.8, 0.55, 0.42, 0.34, 0.27, 0.24, 0.22]
TEXT = (
    "The mayor slammed a shocking plan on Monday after a dramatic week of debate. A massive majority of the council "
    "met again on the next day. It vowed to build the bridge by 2030. The ferry goes on until then. A stark report was "
    "read. Nobody came from the islands. The weather was bad. The session ended at nine. The next one is in May."
)
ARTICLES = [Article(f"a{number}", "Courier", "Mayor slams plan", TEXT) for number in range(len(CONFIDENCES))]


def sort(min_confidence: float) -> Sequence[Sorted]:
    return [
        Sorted(article.id, "world" if confidence >= min_confidence else "other", confidence)
        for article, confidence in zip(ARTICLES, CONFIDENCES, strict=True)
    ]


def figures(tried: Thresholds) -> Evaluation:
    topics, neutral = sort(tried.min_confidence), [soften(article, tried.softening) for article in ARTICLES]
    return evaluate(ARTICLES, topics, neutral, assemble(ARTICLES, topics, neutral, tried.sentences))


def improved(now: Thresholds) -> tuple[Thresholds, Evaluation]:
    return improve(ARTICLES, sort, now, figures(now))


FAR = [Thresholds(0.6, 0.8, 4), Thresholds(0.2, 0.2, 1), Thresholds(0.6, 0.2, 4), Thresholds(0.47, 0.77, 3)]


@pytest.mark.parametrize("now", FAR)
def test_thresholds_that_are_far_off_are_improved_and_then_stay(now: Thresholds) -> None:
    better, found = improved(now)
    assert found.score >= figures(now).score + 0.005
    assert found == figures(better)
    assert improve(ARTICLES, sort, better, found) == (better, found)


def test_the_best_lies_inside_and_not_at_an_end_of_what_is_tried() -> None:
    better, found = improved(Thresholds(0.6, 0.8, 4))
    assert all(values[0] < getattr(better, name) < values[-1] for name, values in TRIED.items())
    for value in (0.2, 0.6):
        assert figures(Thresholds(value, better.softening, better.sentences)).score < found.score
    assert figures(Thresholds(better.min_confidence, 0.2, better.sentences)).score <= found.score
    assert figures(Thresholds(better.min_confidence, 0.8, better.sentences)).score < found.score
    for sentences in (1, 4):
        assert figures(Thresholds(better.min_confidence, better.softening, sentences)).score < found.score


def test_a_gain_too_small_to_tell_changes_nothing() -> None:
    better, found = improved(FAR[0])
    near = Thresholds(better.min_confidence + 0.001, better.softening, better.sentences)
    given = figures(near)
    assert found.score - given.score < 0.005
    assert improve(ARTICLES, sort, near, given) == (near, given)


def test_without_articles_all_stays_as_it_is() -> None:
    nothing = Evaluation(0, 0, 0, 0, 0, 0)
    assert improve([], lambda _: [], Thresholds(), nothing) == (Thresholds(), nothing)
