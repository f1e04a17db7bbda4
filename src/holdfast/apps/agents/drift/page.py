"""The report of detect-drift, for people."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holdfast.apps.agents import report as kit

TONES: Mapping[str, kit.Tone] = {"strong": "high", "some": "medium", "none": "good"}
VERDICTS = {
    "strong": "The data have drifted strongly.",
    "some": "The data have drifted somewhat.",
    "none": "The data have not drifted.",
}
cards_most = 200


def render(report: Mapping[str, Any]) -> str:
    """The page of drift.json."""
    found = report["columns"]
    moved = [one for one in found if one["level"] != "none"]
    still = [one for one in found if one["level"] == "none"]
    rows, limits = report["rows"], report["options"]
    sampled = any(side["sampled"] for side in rows.values())
    how = "Both files were looked at whole." if not sampled else (
        f"Looked at: {kit.count_noun(rows['now']['looked_at'], 'row')} of this file and "
        f"{rows['baseline']['looked_at']:,} of the baseline."
    )  # fmt: skip
    return kit.page(
        f"Drift of {report['file']}",
        kit.section("Verdict", _verdict(report, moved), anchor="verdict"),
        kit.section("All columns", _overview(found), anchor="all"),
        kit.section("What moved", *(_card(one) for one in moved[:cards_most]), anchor="moved") if moved else "",
        kit.section("What stayed", *(_fold(one) for one in still[:cards_most]), anchor="stayed") if still else "",
        kit.reading_notes(report["notes"]),
        subtitle=kit.join(["Compared with the baseline ", kit.value(report["baseline"]), f". {how}"]),
        figures=[
            kit.Figure("Rows", kit.number(rows["now"]["total"]), f"baseline {kit.number(rows['baseline']['total'])}"),
            kit.Figure("Columns", kit.number(len(found))),
            kit.Figure("Strong", kit.number(sum(one["level"] == "strong" for one in found))),
            kit.Figure("Some", kit.number(sum(one["level"] == "some" for one in found))),
        ],
        foot=f"A PSI from {limits['psi_some']:g} on counts as some drift, from {limits['psi_strong']:g} on as strong. "
        f"That chance alone moves any column of an unchanged table so far has a probability below "
        f"{limits['significance']:g}.",
    )


def _verdict(report: Mapping[str, Any], moved: list[dict[str, Any]]) -> kit.Html:
    head = kit.paragraph(kit.badge(report["verdict"], TONES[report["verdict"]]), " ", VERDICTS[report["verdict"]])
    notices = [
        kit.Notice("high" if one["level"] == "strong" else "medium", " ".join(one["reasons"]), kit.value(one["column"]))
        for one in moved[:10]
    ]
    return kit.join([head, kit.notices(notices, "No column moved by more than chance explains.")])


def _overview(found: list[dict[str, Any]]) -> kit.Html:
    return kit.table(
        ["Column", "Drift", "Kind", "PSI", "p", "Missing now", "before"],
        [
            [
                kit.value(one["column"]),
                _level(one),
                one.get("schema", one["kind"]),
                f"{one['psi']:.3f}" if "psi" in one else kit.number(None),
                _p(one),
                *(kit.share(one["missing"][side] if "missing" in one else None) for side in ("now", "baseline")),
            ]
            for one in found
        ],
        numeric=[3, 4, 5, 6],
    )


def _level(one: Mapping[str, Any]) -> kit.Html:
    return kit.badge(one["level"], TONES[one["level"]])


def _p(one: Mapping[str, Any]) -> str:
    p = one.get("ks_p", one.get("chi_square_p"))
    return kit.number(None) if p is None else f"{p:.3f}" if p >= 0.001 else "< 0.001"


def _card(one: Mapping[str, Any]) -> kit.Html:
    return kit.card(
        kit.value(one["column"]),
        *(kit.paragraph(reason) for reason in one["reasons"]),
        _body(one),
        badges=[_level(one), kit.badge(one.get("schema", one["kind"]))],
    )


def _fold(one: Mapping[str, Any]) -> kit.Html:
    why = "names rows, not compared" if one["kind"] == "identifier" else f"PSI {one['psi']:.3f}" if "psi" in one else ""
    return kit.details(kit.join([kit.value(one["column"]), f", {why}" if why else ""]), _body(one))


def _body(one: Mapping[str, Any]) -> kit.Html:
    facts = kit.facts(_facts(one))
    return kit.columns(*_plots(one), facts) if one["histogram"] else facts


def _plots(one: Mapping[str, Any]) -> list[kit.Html]:
    labels, before, now = (one["histogram"][key] for key in ("labels", "baseline", "now"))
    if one["kind"] == "category":
        most = max([*before, *now], default=1) * 100 or 1
        return [
            kit.bars([(label, round(part * 100, 1)) for label, part in zip(labels, side, strict=True)], name, most=most)
            for name, side in (("This file, in percent", now), ("Baseline, in percent", before))
        ]
    scale = zip(labels, labels[1:], now, strict=False)
    bins = [kit.Bin(start, end, round(part * 100, 2)) for start, end, part in scale]
    what = "Length of the texts" if one.get("compared") == "length" else "Values"
    label = f"{what} of {one['column']}: this file as columns, the baseline as a line, in percent of the rows"
    return [kit.histogram(bins, label, beside=before)]


def _facts(one: Mapping[str, Any]) -> Iterator[tuple[object, object]]:
    if "mean" in one:
        yield "Mean", _both(one["mean"], kit.number)
        yield "Shift in standard deviations", kit.number(one["mean_shift_deviations"], 3)
    if "mean_length" in one:
        yield "Mean length", _both(one["mean_length"], kit.number)
    if "range" in one:
        for name, side in (("Range", "now"), ("Before", "baseline")):
            yield name, kit.value(" to ".join(one["range"][side]))
    if "psi" in one:
        yield "PSI", f"{one['psi']:.3f}"
    if "ks" in one:
        yield "Kolmogorov-Smirnov", f"{one['ks']:.3f} (p {_p(one)})"
    if "chi_square" in one:
        yield "Chi-square", f"{kit.number(one['chi_square'])} (p {_p(one)})"
        yield "Jensen-Shannon distance", f"{one['jensen_shannon']:.3f}"
    for key, name in (("new_values", "New values"), ("vanished_values", "Vanished values")):
        if (values := one.get(key, {})).get("count"):
            how_many = f"{name} ({kit.count_noun(values['count'], 'value')}, {kit.share(values['share'])})"
            yield how_many, kit.value(", ".join(values["examples"]), 160)
    if "missing" in one:
        yield "Missing", _both(one["missing"], kit.share)


def _both(sides: Mapping[str, float], write: Callable[[float], str]) -> str:
    return f"{write(sides['now'])} (before {write(sides['baseline'])})"
