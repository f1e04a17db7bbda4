"""The report of score-risk, for people."""

from collections.abc import Mapping
from typing import Any

from holdfast.apps.agents import report as kit

LEVELS: Mapping[str, tuple[str, kit.Tone]] = {
    "low": ("Low risk", "good"),
    "moderate": ("Moderate risk", "low"),
    "high": ("High risk", "medium"),
    "critical": ("Critical risk", "high"),
}
EVIDENCE = {
    "rows": "Rows", "share": "Share", "within_text": "Inside longer texts", "distinct": "Different values",
    "categories": "Categories concerned", "written_as_words": "Written as words", "columns": "Columns",
    "below": "Below", "above": "Above", "low_fence": "Usual from", "high_fence": "Usual to", "median": "Median",
    "farthest_deviations": "Farthest, in robust deviations", "correlation": "Correlation",
    "determination": "Uncertainty it removes", "missing_tells": "Uncertainty its absence removes", "target": "Target",
    "other": "Same as", "formats": "Formats", "scale": "Scale",
}  # fmt: skip
listed_first = 5


def render(report: Mapping[str, Any]) -> str:
    """The page of risk.json."""
    parts = report["parts"]
    found = [one for part in parts for one in part["findings"]]
    rows = report["rows"]
    how = "All rows were looked at." if not rows["sampled"] else (
        f"Content was looked at in a sample of {kit.count_noun(rows['looked_at'], 'row')}; missing, repeated and "
        "outlying values are counted over all rows."
    )  # fmt: skip
    return kit.page(
        f"Risk of {report['file']}",
        kit.section("The score", _score(report), anchor="score"),
        kit.section("What to do first", _first(found), anchor="first"),
        *(_part(part) for part in parts),
        kit.reading_notes(report["notes"]),
        subtitle=f"How risky it is to use or to share this table. {how}",
        figures=[
            kit.Figure("Rows", kit.number(rows["total"])),
            kit.Figure("Columns", kit.number(report["columns"])),
            kit.Figure("Findings", kit.number(len(found))),
            kit.Figure("Columns concerned", kit.number(len({one["column"] for one in found if one["column"]}))),
        ],
        contents=[("score", "Score"), ("first", "First"), *((part["name"], part["title"]) for part in parts)],
        foot="Values that look personal are masked in this report. A low score says that nothing was seen, not that "
        "nothing is there.",
    )


def _score(report: Mapping[str, Any]) -> kit.Html:
    limits = report["options"]["thresholds"]
    borders = [limits["moderate"], limits["high"], limits["critical"], 100]
    # A score on the border belongs to the higher level, and the gauge takes it for the lower one.
    ends = [*(border - 0.001 for border in borders[:-1]), borders[-1]]
    bands = [kit.Band(end, tone, label) for end, (label, tone) in zip(ends, LEVELS.values(), strict=True)]
    by_part = kit.bars(
        [(kit.text(part["title"]), part["score"]) for part in report["parts"]], "Each part, from 0 to 100", most=100
    )
    weights = ", ".join(f"{part['title'].lower()} {part['weight']:g}" for part in report["parts"])
    explained = f"A part alone can raise the score to its weight times a hundred: {weights}."
    return kit.columns(
        kit.gauge(report["score"], "of 100", bands=bands),
        kit.join([by_part, kit.paragraph(kit.tag("small", explained), quiet=True)]),
    )


def _first(found: list[dict[str, Any]]) -> kit.Html:
    worst = sorted(found, key=lambda one: -one["alone"])[:listed_first]
    return kit.notices(
        [
            kit.Notice(_tone(one["severity"]), kit.join([one["sentence"], " ", kit.tag("strong", one["advice"])]))
            for one in worst
        ],
        "Nothing was found that speaks against using or sharing this table.",
    )


def _tone(severity: float) -> kit.Tone:
    return "high" if severity >= 0.4 else "medium" if severity >= 0.15 else "low"


def _part(part: Mapping[str, Any]) -> kit.Html:
    content = [kit.paragraph(part["note"], quiet=True)] if part["note"] else []
    if not part["findings"]:
        content.append(kit.notices([], "Nothing was found."))
    return kit.section(
        part["title"],
        *content,
        *(_card(one) for one in part["findings"]),
        lead=f"{kit.number(part['score'], 3)} of 100, {kit.count_noun(len(part['findings']), 'finding')}.",
        anchor=part["name"],
    )


def _card(one: Mapping[str, Any]) -> kit.Html:
    evidence = [(EVIDENCE.get(key, key), _evidence(key, known)) for key, known in one["evidence"].items() if known]
    content = [kit.paragraph(one["sentence"]), kit.paragraph(kit.tag("strong", "What to do: "), one["advice"])]
    if one["examples"]:
        examples = [part for example in one["examples"] for part in (kit.value(example), kit.Html(" &ensp; "))]
        content.append(kit.paragraph(kit.tag("strong", "Examples: "), *examples))
    return kit.card(
        kit.value(one["column"]) if one["column"] else "Whole rows",
        kit.columns(kit.join(content), kit.facts(evidence)) if evidence else kit.join(content),
        badges=[
            kit.badge(one["code"].replace("_", " "), _tone(one["severity"])),
            kit.badge(f"alone {kit.number(one['alone'], 2)} of 100"),
        ],
    )


def _evidence(key: str, known: object) -> object:
    if key in {"share", "determination", "missing_tells"} and isinstance(known, float):
        return kit.share(known, 2)
    if isinstance(known, bool):
        return "yes" if known else "no"
    if isinstance(known, int | float):
        return kit.number(known)
    return kit.value(", ".join(map(str, known)) if isinstance(known, list) else known)
