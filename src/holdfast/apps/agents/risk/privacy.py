"""Personal data and secrets, as findings."""

import re
from collections.abc import Iterator, Sequence

import polars as pl

from holdfast.apps.agents.personal import KINDS, Seen
from holdfast.apps.agents.personal.kinds import normalized_name
from holdfast.apps.agents.risk.scoring import Finding
from holdfast.apps.agents.sampling import row_hash

_quasi = r"_(gender|sex|geschlecht|city|ort|region|state|country|nationality|job|profession|marital_status|age)_"


def findings(sample: pl.DataFrame, seen: Sequence[Seen]) -> Iterator[Finding]:
    """One for each kind in each column, and one if the rest singles out persons."""
    for one in seen:
        kind = KINDS[one.kind]
        place = "inside the texts of" if one.within else "in"
        yield Finding(
            code=one.kind,
            column=one.column,
            severity=kind.severity * (0.5 + 0.5 * min(1.0, 10 * one.share)),
            sentence=f"{kind.label[0].upper()}{kind.label[1:]} {place} {one.column}: {one.why}.",
            advice=kind.advice,
            evidence={"rows": one.rows, "share": round(one.share, 4), "within_text": one.within},
            examples=one.examples,
        )
    yield from _singled_out(sample, seen)


def _singled_out(sample: pl.DataFrame, seen: Sequence[Seen]) -> Iterator[Finding]:
    """Whether traits that are harmless one by one single out rows together (k-anonymity with k = 1)."""
    columns = [one.column for one in seen if one.kind in {"birth_date", "postal_address"} and not one.within]
    columns += [name for name in sample.columns if re.search(_quasi, normalized_name(name))]
    columns = [name for name in dict.fromkeys(columns) if sample[name].n_unique() < sample.height / 2]
    if len(columns) < 3 or sample.height < 100:
        return
    alone = int(sample.select(row_hash(columns)).to_series().is_unique().sum())
    share = alone / sample.height
    if share >= 0.05:
        yield Finding(
            code="singled_out",
            column=None,
            severity=min(0.5, share),
            sentence=f"{', '.join(columns)} together single out {share:.0%} of the rows looked at, even without names.",
            advice="Coarsen one of them (year instead of date, region instead of postal code) before sharing.",
            evidence={"columns": columns, "rows": alone, "share": round(share, 4)},
        )
