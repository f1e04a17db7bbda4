"""Puts the articles of a day together: by topic, the newest first, each with its best sentences.

The same articles make the same brief: nothing here knows what time it is. A summary consists of sentences as they
stand in the article, in their order; it is not written again, so a pronoun may have lost whom it means.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast.apps.newsroom.article import OTHER, TOPICS, Article, Brief, Entry, Neutral, Section, Sorted
from holdfast.apps.newsroom.duplicates import newest_first
from holdfast.apps.newsroom.lexicon import WORD_LISTS
from holdfast.apps.newsroom.sentences import split_sentences

SHORT_WORDS = 4
WORD = re.compile(r"[^\W\d_]{3,}")
COMMON = WORD_LISTS["common"]


def assemble(
    articles: Sequence[Article], topics: Sequence[Sorted], neutral: Sequence[Neutral], sentences: int
) -> Brief:
    """The brief of these articles; one without a topic stands under "other", one without a neutral text as it came."""
    topic_of = {one.article: one.topic or OTHER for one in topics}
    neutral_of = Neutral.by_article(articles, neutral)
    newest = sorted(articles, key=newest_first)
    under: dict[str, list[Entry]] = {}
    for article in newest:
        entry = _entry(article, neutral_of[article.id], sentences)
        under.setdefault(topic_of.get(article.id, OTHER), []).append(entry)
    sections = tuple(Section(topic, tuple(under[topic])) for topic in sorted(under, key=_place))
    date = newest[0].published if newest else None
    return Brief(sections, date, tuple(sorted({one.source for one in articles})))


def summarize(title: str, text: str, sentences: int) -> str:
    """The best sentences, as they stand and in their order: early ones, and those that share words with the title."""
    topic = _words(title)
    plain_title = title.strip().rstrip(".!?").lower()
    found = [one for one in split_sentences(text) if one.rstrip(".!?").lower() != plain_title]

    def worth(place: int) -> float:
        words = _words(found[place])
        shared = len(words & topic) / len(topic) if topic else 0.0
        return 1 / (1 + place) + shared - (0.5 if len(found[place].split()) < SHORT_WORDS else 0.0)

    best = sorted(range(len(found)), key=lambda place: (-worth(place), place))[: max(sentences, 0)]
    return " ".join(found[place] for place in sorted(best))


def summary_of(brief: Brief) -> dict[str, Any]:
    """What a list of briefs shows of one."""
    return {
        "articles": len(brief.entries),
        "topics": {section.topic: len(section.entries) for section in brief.sections},
        "sources": len(brief.sources),
        "softened": sum(entry.softened for entry in brief.entries),
        "headline": _most_shared(brief.entries),
    }


def _most_shared(entries: Sequence[Entry]) -> str | None:
    """The title whose words most other entries share; the first of several."""
    counts = Counter(word for entry in entries for word in _words(f"{entry.title} {entry.summary}"))
    if not entries:
        return None
    return max(entries, key=lambda entry: sum(counts[word] - 1 for word in _words(entry.title))).title


def _entry(article: Article, neutral: Neutral, sentences: int) -> Entry:
    title = " ".join(neutral.title.split()) or next(iter(split_sentences(neutral.text)), "") or "Without a title"
    return Entry(
        article=article.id,
        title=title,
        source=article.source,
        summary=summarize(title, neutral.text, sentences),
        link=article.link,
        published=article.published,
        softened=len(neutral.changes),
    )


def _place(topic: str) -> tuple[bool, int, str]:
    return topic == OTHER, TOPICS.index(topic) if topic in TOPICS else len(TOPICS), topic


def _words(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text.lower())) - COMMON
