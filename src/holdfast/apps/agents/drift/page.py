"""The report of detect-drift, for people."""

from collections.abc import Mapping
from typing import Any

from holdfast.apps.agents.report import (
    Bin,
    Figure,
    Html,
    Notice,
    Tone,
    badge,
    bars,
    card,
    columns,
    counted,
    details,
    facts,
    histogram,
    joined,
    notices,
    number,
    page,
    paragraph,
    section,
    share,
    table,
    value,
)

TONES: Mapping[str, Tone] = {"strong": "high", "some": "medium", "none": "good"}
VERDICTS = {
    "strong": "The data have drifted strongly.",
    "some": "The data have drifted somewhat.",
    "none": "The data have not drifted.",
}
shown_most = 200


def render(said: Mapping[str, Any]) -> str:
    """The page, from what drift.json says."""
    found = said["columns"]
    moved = [one for one in found if one["level"] != "none"]
    still = [one for one in found if one["level"] == "none"]
    rows, limits = said["rows"], said["options"]
    sampled = any(side["sampled"] for side in rows.values())
    how = "Both files were looked at whole." if not sampled else (
        f"Looked at: {counted(rows['now']['looked_at'], 'row')} of this file and "
        f"{rows['baseline']['looked_at']:,} of the baseline."
    )  # fmt: skip
    return page(
        f"Drift of {said['file']}",
        section("Verdict", _verdict(said, moved), anchor="verdict"),
        section("All columns", _overview(found), anchor="all"),
        section("What moved", *(_card(one) for one in moved[:shown_most]), anchor="moved") if moved else "",
        section("What stayed", *(_folded(one) for one in still[:shown_most]), anchor="stayed") if still else "",
        section("While reading", notices([Notice("low", note) for note in said["notes"]])) if said["notes"] else "",
        subtitle=joined(["Compared with the baseline ", value(said["baseline"]), f". {how}"]),
        figures=[
            Figure("Rows", number(rows["now"]["total"]), f"baseline {number(rows['baseline']['total'])}"),
            Figure("Columns", number(len(found))),
            Figure("Strong", number(sum(one["level"] == "strong" for one in found))),
            Figure("Some", number(sum(one["level"] == "some" for one in found))),
        ],
        foot=f"A PSI from {limits['psi_some']:g} on counts as some drift, from {limits['psi_strong']:g} on as strong. "
        f"That chance alone moves any column of an unchanged table so far has a probability below "
        f"{limits['significance']:g}.",
    )


def _verdict(said: Mapping[str, Any], moved: list[dict[str, Any]]) -> Html:
    head = paragraph(badge(said["verdict"], TONES[said["verdict"]]), " ", VERDICTS[said["verdict"]])
    told = [
        Notice("high" if one["level"] == "strong" else "medium", " ".join(one["reasons"]), value(one["column"]))
        for one in moved[:10]
    ]
    return joined([head, notices(told, "No column moved by more than chance explains.")])


def _overview(found: list[dict[str, Any]]) -> Html:
    return table(
        ["Column", "Drift", "Kind", "PSI", "p", "Missing now", "before"],
        [
            [
                value(one["column"]),
                badge(one["level"], TONES[one["level"]]),
                one.get("schema", one["kind"]),
                f"{one['psi']:.3f}" if "psi" in one else number(None),
                _p(one),
                share(one["missing"]["now"]) if "missing" in one else number(None),
                share(one["missing"]["baseline"]) if "missing" in one else number(None),
            ]
            for one in found
        ],
        numeric=[3, 4, 5, 6],
    )


def _p(one: Mapping[str, Any]) -> str:
    p = one.get("ks_p", one.get("chi_square_p"))
    return number(None) if p is None else f"{p:.3f}" if p >= 0.001 else "< 0.001"


def _card(one: Mapping[str, Any]) -> Html:
    return card(
        value(one["column"]),
        *(paragraph(reason) for reason in one["reasons"]),
        _body(one),
        badges=[badge(one["level"], TONES[one["level"]]), badge(one.get("schema", one["kind"]))],
    )


def _folded(one: Mapping[str, Any]) -> Html:
    why = "names rows, not compared" if one["kind"] == "identifier" else f"PSI {one['psi']:.3f}" if "psi" in one else ""
    return details(joined([value(one["column"]), f", {why}" if why else ""]), _body(one))


def _body(one: Mapping[str, Any]) -> Html:
    return columns(*_plots(one), facts(_figures(one))) if one["histogram"] else facts(_figures(one))


def _plots(one: Mapping[str, Any]) -> list[Html]:
    labels, before, now = (one["histogram"][key] for key in ("labels", "baseline", "now"))
    if one["kind"] == "category":
        most = max([*before, *now], default=1) * 100 or 1
        return [
            bars([(label, round(part * 100, 1)) for label, part in zip(labels, side, strict=True)], name, most=most)
            for name, side in (("This file, in percent", now), ("Baseline, in percent", before))
        ]
    scale = zip(labels, labels[1:], now, strict=False)
    bins = [Bin(start, end, round(part * 100, 2)) for start, end, part in scale]
    what = "Length of the texts" if one.get("compared") == "length" else "Values"
    label = f"{what} of {one['column']}: this file as columns, the baseline as a line, in percent of the rows"
    return [histogram(bins, label, beside=before)]


def _figures(one: Mapping[str, Any]) -> list[tuple[object, object]]:
    told: list[tuple[object, object]] = []
    if "mean" in one:
        told.append(("Mean", f"{number(one['mean']['now'])} (before {number(one['mean']['baseline'])})"))
        told.append(("Shift in standard deviations", number(one["mean_shift_deviations"], 3)))
    if "mean_length" in one:
        told.append(
            ("Mean length", f"{number(one['mean_length']['now'])} (before {number(one['mean_length']['baseline'])})")
        )
    if "range" in one:
        told += [
            (name, value(" to ".join(one["range"][key]))) for name, key in (("Range", "now"), ("Before", "baseline"))
        ]
    if "psi" in one:
        told.append(("PSI", f"{one['psi']:.3f}"))
    if "ks" in one:
        told.append(("Kolmogorov-Smirnov", f"{one['ks']:.3f} (p {_p(one)})"))
    if "chi_square" in one:
        told.append(("Chi-square", f"{number(one['chi_square'])} (p {_p(one)})"))
        told.append(("Jensen-Shannon distance", f"{one['jensen_shannon']:.3f}"))
    for key, name in (("new_values", "New values"), ("vanished_values", "Vanished values")):
        if one.get(key, {}).get("count"):
            listed = ", ".join(one[key]["examples"])
            told.append(
                (f"{name} ({counted(one[key]['count'], 'value')}, {share(one[key]['share'])})", value(listed, 160))
            )
    if "missing" in one:
        told.append(("Missing", f"{share(one['missing']['now'])} (before {share(one['missing']['baseline'])})"))
    return told
