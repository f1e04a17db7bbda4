"""The agent score-risk: how risky it is to use or to share this table, from 0 to 100, and why.

The score is made of what was found, each with its evidence and what to do about it (`scoring.py` says how). Content is
looked at in a sample; what is missing, repeated, impossible or outlying is counted over all rows. A low score says that
nothing of this kind was seen, not that the table is harmless.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from holdfast.apps.agents.options import RiskOptions
from holdfast.apps.agents.outlying import all_fences
from holdfast.apps.agents.personal import KINDS, curtain_for, find_personal
from holdfast.apps.agents.reading import first_names, open_table, scratch_folder
from holdfast.apps.agents.report import write_report
from holdfast.apps.agents.risk import leakage, privacy, quality
from holdfast.apps.agents.risk.page import render
from holdfast.apps.agents.risk.quality import Facts, gather
from holdfast.apps.agents.risk.scoring import Finding, Part, level, overall
from holdfast.apps.agents.sampling import take_sample
from holdfast.apps.agents.signs import exactly, names_rows
from holdfast.lifecycles.analysis.tools import Job, wrong_format

SECTION = "score-risk"


def score_risk(job: Job) -> None:
    """Write risk.json and risk.html. Raises SchemaInvalid."""
    with scratch_folder(job) as scratch:
        report = Scorer(job, scratch).report()
    write_report(job.folder, "risk", report, render)


class Scorer:
    """Scores one table: what is looked at, and by which options."""

    def __init__(self, job: Job, scratch: Path) -> None:
        self.job = job
        self.scratch = scratch
        self.options = job.options(RiskOptions, SECTION)
        self.table = open_table(job, job.primary, scratch)
        self.names = [name for name in self.table.names if name not in self.options.ignore_columns]
        if not self.names:
            raise wrong_format(f"parameters.json: {SECTION}.ignore_columns leaves no column of {self.table.filename}.")
        self.target = self._target()
        rows = self.table.frame.select(exactly(name) for name in self.names)
        self.sample = take_sample(rows, self.options.sample_rows, self.table.rows)
        self.rows = self.sample.frame.lazy() if self.sample.whole else rows
        self.schema: Mapping[str, pl.DataType] = dict(self.sample.frame.schema)
        self.seen = find_personal(self.sample.frame)
        self.curtain = curtain_for(self.seen)  # masks every kind, also those that are switched off

    def _target(self) -> str | None:
        target = self.options.target
        if target is not None and target not in self.names:
            raise wrong_format(
                f"parameters.json: {SECTION}.target: {self.table.filename} has no column {target}; "
                f"it has: {first_names(self.names)}."
            )
        return target or leakage.guess_target(self.names)

    def report(self) -> dict[str, Any]:
        limits, parts = self.options.thresholds, self.parts()
        score = overall(parts)
        return {
            "agent": SECTION,
            "file": self.table.filename,
            "baseline": self.job.baseline.filename if self.job.baseline else None,
            "rows": self.sample.describe(),
            "columns": len(self.table.columns),
            "notes": self.table.notes,
            "score": round(score),
            "level": level(score, limits.moderate, limits.high, limits.critical),
            "target": self.target,
            "parts": [one.as_json() for one in parts],
            "options": self.options,
        }

    def parts(self) -> list[Part]:
        sample, limits, weights = self.sample.frame, self.options.thresholds, self.options.weights
        wanted = [one for one in self.seen if self.options.pii.get(one.kind, True)]
        rules = quality.rules(self.schema, self.options.today or datetime.now(UTC).date())
        facts = gather(self.rows, self.schema, [rule.broken for rule in rules])
        leaks = [*leakage.findings(sample, self.target, limits, set(self.curtain.columns)), *self._overlap(facts)]
        wrong = list(quality.findings(sample, facts, rules, limits, self.curtain))
        return [
            Part("pii", "Personal data and secrets", weights.pii, list(privacy.findings(sample, wanted))),
            Part("leakage", "Leakage", weights.leakage, leaks, self._leakage_note()),
            Part("quality", "Quality", weights.quality, wrong),
            Part("outliers", "Outliers", weights.outliers, self._outliers(facts)),
        ]

    def _outliers(self, facts: Facts) -> list[Finding]:
        numbers = [one for one in self.sample.frame.iter_columns() if one.dtype.is_numeric()]
        skipped = {one.column for one in self.seen if KINDS[one.kind].shape}
        skipped |= {one.name for one in numbers if names_rows(one.drop_nulls())}
        limits = self.options.thresholds
        found = all_fences(self.sample.frame, skipped, limits.outlier_distance)
        return list(quality.far_values(self.rows, facts.rows, found, limits.outlier_share, self.curtain))

    def _overlap(self, facts: Facts) -> Iterator[Finding]:
        if self.job.baseline is not None:
            baseline = open_table(self.job, self.job.baseline, self.scratch)
            shared = {one.name: one.dtype for one in baseline.columns if self.schema.get(one.name) == one.dtype}
            if len(shared) > 1:
                yield from leakage.overlap(self.rows, baseline.frame, shared, facts.rows)

    def _leakage_note(self) -> str:
        if self.target is None:
            return (
                "No column to predict is known, so only identifiers and repeated information were looked for. Name one "
                'in parameters.json: {"score-risk": {"target": "..."}}.'
            )
        return "" if self.options.target else f"{self.target} is taken for the column to predict, by its name."
