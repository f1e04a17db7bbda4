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

from holdfast.apps.newsroom.article import OTHER, Article, Sorted

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
    unsorted = {article.id: why for article in articles if (why := reason_to_refuse(article))}
    readable = [article for article in articles if article.id not in unsorted]
    guesses = guess(model(), [(article.title, article.text) for article in readable])
    found = [
        Sorted(article.id, topic if confidence >= min_confidence else OTHER, confidence)
        for article, (topic, confidence) in zip(readable, guesses, strict=True)
    ]
    return found, list(unsorted.items())


def reason_to_refuse(article: Article) -> str:
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


def guess(learned: Any, texts: Sequence[tuple[str, str]]) -> list[tuple[str, float]]:
    """The likeliest topic of each title and text, and how likely it is."""
    if not texts:
        return []
    likelihoods = learned.predict_proba([as_read(title, text) for title, text in texts])
    best = likelihoods.argmax(axis=1)
    return [
        (str(learned.classes_[place]), round(float(row[place]), 4))
        for row, place in zip(likelihoods, best, strict=True)
    ]


def as_read(title: str, text: str) -> str:
    """The title counts twice: it says what the article is about."""
    return f"{title}\n{title}\n{text[:read_most_chars]}"


# Whether a text is in English is decided by its small words; of a text without any it cannot be decided.
ENGLISH = """
    the of and to a in is was for on that with as at by it be are were has have had from this which will would not but
    their they he she his her its an or who said after than more been about into could should there when while
"""
FOREIGN = """
    der die das und ist nicht ein eine einen dem den des mit auf für von zu im sich auch wird wurde bei nach aus über
    le la les des et est une du dans qui que pour pas sur au aux avec ce cette sont ont été par plus selon
    el los las y en un una del por con para se su lo como más pero fue sus al
    il di che è per non gli della delle nel sono alla anche dei
    de het een van dat niet zijn voor met op ook wordt naar aan bij uit
    o os as em não uma dos da das na nos são com foi mais
    och att det som är på av för inte till den med har ett jag og af til ikke kan
"""
ENGLISH_WORDS = frozenset(ENGLISH.split())
FOREIGN_WORDS = frozenset(FOREIGN.split()) - ENGLISH_WORDS
headline_most_words = 20


def is_english(words: Sequence[str]) -> bool:
    """Of words in lower case. A headline may have no small words, or one in a name: it is taken for English."""
    english = sum(word in ENGLISH_WORDS for word in words)
    foreign = sum(word in FOREIGN_WORDS for word in words)
    if foreign > max(english, 1) or sum(word.isascii() for word in words) < 0.7 * len(words):
        return False
    return english >= 0.1 * len(words) or len(words) < headline_most_words
