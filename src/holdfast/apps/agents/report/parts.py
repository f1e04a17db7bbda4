"""What a report is made of, apart from plots: sections, tables, badges, notices, facts, cards.

A tone is always said in words too, never by colour alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.apps.agents.report.markup import Html, joined, tag, text

Tone = Literal["high", "medium", "low", "good", "plain"]
MARKS: Mapping[str, str] = {"high": "▲", "medium": "◆", "low": "●", "good": "✓", "plain": ""}
WORDS: Mapping[str, str] = {"high": "High", "medium": "Medium", "low": "Low", "good": "Good", "plain": "Note"}


@dataclass(frozen=True)
class Figure:
    """A key figure: what it is, how much, and a word about it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Notice:
    """A sentence that somebody should read, with how much it matters and what it is about."""

    tone: Tone
    sentence: object
    subject: object = ""


def section(title: str, *content: object, lead: object = "", anchor: str | None = None) -> Html:
    """A part of the page with a heading."""
    heading = tag("h2", title)
    return tag("section", heading, tag("p", lead, class_="lead") if lead else "", *content, id=anchor)


def paragraph(*content: object, quiet: bool = False) -> Html:
    """A paragraph; quiet for what one need not read."""
    return tag("p", *content, class_="quiet" if quiet else None)


def badge(words: object, tone: Tone = "plain") -> Html:
    """A word in a frame."""
    mark = tag("span", MARKS[tone], aria_hidden="true") if MARKS[tone] else ""
    return tag("span", mark, words, class_=f"badge {tone}")


def key_figures(figures: Iterable[Figure]) -> Html:
    """Figures side by side."""
    cells = (
        tag("div", tag("dt", one.label), tag("dd", one.value, tag("small", one.note) if one.note else ""))
        for one in figures
    )
    return tag("dl", *cells, class_="figures")


def notices(given: Sequence[Notice], nothing: str = "Nothing stands out.") -> Html:
    """Notices as a list; a sentence if there are none."""
    if not given:
        return tag("p", badge("Good", "good"), " ", nothing)
    rows = (
        tag(
            "li",
            badge(WORDS[one.tone], one.tone),
            tag("div", tag("strong", one.subject, ": ") if one.subject else "", one.sentence),
        )
        for one in given
    )
    return tag("ul", *rows, class_="notices")


def table(
    head: Sequence[object], rows: Iterable[Sequence[object]], numeric: Iterable[int] = (), caption: object = ""
) -> Html:
    """A table, scrolled by itself when it is too wide. `numeric`: the places of columns aligned to the right."""
    right = set(numeric)

    def cells(row: Sequence[object]) -> Html:
        return joined(
            tag("th", cell, scope="row") if place == 0 else tag("td", cell, class_="number" if place in right else None)
            for place, cell in enumerate(row)
        )

    names = (
        tag("th", name, scope="col", class_="number" if place in right else None) for place, name in enumerate(head)
    )
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption) if caption else "",
            tag("thead", tag("tr", *names)),
            tag("tbody", *(tag("tr", cells(row)) for row in rows)),
        ),
        class_="wide",
        tabindex="0",
        role="region",
        aria_label=str(caption) or "Table",
    )


def facts(given: Iterable[tuple[object, object]]) -> Html:
    """Names with their values, one under the other."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", said)) for name, said in given), class_="facts")


def strip(given: Iterable[tuple[object, object]], label: str) -> Html:
    """A few names with their values, side by side, such as quantiles under a histogram."""
    pairs = list(given)
    names = tag("tr", *(tag("th", name, scope="col") for name, _ in pairs))
    return tag("table", tag("thead", names), tag("tbody", tag("tr", *(tag("td", said) for _, said in pairs))),
               class_="quantiles", aria_label=label)  # fmt: skip


def card(title: object, *content: object, badges: Iterable[Html] = (), anchor: str | None = None) -> Html:
    """A framed part about one thing, such as a column."""
    head = tag("header", tag("h3", title), tag("span", *spaced(badges), class_="badges"))
    return tag("article", head, *content, class_="card", id=anchor)


def columns(*content: object) -> Html:
    """Parts side by side where there is room, one under the other where there is not."""
    return tag("div", *(tag("div", one) for one in content), class_="columns")


def details(summary: object, *content: object) -> Html:
    """Something to open by a click; it needs no script, and it is open on paper."""
    return tag("details", tag("summary", summary), *content)


def spaced(parts: Iterable[object]) -> Iterable[Html]:
    for part in parts:
        yield text(part)
        yield Html(" ")
