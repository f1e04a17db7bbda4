"""The figures of a brief: what raises them, what lowers them, and nothing to divide by."""

import pytest

from holdfast.apps.newsroom.article import Article, Evaluation, Neutral, Sorted
from holdfast.apps.newsroom.brief import assemble
from holdfast.apps.newsroom.evaluation import count_syllables, evaluate, reading_ease
from holdfast.apps.newsroom.neutralize import loadedness, soften

TEXT = "The mayor slammed a shocking plan. The council met again on the next day. Nobody came. It rained."
ARTICLES = [Article(f"a{number}", "Courier", "Mayor slams plan", TEXT) for number in range(4)]


def figures(*topics: tuple[str, float], softening: float = 0.5, sentences: int = 2, missing: int = 0) -> Evaluation:
    found = [Sorted(f"a{number}", topic, confidence) for number, (topic, confidence) in enumerate(topics)]
    neutral = [soften(article, softening) for article in ARTICLES]
    return evaluate(ARTICLES, found, neutral, assemble(ARTICLES[missing:], found, neutral, sentences))


SURE = [("world", 0.9)] * 4


def test_coverage_counts_articles_under_a_topic_whole_and_under_other_half() -> None:
    assert figures(*SURE).coverage == 1.0
    assert figures(("world", 0.9), ("sport", 0.4), ("other", 0.2), ("other", 0.2)).coverage == 0.75
    assert figures().coverage == 0.5
    assert figures(*SURE, missing=1).coverage == 0.75


def test_neutrality_is_that_of_titles_and_texts_before_and_after() -> None:
    found = figures(*SURE)
    assert found.neutrality_before < found.neutrality_after == 1.0
    assert found.neutrality_before == pytest.approx(1 - loadedness(f"Mayor slams plan\n\n{TEXT}"))
    untouched = figures(*SURE, softening=1.0)
    assert untouched.neutrality_before == untouched.neutrality_after == found.neutrality_before


def test_a_topic_of_which_the_model_is_hardly_sure_is_worth_less_than_none() -> None:
    unsure = figures(*SURE[:3], ("world", 0.25)).score
    honest = figures(*SURE[:3], ("other", 0.25)).score
    assert unsure < honest < figures(*SURE[:3], ("world", 0.4)).score


def test_a_change_that_makes_nothing_more_neutral_costs() -> None:
    topics = [Sorted(article.id, "world", 0.9) for article in ARTICLES]
    plain = [soften(article, 0.5) for article in ARTICLES]
    fussy = [Neutral(one.article, one.title, one.text, [*one.changes, *one.changes]) for one in plain]
    brief = assemble(ARTICLES, topics, plain, 2)
    assert evaluate(ARTICLES, topics, fussy, brief).score < evaluate(ARTICLES, topics, plain, brief).score


def test_without_articles_or_words_every_figure_is_there() -> None:
    nothing = assemble([], [], [], 2)
    assert evaluate([], [], [], nothing) == Evaluation(0, 0, 0, 0, 0, 0)
    silent = [Article("a", "Courier", "", "")]
    found = evaluate(silent, [], [], assemble(silent, [], [], 2))
    assert (found.coverage, found.neutrality_before, found.readability) == (0.5, 1.0, 0.0)
    missing = evaluate(ARTICLES, [], [], nothing)
    assert (missing.coverage, missing.readability, missing.grade) == (0.0, 0.0, 0.0)
    assert all(0 <= one.score <= 1 for one in (found, missing))


@pytest.mark.parametrize(
    ("word", "syllables"),
    [
        *[("cat", 1), ("the", 1), ("make", 1), ("table", 2), ("walked", 1), ("wanted", 2), ("houses", 2)],
        *[("minister", 3), ("nation", 2), ("politician", 4), ("criticism", 4), ("reading", 2), ("going", 2)],
        *[("strength", 1), ("beyond", 2), ("economy", 4), ("mayor's", 2), ("media", 3), ("makes", 1), ("2026", 1)],
    ],
)  # fmt: skip
def test_syllables_of_common_words_are_counted(word: str, syllables: int) -> None:
    assert count_syllables(word) == syllables


def test_short_words_in_short_sentences_read_more_easily() -> None:
    ease, grade = reading_ease(["The cat sat on the mat. It was fat."])
    # 9 words of one syllable in 2 sentences, by Flesch's formulas.
    assert ease == pytest.approx(206.835 - 1.015 * 4.5 - 84.6)
    assert grade == max(0.39 * 4.5 + 11.8 - 15.59, 0)
    hard, years = reading_ease(["Extraordinary administrative complications necessitated international deliberation."])
    assert hard < 0 < 20 < years
