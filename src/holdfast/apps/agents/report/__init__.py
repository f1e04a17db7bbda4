"""A small kit for reports: one HTML file that can be sent to anyone and opened anywhere.

    report = page(
        "Profile of orders.csv",
        section("Columns", table(["Column", "Missing"], [[value("price"), share(0.02)]], numeric=[1])),
        figures=[Figure("Rows", number(1_000_000))],
    )

Everything that is not `Html` is escaped. Cell values come from strangers and are written by `value`, so that they
cannot leave their element: markup is escaped, control characters become symbols, the direction of writing ends where
the value does, and long values are cut. The page loads nothing and runs nothing: a content security policy forbids it
all but its own style, so that even markup that slipped through the escaping could do neither. The parts are functions
that return `Html`, so that they can be nested. A tone is always written in words too, never by colour alone.

Plots are inline SVG. Each has a name for those who do not see it, and has its numbers in words too. Their colours are
those of the style sheet, so that they follow the theme: blue and orange, which people who confuse red and green can
tell apart.
"""

import html
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic_core import to_jsonable_python

clip_characters = 80

# Control characters as the symbols that Unicode has for them; halves of characters as the replacement character.
SYMBOLS = {code: 0x2400 + code for code in range(32) if code not in (9, 10)}
SYMBOLS |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD) | dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)
SYMBOLS |= dict.fromkeys((0xFFFE, 0xFFFF), 0xFFFD)


class Html(str):
    """Markup that may stand in a page as it is."""

    __slots__ = ()


def text(given: object) -> Html:
    """Anything as escaped text; Html stays as it is."""
    if isinstance(given, Html):
        return given
    return Html(html.escape(str(given).translate(SYMBOLS), quote=True))


def join(parts: Iterable[object]) -> Html:
    """Parts one after the other, each escaped unless it is Html."""
    return Html("".join(text(part) for part in parts))


def tag(name: str, *content: object, **attributes: object) -> Html:
    """An element. `class_` is class, `aria_label` is aria-label; an attribute that is None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{written}>{join(content)}</{name}>")


def clip(given: object, most: int = clip_characters) -> str:
    """At most so many characters, with an ellipsis for the rest."""
    whole = str(given)
    return whole if len(whole) <= most else whole[: most - 1].rstrip() + "…"


def value(given: object, most: int = clip_characters) -> Html:
    """A value from the data: isolated, in one line, cut if it is long."""
    if given is None:
        return tag("span", "missing", class_="none")
    line = " ".join(clip(given, most).split())
    return tag("bdi", line, class_="value") if line else tag("span", "empty text", class_="none")


NONE = "\N{EN DASH}"
UNITS = ("bytes", "kB", "MB", "GB", "TB")


def number(given: float | None, digits: int = 4) -> str:
    """A number with its thousands divided and, below them, so many significant digits."""
    if given is None or not math.isfinite(given):
        return NONE
    if isinstance(given, int) or (given == int(given) and abs(given) < 1e15):
        return f"{int(given):,}".replace("-", "\N{MINUS SIGN}")
    if abs(given) >= 1e15 or abs(given) < 1e-4:
        return f"{given:.{digits - 1}e}".replace("-", "\N{MINUS SIGN}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(given))))
    return without_zeros(f"{given:,.{min(decimals, 6)}f}").replace("-", "\N{MINUS SIGN}")


def share(given: float | None, decimals: int = 1) -> str:
    """A share of one in percent; never 0 % or 100 % unless it is exactly that."""
    if given is None or not math.isfinite(given):
        return NONE
    least = 10.0**-decimals
    percent = given * 100
    if 0 < percent < least:
        return f"< {least:g} %"
    if 100 - least < percent < 100:
        return f"> {100 - least:g} %"
    return without_zeros(f"{percent:.{decimals}f}") + " %"


def without_zeros(digits: str) -> str:
    """Digits without zeros at the end of their decimals."""
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def size(given_bytes: int) -> str:
    """A number of bytes in the unit that suits it."""
    amount, place = float(given_bytes), 0
    while amount >= 1000 and place < len(UNITS) - 1:
        amount, place = amount / 1000, place + 1
    return f"{number(amount, 3)} {UNITS[place]}"


def count_noun(amount: int, one: str, many: str | None = None) -> str:
    """An amount with its noun: 1 row, 2 rows."""
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"


def coefficient(given: float | None) -> str:
    """A number between -1 and 1 with two decimals."""
    return NONE if given is None else f"{round(given, 2) + 0.0:.2f}".replace("-", "\N{MINUS SIGN}")


Tone = Literal["high", "medium", "low", "good", "plain"]
MARKS: Mapping[str, str] = {"high": "▲", "medium": "◆", "low": "●", "good": "✓", "plain": ""}
TONE_NAMES: Mapping[str, str] = {"high": "High", "medium": "Medium", "low": "Low", "good": "Good", "plain": "Note"}


@dataclass(frozen=True)
class Figure:
    """A key figure: what it is, how much, and a note about it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Notice:
    """A sentence to be read, with how much it matters and what it is about."""

    tone: Tone
    sentence: object
    subject: object = ""


def section(title: str, *content: object, lead: object = "", anchor: str | None = None) -> Html:
    """A part of the page with a heading."""
    heading = tag("h2", title)
    return tag("section", heading, tag("p", lead, class_="lead") if lead else "", *content, id=anchor)


def paragraph(*content: object, quiet: bool = False) -> Html:
    """A paragraph; quiet for what can be skipped."""
    return tag("p", *content, class_="quiet" if quiet else None)


def badge(content: object, tone: Tone = "plain") -> Html:
    """A short text in a frame."""
    mark = tag("span", MARKS[tone], aria_hidden="true") if MARKS[tone] else ""
    return tag("span", mark, content, class_=f"badge {tone}")


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
            badge(TONE_NAMES[one.tone], one.tone),
            tag("div", tag("strong", one.subject, ": ") if one.subject else "", one.sentence),
        )
        for one in given
    )
    return tag("ul", *rows, class_="notices")


def table(
    head: Sequence[object], rows: Iterable[Sequence[object]], numeric: Collection[int] = (), caption: object = ""
) -> Html:
    """A table, scrolled by itself when it is too wide. `numeric`: the places of columns aligned to the right."""
    kinds = ["number" if place in numeric else None for place in range(len(head))]
    names = (tag("th", name, scope="col", class_=kind) for name, kind in zip(head, kinds, strict=True))

    def cells(row: Sequence[object]) -> Iterator[Html]:
        yield tag("th", row[0], scope="row")
        yield from (tag("td", cell, class_=kind) for cell, kind in zip(row[1:], kinds[1:], strict=True))

    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption) if caption else "",
            tag("thead", tag("tr", *names)),
            tag("tbody", *(tag("tr", *cells(row)) for row in rows)),
        ),
        class_="wide",
        tabindex="0",
        role="region",
        aria_label=str(caption) or "Table",
    )


def facts(given: Iterable[tuple[object, object]]) -> Html:
    """Names with their values, one under the other."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", content)) for name, content in given), class_="facts")


def strip(given: Iterable[tuple[object, object]], label: str) -> Html:
    """A few names with their values, side by side, such as quantiles under a histogram."""
    pairs = list(given)
    names = tag("tr", *(tag("th", name, scope="col") for name, _ in pairs))
    return tag("table", tag("thead", names), tag("tbody", tag("tr", *(tag("td", content) for _, content in pairs))),
               class_="quantiles", aria_label=label)  # fmt: skip


def card(title: object, *content: object, badges: Iterable[Html] = (), anchor: str | None = None) -> Html:
    """A framed part about one thing, such as a column."""
    spaced = (part for one in badges for part in (one, " "))
    head = tag("header", tag("h3", title), tag("span", *spaced, class_="badges"))
    return tag("article", head, *content, class_="card", id=anchor)


def columns(*content: object) -> Html:
    """Parts side by side where there is room, one under the other where there is not."""
    return tag("div", *(tag("div", one) for one in content), class_="columns")


def details(summary: object, *content: object) -> Html:
    """Something to open by a click; it needs no script, and it is open on paper."""
    return tag("details", tag("summary", summary), *content)


def reading_notes(notes: Sequence[str]) -> Html:
    """A section with what was noticed while a file was read; nothing if there is nothing."""
    return section("While reading", notices([Notice("low", note) for note in notes])) if notes else Html("")


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
    own = scale([one.count for one in bins], bool(beside))
    other = scale(list(beside), True) if beside else []
    top = max([*own, *other, 1e-12])
    width = 100 / max(len(bins), 1)
    drawn = []
    for place, (one, height) in enumerate(zip(bins, own, strict=True)):
        tall = 40 * height / top
        tall = max(tall, 0.6) if one.count else 0
        title = tag("title", f"{one.start} to {one.end}: {number(one.count)}")
        gap = min(width * 0.12, 0.5)
        drawn.append(rectangle(place * width + gap / 2, 40 - tall, width - gap, tall, "bar", title))
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


def scale(counts: Sequence[float], as_shares: bool) -> list[float]:
    total = sum(counts)
    return [count / total if as_shares and total else float(count) for count in counts]


def bars(
    rows: Sequence[tuple[object, float]], label: str, total: float | None = None, most: float | None = None
) -> Html:
    """Named amounts as bars, one under the other. `total`: what shares are of; without it there are none."""
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
        title, short = tag("title", name), clip(name, 20)
        parts.append(label_at(side_px - 8, above_px + middle + 4, "name", title, short, anchor="end"))
        x, y = side_px + middle + 4, above_px - 8
        parts.append(label_at(x, y, "name", title, short, anchor="start", rotated=-40))
    for row, line in enumerate(values):
        for column, amount in enumerate(line):
            parts += heat(row, column, amount, f"{names[row]} and {names[column]}")
    width = side_px + cell_px * len(names) + beyond_px
    plot = svg(f"0 0 {width} {above_px + cell_px * len(names)}", label, *parts, width=width)
    return tag("div", plot, class_="wide heatmap", tabindex="0", role="region", aria_label=label)


def heat(row: int, column: int, amount: float | None, pair: str) -> list[Html]:
    """One cell: its colour and its number. The diagonal says nothing, so it has no colour."""
    x, y = side_px + column * cell_px, above_px + row * cell_px
    digits = coefficient(amount)
    title = tag("title", f"{pair}: {digits}")
    label = label_at(x + cell_px / 2, y + cell_px / 2 + 4, "amount quiet" if row == column else "amount", digits)
    if amount is None or row == column:
        return [label]
    strength = 0.06 + 0.5 * min(abs(amount), 1.0)
    place = f'x="{x + 1}" y="{y + 1}" width="{cell_px - 2}" height="{cell_px - 2}" rx="3"'
    tone = "more" if amount >= 0 else "less"
    return [Html(f'<rect class="cell {tone}" {place} fill-opacity="{strength:.3f}">{title}</rect>'), label]


def gauge(amount: float, label: str, most: float = 100, bands: Sequence[Band] = ()) -> Html:
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
    parts.append(label_at(100, 96, "big", number(amount, 3)))
    name = f"{label}: {number(amount, 3)} of {number(most)}" + (f", {band.label}" if band else "")
    plot = svg("0 0 200 112", name, *parts, width=200)
    under = tag("figcaption", tag("strong", band.label) if band else "", " ", label)
    return tag("figure", plot, under, class_="gauge")


def on_arc(part: float, radius: float) -> tuple[float, float]:
    angle = math.pi * (1 - part)
    return 100 + radius * math.cos(angle), 100 - radius * math.sin(angle)


def arc(start: float, end: float, radius: float = 76) -> str:
    (x1, y1), (x2, y2) = on_arc(start, radius), on_arc(end, radius)
    return f"M{x1:.2f} {y1:.2f} A{radius} {radius} 0 0 1 {x2:.2f} {y2:.2f}"


def label_at(x: float, y: float, kind: str, *content: object, anchor: str = "middle", rotated: int = 0) -> Html:
    transform = f' transform="rotate({rotated} {x:.1f} {y:.1f})"' if rotated else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{transform}'
    return Html(f'<text class="{kind}" {place}>{join(content)}</text>')


def rectangle(x: float, y: float, width: float, height: float, kind: str, *content: object) -> Html:
    place = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
    return Html(f'<rect class="{kind}" {place}>{join(content)}</rect>')


def svg(box: str, label: str | None, *content: object, stretched: bool = False, width: int | None = None) -> Html:
    """The drawing itself: named, or hidden from screen readers where the text beside it says the same."""
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


POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")


def page(
    title: str,
    *content: object,
    subtitle: object = "",
    figures: Iterable[Figure] = (),
    contents: Sequence[tuple[str, str]] = (),
    foot: object = "",
) -> str:
    """A whole page. `contents` are the anchors of sections with their titles."""
    given = list(figures)
    above = tag(
        "header",
        tag("h1", title),
        tag("p", subtitle, class_="subtitle") if subtitle else "",
        key_figures(given) if given else "",
        class_="top",
    )
    links = tag(
        "nav",
        *(tag("a", name, href=f"#{anchor}") for anchor, name in contents),
        aria_label="Contents",
        class_="contents",
    )
    head = [
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{text(POLICY)}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        Html('<meta name="referrer" content="no-referrer">'),
        tag("title", clip(title, 120)),
        Html(f"<style>{STYLE}</style>"),
    ]
    body = tag("main", above, links if contents else "", *content, tag("footer", foot) if foot else "")
    return f'<!doctype html>\n<html lang="en">\n{tag("head", *head)}\n{tag("body", body)}\n</html>\n'


def write_report(folder: Path, name: str, found: Mapping[str, Any], render: Callable[[Mapping[str, Any]], str]) -> None:
    """The same findings as name.json and name.html; a number that is not finite is null in both."""
    found = to_jsonable_python(found, inf_nan_mode="null")
    write_json(folder / f"{name}.json", found)
    (folder / f"{name}.html").write_text(render(found), encoding="utf-8")


def write_json(path: Path, found: Any) -> None:
    """Write what was found, in a form that people can read too."""
    path.write_text(json.dumps(found, ensure_ascii=False, indent=2, allow_nan=False) + "\n", encoding="utf-8")
