"""Numbers far from the others of their column, as findings. The fences come from the sample; all rows are counted."""

from collections.abc import Iterator, Sequence
from math import log10

import polars as pl

from holdfast.apps.agents.outlying import Fences
from holdfast.apps.agents.personal import Curtain
from holdfast.apps.agents.report import number
from holdfast.apps.agents.risk.scoring import Finding
from holdfast.apps.agents.signs import exactly


def findings(
    table: pl.LazyFrame, rows: int, found: Sequence[Fences], least_share: float, curtain: Curtain
) -> Iterator[Finding]:
    """Count what is beyond the fences, over all rows."""
    if not found or not rows:
        return
    asked = []
    for i, one in enumerate(found):
        asked += [one.beyond().sum().alias(f"n{i}"), (exactly(one.column) > one.high).sum().alias(f"h{i}")]
        asked += [exactly(one.column).min().alias(f"l{i}"), exactly(one.column).max().alias(f"u{i}")]
    row = table.select(asked).collect(engine="streaming").row(0, named=True)
    for i, one in enumerate(found):
        count, share = row[f"n{i}"] or 0, (row[f"n{i}"] or 0) / rows
        if not count or share < least_share:
            continue
        ends = [float(end) for end in (row[f"l{i}"], row[f"u{i}"]) if end < one.low or end > one.high]
        farthest = max(one.distance(end) for end in ends)
        yield Finding(
            code="outliers",
            column=one.column,
            severity=min(0.5, 5 * share) + min(0.2, 0.1 * max(0.0, log10(max(farthest, 1)) - 0.5)),
            sentence=f"{count:,} values of {one.column} ({share:.2%}) are far from the others: outside "
            f"{number(one.low)} to {number(one.high)}, the farthest {number(round(farthest))} robust deviations away.",
            advice="Look at the farthest ones: a wrong unit, a slip of the decimal point or a code such as 999999 is "
            "to be mended at the source; what is true but rare, cap or keep apart before averaging.",
            evidence={
                "rows": count, "share": round(share, 6), "below": count - (row[f"h{i}"] or 0),
                "above": row[f"h{i}"] or 0, "low_fence": one.low, "high_fence": one.high, "median": one.median,
                "scale": "log" if one.logarithmic else "linear", "farthest_deviations": round(farthest, 1),
            },
            examples=curtain.show_all(one.column, (number(end) for end in ends)),
        )  # fmt: skip
