"""The report of suggest-cleaning, for people."""

from collections.abc import Mapping
from typing import Any

from holdfast.apps.agents.report import (
    Figure,
    Html,
    Notice,
    badge,
    card,
    counted,
    details,
    joined,
    notices,
    number,
    page,
    paragraph,
    section,
    share,
    table,
    tag,
    value,
)

TITLES: Mapping[str, str] = {
    "trim": "Remove stray space",
    "missing_markers": "Write missing values as missing",
    "unify_categories": "Write categories in one way",
    "near_equal_categories": "Correct probable slips",
    "parse_numbers": "Read text as numbers",
    "parse_dates": "Read text as dates",
    "outliers": "Look after outliers",
    "split": "Divide a combined column",
    "drop_empty": "Drop an empty column",
    "drop_constant": "Drop a column that never changes",
    "drop_duplicates": "Drop repeated rows",
}


USAGE = "python clean.py INPUT OUTPUT.csv\npython clean.py INPUT OUTPUT.csv --guesses"


def render(said: Mapping[str, Any]) -> str:
    """The page, from what cleaning.json says."""
    found, rows = said["suggestions"], said["rows"]
    sure = [one for one in found if one["sure"]]
    guesses = [one for one in found if not one["sure"]]
    how = "all rows" if not rows["sampled"] else f"a sample of {counted(rows['looked_at'], 'row')}"
    lead = f"Found in {how}; what each step changes is counted over all rows."
    parts: list[Html] = []
    if said["notes"]:
        parts.append(section("While reading", notices([Notice("low", note) for note in said["notes"]])))
    if not found:
        parts.append(section("Nothing to clean", paragraph("No step would improve this table.")))
    if found:
        parts.append(section("In short", _overview(found)))
    if sure:
        parts.append(section("Sure steps", *(_card(one) for one in sure), lead="The script does these by default."))
    if guesses:
        told = "Probably right, but look first: the script does these only with --guesses."
        parts.append(section("Guesses", *(_card(one) for one in guesses), lead=told))
    parts.append(section("How to run the script", _code(USAGE)))
    return page(
        f"Cleaning {said['file']}",
        *parts,
        subtitle=lead,
        figures=[
            Figure("Rows", number(rows["total"])),
            Figure("Columns", number(said["columns"])),
            Figure("Sure steps", number(len(sure))),
            Figure("Guesses", number(len(guesses))),
        ],
        foot="clean.py holds every step as a line of polars; nothing was changed in your file.",
    )


def _overview(found: list[dict[str, Any]]) -> Html:
    return table(
        ["Step", "Column", "Rows changed", "Share", ""],
        [
            [
                TITLES[one["kind"]],
                value(one["column"]) if one["column"] else "whole rows",
                number(one["rows"]),
                share(one["share"]),
                badge("sure", "good") if one["sure"] else badge("guess", "medium"),
            ]
            for one in found
        ],
        numeric=[2, 3],
        caption="In the order of what is gained",
    )


def _card(one: Mapping[str, Any]) -> Html:
    changed = f"{counted(one['rows'], 'row')} ({share(one['share'])})"
    badges = [badge(changed)]
    if one["cleared"]:
        badges.append(badge(f"{counted(one['cleared'], 'value')} cleared", "medium"))
    title = joined([TITLES[one["kind"]], ": ", value(one["column"])]) if one["column"] else TITLES[one["kind"]]
    examples = [[_quoted(pair["before"]), _quoted(pair["after"])] for pair in one["examples"]]
    return card(
        title,
        paragraph(one["why"]),
        table(["Before", "After"], examples) if examples else "",
        details("The line in clean.py", _code(one["code"])),
        badges=badges,
    )


def _quoted(text: str) -> Html:
    """Space is what often differs, so it is made visible."""
    return value(text.replace("\t", "⇥").replace(" ", "␣") if text != text.strip() or "  " in text else text)


def _code(lines: str) -> Html:
    return tag(
        "pre",
        lines,
        class_="wide",
        style="margin:4px 0;padding:10px 14px;font-size:13px;white-space:pre-wrap;overflow-wrap:anywhere",
    )
