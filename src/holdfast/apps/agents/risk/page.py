"""The report of score-risk, for people."""

from collections.abc import Mapping
from typing import Any

from holdfast.apps.agents.report import (
    Band,
    Figure,
    Html,
    Notice,
    Tone,
    badge,
    bars,
    card,
    columns,
    counted,
    facts,
    gauge,
    joined,
    notices,
    number,
    page,
    paragraph,
    section,
    share,
    tag,
    text,
    value,
)

LEVELS: Mapping[str, tuple[str, Tone]] = {
    "low": ("Low risk", "good"),
    "moderate": ("Moderate risk", "low"),
    "high": ("High risk", "medium"),
    "critical": ("Critical risk", "high"),
}
WORDS = {
    "rows": "Rows", "share": "Share", "within_text": "Inside longer texts", "distinct": "Different values",
    "categories": "Categories concerned", "written_as_words": "Written as words", "columns": "Columns",
    "below": "Below", "above": "Above", "low_fence": "Usual from", "high_fence": "Usual to", "median": "Median",
    "farthest_deviations": "Farthest, in robust deviations", "correlation": "Correlation",
    "determination": "Uncertainty it removes", "missing_tells": "Uncertainty its absence removes", "target": "Target",
    "other": "Same as", "formats": "Formats", "scale": "Scale",
}  # fmt: skip
shown_first = 5


def render(said: Mapping[str, Any]) -> str:
    """The page, from what risk.json says."""
    parts = said["parts"]
    found = [one for part in parts for one in part["findings"]]
    rows = said["rows"]
    how = "All rows were looked at." if not rows["sampled"] else (
        f"Content was looked at in a sample of {counted(rows['looked_at'], 'row')}; missing, repeated and outlying "
        "values are counted over all rows."
    )  # fmt: skip
    return page(
        f"Risk of {said['file']}",
        section("The score", _score(said), anchor="score"),
        section("What to do first", _first(found), anchor="first"),
        *(_part(part) for part in parts),
        _about(said),
        subtitle=f"How risky it is to use or to share this table. {how}",
        figures=[
            Figure("Rows", number(rows["total"])),
            Figure("Columns", number(said["columns"])),
            Figure("Findings", number(len(found))),
            Figure("Columns concerned", number(len({one["column"] for one in found if one["column"]}))),
        ],
        contents=[("score", "Score"), ("first", "First"), *((part["name"], part["title"]) for part in parts)],
        foot="Values that look personal are masked in this report. A low score says that nothing was seen, not that "
        "nothing is there.",
    )


def _score(said: Mapping[str, Any]) -> Html:
    limits = said["options"]["thresholds"]
    borders = [limits["moderate"], limits["high"], limits["critical"], 100]
    bands = [Band(up_to, tone, label) for up_to, (label, tone) in zip(borders, LEVELS.values(), strict=True)]
    # A score on the border belongs to the higher level, and the gauge takes it for the lower one.
    shown = [Band(band.up_to - 0.001, band.tone, band.label) for band in bands[:-1]] + bands[-1:]
    by_part = bars(
        [(text(part["title"]), part["score"]) for part in said["parts"]], "Each part, from 0 to 100", most=100
    )
    weights = ", ".join(f"{part['title'].lower()} {part['weight']:g}" for part in said["parts"])
    explained = f"A part alone can raise the score to its weight times a hundred: {weights}."
    return columns(
        gauge(said["score"], "of 100", bands=shown), joined([by_part, paragraph(tag("small", explained), quiet=True)])
    )


def _first(found: list[dict[str, Any]]) -> Html:
    worst = sorted(found, key=lambda one: -one["alone"])[:shown_first]
    return notices(
        [Notice(_tone(one["severity"]), joined([one["sentence"], " ", tag("strong", one["advice"])])) for one in worst],
        "Nothing was found that speaks against using or sharing this table.",
    )


def _tone(severity: float) -> Tone:
    return "high" if severity >= 0.4 else "medium" if severity >= 0.15 else "low"


def _part(part: Mapping[str, Any]) -> Html:
    content = [paragraph(part["note"], quiet=True)] if part["note"] else []
    if not part["findings"]:
        content.append(notices([], "Nothing was found."))
    return section(
        part["title"],
        *content,
        *(_card(one) for one in part["findings"]),
        lead=f"{number(part['score'], 3)} of 100, {counted(len(part['findings']), 'finding')}.",
        anchor=part["name"],
    )


def _card(one: Mapping[str, Any]) -> Html:
    words = one["code"].replace("_", " ")
    tone = _tone(one["severity"])
    evidence = [(WORDS.get(key, key), _evidence(key, known)) for key, known in one["evidence"].items() if known]
    said = [paragraph(one["sentence"]), paragraph(tag("strong", "What to do: "), one["advice"])]
    if one["examples"]:
        said.append(paragraph(tag("strong", "Examples: "), *_listed(one["examples"])))
    return card(
        value(one["column"]) if one["column"] else "Whole rows",
        columns(joined(said), facts(evidence)) if evidence else joined(said),
        badges=[badge(words, tone), badge(f"alone {number(one['alone'], 2)} of 100")],
    )


def _listed(examples: list[str]) -> list[object]:
    return [part for one in examples for part in (value(one), Html(" &ensp; "))]


def _evidence(key: str, known: object) -> object:
    if key in {"share", "determination", "missing_tells"} and isinstance(known, float):
        return share(known, 2)
    if isinstance(known, bool):
        return "yes" if known else "no"
    if isinstance(known, int | float):
        return number(known)
    return value(", ".join(map(str, known)) if isinstance(known, list) else known)


def _about(said: Mapping[str, Any]) -> Html:
    told = [Notice("low", note) for note in said["notes"]]
    return section("While reading", notices(told)) if told else Html("")
