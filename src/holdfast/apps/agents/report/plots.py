"""Plots as inline SVG. Each has a name for those who do not see it, and says its numbers in words too.

Colours are those of the page's style sheet, so that they follow the theme: blue and orange, which people who cannot
tell red from green can tell apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.apps.agents.report.markup import Html, clip, joined, tag, value
from holdfast.apps.agents.report.numbers import coefficient, number, share
from holdfast.apps.agents.report.parts import Tone


@dataclass(frozen=True)
class Bin:
    """A part of a scale: from, to (as they are to be read) and how many are in it."""

    start: str
    end: str
    count: float


@dataclass(frozen=True)
class Band:
    """A part of a gauge's scale, up to a value."""

    up_to: float
    tone: Tone
    label: str


def histogram(bins: Sequence[Bin], label: str, beside: Sequence[float] | None = None, note: str = "") -> Html:
    """Columns over a scale. `beside`: other counts on the same bins, such as a baseline's, drawn as a line.

    With `beside`, both are drawn as shares of their own total.
    """
    own = scaled([one.count for one in bins], bool(beside))
    other = scaled(list(beside), True) if beside else []
    top = max([*own, *other, 1e-12])
    width = 100 / max(len(bins), 1)
    drawn = []
    for place, (one, height) in enumerate(zip(bins, own, strict=True)):
        tall = 40 * height / top
        tall = max(tall, 0.6) if one.count else 0
        told = tag("title", f"{one.start} to {one.end}: {number(one.count)}")
        gap = min(width * 0.12, 0.5)
        drawn.append(rectangle(place * width + gap / 2, 40 - tall, width - gap, tall, "bar", told))
    if other:
        steps = " ".join(
            f"{edge * width:.2f},{40 - 40 * height / top:.2f}"
            for place, height in enumerate(other)
            for edge in (place, place + 1)
        )
        drawn.append(Html(f'<polyline class="line" points="{steps}" vector-effect="non-scaling-stroke"/>'))
    plot = svg("0 0 100 40", label, *drawn, stretched=True)
    ends = tag(
        "div", tag("span", bins[0].start if bins else ""), tag("span", bins[-1].end if bins else ""), class_="axis"
    )
    legend = tag(
        "div", tag("span", "this file", class_="key own"), tag("span", "baseline", class_="key other"), class_="legend"
    )
    under = tag("figcaption", note) if note else ""
    return tag("figure", plot, ends, legend if other else "", under, class_="histogram")


def scaled(counts: Sequence[float], as_shares: bool) -> list[float]:
    total = sum(counts)
    return [count / total if as_shares and total else float(count) for count in counts]


def bars(
    rows: Sequence[tuple[object, float]], label: str, total: float | None = None, most: float | None = None
) -> Html:
    """Named amounts as bars, one under the other. `total`: what shares are of; without it no shares are said."""
    top = most or max([amount for _, amount in rows], default=0) or 1
    lines = [
        tag(
            "tr",
            tag("th", name if isinstance(name, Html) else value(name, 40), scope="row"),
            tag(
                "td",
                svg("0 0 100 10", None, rectangle(0, 0, max(100 * amount / top, 0.4), 10, "bar"), stretched=True),
                class_="plot",
            ),
            tag("td", number(amount), class_="number"),
            tag("td", share(amount / total), class_="number quiet") if total else "",
        )
        for name, amount in rows
    ]
    return tag("table", tag("caption", label), tag("tbody", *lines), class_="bars")


cell_px, side_px, above_px, beyond_px = 46, 150, 110, 70


def heatmap(names: Sequence[str], values: Sequence[Sequence[float | None]], label: str) -> Html:
    """A square of numbers from -1 to 1: blue above zero, orange below, the number in each cell."""
    parts = []
    for place, name in enumerate(names):
        middle = place * cell_px + cell_px / 2
        told, short = tag("title", name), clip(name, 20)
        parts.append(words(side_px - 8, above_px + middle + 4, "name", told, short, anchor="end"))
        x, y = side_px + middle + 4, above_px - 8
        parts.append(words(x, y, "name", told, short, anchor="start", turned=-40))
    for row, line in enumerate(values):
        for column, amount in enumerate(line):
            parts += heat(row, column, amount, f"{names[row]} and {names[column]}")
    width = side_px + cell_px * len(names) + beyond_px
    plot = svg(f"0 0 {width} {above_px + cell_px * len(names)}", label, *parts, width=width)
    return tag("div", plot, class_="wide heatmap", tabindex="0", role="region", aria_label=label)


def heat(row: int, column: int, amount: float | None, pair: str) -> list[Html]:
    """One cell: its colour and its number. The diagonal says nothing, so it has no colour."""
    x, y = side_px + column * cell_px, above_px + row * cell_px
    said = coefficient(amount)
    told = tag("title", f"{pair}: {said}")
    written = words(x + cell_px / 2, y + cell_px / 2 + 4, "amount quiet" if row == column else "amount", said)
    if amount is None or row == column:
        return [written]
    strength = 0.06 + 0.5 * min(abs(amount), 1.0)
    place = f'x="{x + 1}" y="{y + 1}" width="{cell_px - 2}" height="{cell_px - 2}" rx="3"'
    tone = "more" if amount >= 0 else "less"
    return [Html(f'<rect class="cell {tone}" {place} fill-opacity="{strength:.3f}">{told}</rect>'), written]


def gauge(amount: float, label: str, most: float = 100, bands: Sequence[Band] = (), unit: str = "") -> Html:
    """A value on a half circle from 0 to `most`, with the name of the band it falls into."""
    here = min(max(amount / most, 0.0), 1.0)
    band = next((one for one in bands if amount <= one.up_to), bands[-1] if bands else None)
    parts = [Html(f'<path class="track" d="{arc(0, 1)}"/>')]
    if here > 0:
        parts.append(Html(f'<path class="value {band.tone if band else "plain"}" d="{arc(0, here)}"/>'))
    for one in bands[:-1]:
        x, y = on_arc(one.up_to / most, 66)
        inner_x, inner_y = on_arc(one.up_to / most, 57)
        parts.append(Html(f'<line class="tick" x1="{inner_x:.1f}" y1="{inner_y:.1f}" x2="{x:.1f}" y2="{y:.1f}"/>'))
    parts.append(words(100, 96, "big", number(amount, 3) + unit))
    said = f"{label}: {number(amount, 3)}{unit} of {number(most)}" + (f", {band.label}" if band else "")
    plot = svg("0 0 200 112", said, *parts, width=200)
    under = tag("figcaption", tag("strong", band.label) if band else "", " ", label)
    return tag("figure", plot, under, class_="gauge")


def on_arc(part: float, radius: float) -> tuple[float, float]:
    angle = math.pi * (1 - part)
    return 100 + radius * math.cos(angle), 100 - radius * math.sin(angle)


def arc(start: float, end: float, radius: float = 76) -> str:
    (x1, y1), (x2, y2) = on_arc(start, radius), on_arc(end, radius)
    return f"M{x1:.2f} {y1:.2f} A{radius} {radius} 0 0 1 {x2:.2f} {y2:.2f}"


def words(x: float, y: float, kind: str, *content: object, anchor: str = "middle", turned: int = 0) -> Html:
    turn = f' transform="rotate({turned} {x:.1f} {y:.1f})"' if turned else ""
    return Html(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turn}>{joined(content)}</text>')


def rectangle(x: float, y: float, width: float, height: float, kind: str, *content: object) -> Html:
    place = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
    return Html(f'<rect class="{kind}" {place}>{joined(content)}</rect>')


def svg(box: str, label: str | None, *content: object, stretched: bool = False, width: int | None = None) -> Html:
    """The drawing itself: named, or hidden from those who are read to when the words beside it say the same."""
    return tag(
        "svg",
        *content,
        viewBox=box,
        preserveAspectRatio="none" if stretched else None,
        width=width,
        role="img" if label else None,
        aria_label=label,
        aria_hidden=None if label else "true",
        focusable="false",
    )
