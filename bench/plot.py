"""Figures as pictures and tables for the documentation: `python -m bench.plot [FROM [TO]]`.

Reads every JSON file of a folder of results and writes, for each, NAME.md and NAME.svg. Bars are medians, lines the
spread; figures of one unit share a scale.
"""

import json
import sys
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path

from bench.table import RESULTS, Result, Row, markdown, rows, short

LETTER, BAR, VALUE, HEIGHT = 7, 360, 140, 22
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#334155}.unit{font-weight:600}.bar{fill:#6366f1}.limit{fill:#cbd5e1}"
    ".spread{stroke:#0f172a;stroke-width:1.5}"
    "@media(prefers-color-scheme:dark){text{fill:#cbd5e1}.limit{fill:#475569}.spread{stroke:#f8fafc}}"
)


def main() -> None:
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else source
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("*.json")):
        result = json.loads(path.read_text())
        if "figures" in result:
            (target / f"{path.stem}.md").write_text(markdown(result) + "\n")
            (target / f"{path.stem}.svg").write_text(svg(result) + "\n")


def svg(result: Result) -> str:
    """A bar for each figure; what others are measured by is grey."""
    drawn = list(rows(result))
    measures = {row.beside for row in drawn}
    left = max(len(row.name) for row in drawn) * LETTER + HEIGHT
    lines: list[str] = []
    place = 0
    for unit, group in groupby(sorted(drawn, key=lambda row: row.unit), key=lambda row: row.unit):
        found = list(group)
        most = max(row.most for row in found) or 1.0
        lines.append(f'<text class="unit" x="{left}" y="{place + 16}">{escape(unit)}</text>')
        for number, row in enumerate(found, 1):
            lines += bar(row, left, place + number * HEIGHT, most, "limit" if row.name in measures else "bar")
        place += (len(found) + 2) * HEIGHT
    title = escape(f"{result['measurement']}: medians and spread")
    box = f"0 0 {left + BAR + VALUE} {place}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img" aria-label="{title}">'
    return "\n".join([head, f"<title>{title}</title><style>{STYLE}</style>", *lines, "</svg>"])


def bar(row: Row, left: int, top: int, most: float, kind: str) -> Iterator[str]:
    def x(value: float) -> float:
        return left + max(value, 0) / most * BAR

    middle = top + HEIGHT / 2
    ratio = f" ({row.ratio:.2f} x)" if row.ratio is not None else ""
    yield f'<text x="{left - 8}" y="{middle + 4}" text-anchor="end">{escape(row.name)}</text>'
    yield f'<rect class="{kind}" x="{left}" y="{top + 3}" width="{x(row.median) - left:.1f}" height="{HEIGHT - 6}"/>'
    yield f'<line class="spread" x1="{x(row.least):.1f}" x2="{x(row.most):.1f}" y1="{middle}" y2="{middle}"/>'
    yield f'<text x="{x(row.most) + 8:.1f}" y="{middle + 4}">{short(row.median)}{ratio}</text>'


if __name__ == "__main__":
    main()
