"""The agent score-risk: how risky it is to use or to share this table, from 0 to 100, and why.

The score is made of what was found, each with its evidence and what to do about it (`scoring.py` says how). Content is
looked at in a sample; what is missing, repeated, impossible or outlying is counted over all rows. A low score says that
nothing of this kind was seen, not that the table is harmless.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from holdfast.apps.agents.options import RiskOptions
from holdfast.apps.agents.outlying import all_fences
from holdfast.apps.agents.personal import KINDS, Curtain, Seen, curtain_for, find_personal
from holdfast.apps.agents.reading import Table, first_names, open_table, scratch_folder
from holdfast.apps.agents.report import finite, write_json
from holdfast.apps.agents.risk import leakage, privacy, quality
from holdfast.apps.agents.risk.page import render
from holdfast.apps.agents.risk.quality import Facts, gather
from holdfast.apps.agents.risk.scoring import Finding, Part, alone, level, overall
from holdfast.apps.agents.sampling import Sample, take_sample
from holdfast.apps.agents.signs import exactly, names_rows
from holdfast.lifecycles.analysis.tools import Job, wrong_format

SECTION = "score-risk"


def score_risk(job: Job) -> None:
    """Write risk.json and risk.html. Raises SchemaInvalid."""
    options = job.options(RiskOptions, SECTION)
    with scratch_folder(job) as scratch:
        table = open_table(job, job.primary, scratch)
        names = [name for name in table.names if name not in options.ignore_columns]
        if not names:
            raise wrong_format(f"parameters.json: {SECTION}.ignore_columns leaves no column of {table.filename}.")
        target = _target(options, names, table)
        frame = table.frame.select(exactly(name) for name in names)
        sample = take_sample(frame, options.sample_rows, table.rows)
        parts = _parts(job, options, table, frame, sample, target, scratch)
        report = finite(_report(job, options, table, sample, target, parts))
    write_json(job.folder / "risk.json", report)
    (job.folder / "risk.html").write_text(render(report), encoding="utf-8")


def _target(options: RiskOptions, names: Sequence[str], table: Table) -> str | None:
    if options.target is not None and options.target not in names:
        raise wrong_format(
            f"parameters.json: {SECTION}.target: {table.filename} has no column {options.target}; "
            f"it has: {first_names(names)}."
        )
    return options.target or leakage.guess_target(names)


def _parts(
    job: Job,
    options: RiskOptions,
    table: Table,
    frame: pl.LazyFrame,
    sample: Sample,
    target: str | None,
    scratch: Path,
) -> list[Part]:
    limits, weights = options.thresholds, options.weights
    schema: Mapping[str, pl.DataType] = dict(sample.frame.schema)
    everything = frame if not sample.whole else sample.frame.lazy()
    seen = find_personal(sample.frame)
    curtain = curtain_for(seen)  # masks every kind, also those that are switched off
    wanted = [one for one in seen if options.pii.get(one.kind, True)]
    rules = quality.rules(schema, options.today or datetime.now(UTC).date())
    facts = gather(everything, schema, [rule.broken for rule in rules])
    leaks = list(leakage.findings(sample.frame, target, limits, set(curtain.columns))) + _overlap(
        job, everything, schema, facts, scratch
    )
    return [
        Part("pii", "Personal data and secrets", weights.pii, list(privacy.findings(sample.frame, wanted))),
        Part("leakage", "Leakage", weights.leakage, leaks, _leakage_note(target, options)),
        Part(
            "quality", "Quality", weights.quality, list(quality.findings(sample.frame, facts, rules, limits, curtain))
        ),
        Part("outliers", "Outliers", weights.outliers, _outliers(everything, sample, facts, seen, options, curtain)),
    ]


def _outliers(
    table: pl.LazyFrame, sample: Sample, facts: Facts, seen: Sequence[Seen], options: RiskOptions, curtain: Curtain
) -> list[Finding]:
    numbers = [one for one in sample.frame.iter_columns() if one.dtype.is_numeric()]
    skipped = {one.column for one in seen if KINDS[one.kind].shape}
    skipped |= {one.name for one in numbers if names_rows(one.drop_nulls())}
    found = all_fences(sample.frame, skipped, options.thresholds.outlier_distance)
    return list(quality.far_values(table, facts.rows, found, options.thresholds.outlier_share, curtain))


def _overlap(
    job: Job, table: pl.LazyFrame, schema: Mapping[str, pl.DataType], facts: Facts, scratch: Path
) -> list[Finding]:
    if job.baseline is None:
        return []
    baseline = open_table(job, job.baseline, scratch)
    shared = {one.name: one.dtype for one in baseline.columns if schema.get(one.name) == one.dtype}
    return list(leakage.overlap(table, baseline.frame, shared, facts.rows))


def _leakage_note(target: str | None, options: RiskOptions) -> str:
    if target is None:
        return (
            "No column to predict is known, so only identifiers and repeated information were looked for. Name one "
            'in parameters.json: {"score-risk": {"target": "..."}}.'
        )
    return "" if options.target else f"{target} is taken for the column to predict, by its name."


def _report(
    job: Job, options: RiskOptions, table: Table, sample: Sample, target: str | None, parts: Sequence[Part]
) -> dict[str, Any]:
    limits = options.thresholds
    score = overall(parts)
    return {
        "agent": SECTION,
        "file": table.filename,
        "baseline": job.baseline.filename if job.baseline else None,
        "rows": sample.described(),
        "columns": len(table.columns),
        "notes": list(table.notes),
        "score": round(score),
        "level": level(score, limits.moderate, limits.high, limits.critical),
        "target": target,
        "parts": [_part(part) for part in parts],
        "options": options.model_dump(mode="json"),
    }


def _part(part: Part) -> dict[str, Any]:
    found = sorted(part.findings, key=lambda one: (-one.severity, one.column or "", one.code))
    return {
        "name": part.name,
        "title": part.title,
        "score": round(part.score, 1),
        "weight": part.weight,
        "note": part.note,
        "findings": [
            {**vars(one), "severity": round(one.severity, 4), "alone": round(alone(part, one), 1)} for one in found
        ],
    }
