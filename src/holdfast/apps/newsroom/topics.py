"""What an article is about, by a model that learns from the samples shipped with it, offline, when it is first asked.

The same article gets the same topic and confidence in every process: nothing is drawn by chance. It reads English only,
and it knows news only: of anything else its confidence is low, but not always low enough.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from holdfast.apps.newsroom.article import Article, Sorted
from holdfast.apps.newsroom.english import is_english

TOPICS = ("world", "politics", "business", "technology", "science", "health", "sport", "culture")
OTHER = "other"
words_least = 5
read_most_chars = 4_000
WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")


@dataclass(frozen=True)
class Sample:
    """A piece of news that we made up, and what it is about."""

    topic: str
    title: str
    text: str


def sort_articles(articles: Sequence[Article], min_confidence: float) -> tuple[list[Sorted], list[tuple[str, str]]]:
    """The topic of each article, and the ids of those that cannot be sorted, with the reason; both in their order.

    An article of whose topic the model is less sure than `min_confidence` is of the topic "other".
    """
    unsorted = {article.id: why for article in articles if (why := why_not(article))}
    readable = [article for article in articles if article.id not in unsorted]
    guesses = guess(model(), [(article.title, article.text) for article in readable])
    found = [
        Sorted(article.id, topic if confidence >= min_confidence else OTHER, confidence)
        for article, (topic, confidence) in zip(readable, guesses, strict=True)
    ]
    return found, list(unsorted.items())


def why_not(article: Article) -> str:
    """Why an article cannot be sorted; empty if it can."""
    words = [word.lower() for word in WORD.findall(f"{article.title} {article.text[:read_most_chars]}")]
    if len(words) < words_least:
        return f"It has fewer than {words_least} words."
    return "" if is_english(words) else "It is not in English."


@cache
def samples() -> tuple[Sample, ...]:
    """What the model learns from."""
    lines = files(__package__).joinpath("data/samples.jsonl").read_text("utf-8").splitlines()
    return tuple(Sample(**json.loads(line)) for line in lines if line)


@cache
def model() -> Any:
    """What has learned from all samples."""
    return learn(samples())


def learn(taught: Sequence[Sample]) -> Any:
    """A model of these samples: how often words and parts of words stand in each topic."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # type: ignore[import-untyped]
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
    from sklearn.pipeline import make_pipeline, make_union  # type: ignore[import-untyped]

    words = TfidfVectorizer(stop_words="english", sublinear_tf=True, strip_accents="unicode")
    parts = TfidfVectorizer(analyzer="char_wb", ngram_range=(4, 4), sublinear_tf=True, min_df=2)
    decide = LogisticRegression(C=20, random_state=0, max_iter=200)
    made = make_pipeline(make_union(words, parts), decide)
    return made.fit([as_read(sample.title, sample.text) for sample in taught], [sample.topic for sample in taught])


def guess(learned: Any, told: Sequence[tuple[str, str]]) -> list[tuple[str, float]]:
    """The likeliest topic of each title and text, and how likely it is."""
    if not told:
        return []
    chances = learned.predict_proba([as_read(title, text) for title, text in told])
    best = chances.argmax(axis=1)
    return [
        (str(learned.classes_[place]), round(float(row[place]), 4)) for row, place in zip(chances, best, strict=True)
    ]


def as_read(title: str, text: str) -> str:
    """The title counts twice: it says what the article is about."""
    return f"{title}\n{title}\n{text[:read_most_chars]}"
