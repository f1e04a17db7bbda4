"""What goes from stage to stage of the newsroom: one frozen class for what each of them makes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

TOPICS = ("world", "politics", "business", "technology", "science", "health", "sport", "culture")
"""In the order in which a brief has them."""
OTHER = "other"


@dataclass(frozen=True)
class Article:
    """An article as a feed brought it, in plain text."""

    id: str
    source: str
    title: str
    text: str
    link: str | None = None
    published: datetime | None = None


@dataclass(frozen=True)
class Ingested:
    """The articles of all feeds, each once; the newest first."""

    articles: Sequence[Article]
    feeds: int
    duplicates: int


@dataclass(frozen=True)
class Sorted:
    """The topic of an article, and how sure the model is of it, from 0 to 1."""

    article: str
    topic: str
    confidence: float


@dataclass(frozen=True)
class Change:
    """A loaded expression, and what stands in its place now. Empty: it was left out."""

    was: str
    now: str
    kind: str


@dataclass(frozen=True)
class Neutral:
    """An article whose loaded language is softened. Facts, names, numbers and quotes are as they were."""

    article: str
    title: str
    text: str
    changes: Sequence[Change] = ()

    @classmethod
    def by_article(cls, articles: Sequence[Article], softened: Sequence["Neutral"]) -> dict[str, "Neutral"]:
        """Each article by its id: softened, or as it came."""
        came = {article.id: cls(article.id, article.title, article.text) for article in articles}
        return came | {one.article: one for one in softened}


@dataclass(frozen=True)
class Entry:
    """An article in the brief."""

    article: str
    title: str
    source: str
    summary: str
    link: str | None = None
    published: datetime | None = None
    softened: int = 0


@dataclass(frozen=True)
class Section:
    """The entries of a topic."""

    topic: str
    entries: Sequence[Entry]


@dataclass(frozen=True)
class Brief:
    """What the readers get. `date` is of the newest article: the same articles make the same brief."""

    sections: Sequence[Section]
    date: datetime | None
    sources: Sequence[str]

    @property
    def entries(self) -> list[Entry]:
        """Those of all sections."""
        return [entry for section in self.sections for entry in section.entries]


@dataclass(frozen=True)
class Evaluation:
    """How good a brief is, each from 0 to 1, more being better; readability also as years of school."""

    coverage: float
    neutrality_before: float
    neutrality_after: float
    readability: float
    grade: float
    score: float


@dataclass(frozen=True)
class Thresholds:
    """What OPTIMIZATION may turn."""

    min_confidence: float = 0.35
    """An article of which the model is less sure goes under "other"."""
    softening: float = 0.5
    """How loaded an expression must be to be softened: 0 softens all that is known, 1 nothing."""
    sentences: int = 2
    """How many sentences of an article stand in the brief."""
