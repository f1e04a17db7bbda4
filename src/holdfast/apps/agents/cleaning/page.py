"""The report of suggest-cleaning, for people."""

from collections.abc import Mapping
from typing import Any

from holdfast.apps.agents import report as kit

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


def render(report: Mapping[str, Any]) -> str:
    """The page of cleaning.json."""
    found, rows = report["suggestions"], report["rows"]
    sure = [one for one in found if one["sure"]]
    guesses = [one for one in found if not one["sure"]]
    how = "all rows" if not rows["sampled"] else f"a sample of {kit.count_noun(rows['looked_at'], 'row')}"
    lead = f"Found in {how}; what each step changes is counted over all rows."
    parts = [kit.reading_notes(report["notes"])]
    if not found:
        parts.append(kit.section("Nothing to clean", kit.paragraph("No step would improve this table.")))
    if found:
        parts.append(kit.section("In short", _overview(found)))
    if sure:
        parts.append(kit.section("Sure steps", *(_card(one) for one in sure), lead="The script does these by default."))
    if guesses:
        only_with = "Probably right, but look first: the script does these only with --guesses."
        parts.append(kit.section("Guesses", *(_card(one) for one in guesses), lead=only_with))
    parts.append(kit.section("How to run the script", _code(USAGE)))
    return kit.page(
        f"Cleaning {report['file']}",
        *parts,
        subtitle=lead,
        figures=[
            kit.Figure("Rows", kit.number(rows["total"])),
            kit.Figure("Columns", kit.number(report["columns"])),
            kit.Figure("Sure steps", kit.number(len(sure))),
            kit.Figure("Guesses", kit.number(len(guesses))),
        ],
        foot="clean.py holds every step as a line of polars; nothing was changed in your file.",
    )


def _overview(found: list[dict[str, Any]]) -> kit.Html:
    return kit.table(
        ["Step", "Column", "Rows changed", "Share", ""],
        [
            [
                TITLES[one["kind"]],
                kit.value(one["column"]) if one["column"] else "whole rows",
                kit.number(one["rows"]),
                kit.share(one["share"]),
                kit.badge("sure", "good") if one["sure"] else kit.badge("guess", "medium"),
            ]
            for one in found
        ],
        numeric=[2, 3],
        caption="In the order of what is gained",
    )


def _card(one: Mapping[str, Any]) -> kit.Html:
    changed = f"{kit.count_noun(one['rows'], 'row')} ({kit.share(one['share'])})"
    badges = [kit.badge(changed)]
    if one["cleared"]:
        badges.append(kit.badge(f"{kit.count_noun(one['cleared'], 'value')} cleared", "medium"))
    title = kit.join([TITLES[one["kind"]], ": ", kit.value(one["column"])]) if one["column"] else TITLES[one["kind"]]
    examples = [[_quote(pair["before"]), _quote(pair["after"])] for pair in one["examples"]]
    return kit.card(
        title,
        kit.paragraph(one["why"]),
        kit.table(["Before", "After"], examples) if examples else "",
        kit.details("The line in clean.py", _code(one["code"])),
        badges=badges,
    )


def _quote(text: str) -> kit.Html:
    """Space is what often differs, so it is made visible."""
    return kit.value(text.replace("\t", "⇥").replace(" ", "␣") if text != text.strip() or "  " in text else text)


def _code(lines: str) -> kit.Html:
    return kit.tag(
        "pre",
        lines,
        class_="wide",
        style="margin:4px 0;padding:10px 14px;font-size:13px;white-space:pre-wrap;overflow-wrap:anywhere",
    )
