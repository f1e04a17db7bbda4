"""The agent detect-drift: what changed between a baseline and the file that was uploaded now.

Both files are looked at in samples if they are large, and the output says so. The verdict is none, some or strong, with
the columns that made it. It says that the data differ, not why, and not whether that is bad.
"""

import polars as pl

from holdfast.apps.agents.drift.columns import LEVELS, ColumnDrift, Comparison, Level, family
from holdfast.apps.agents.drift.page import render
from holdfast.apps.agents.options import DriftOptions
from holdfast.apps.agents.personal import Curtain, curtain_for, find_personal
from holdfast.apps.agents.reading import Table, first_names, open_table, scratch_folder
from holdfast.apps.agents.report import write_report
from holdfast.apps.agents.sampling import take_sample
from holdfast.lifecycles.analysis.tools import Job, cannot_read, wrong_format

SECTION = "detect-drift"


def detect_drift(job: Job) -> None:
    """Write drift.json and drift.html. Raises SchemaInvalid, also if there is no baseline to compare with."""
    options = job.options(DriftOptions, SECTION)
    if job.baseline is None:
        raise cannot_read(
            f"{SECTION} needs a baseline file to compare {job.primary.filename} with, and none was uploaded. "
            "Create the task again and upload a baseline beside the primary file."
        )
    with scratch_folder(job) as scratch:
        table, baseline = open_table(job, job.primary, scratch), open_table(job, job.baseline, scratch)
        names = _choose_columns(table, baseline, options)
        now = take_sample(table.frame, options.sample_rows, table.rows)
        before = take_sample(baseline.frame, options.sample_rows, baseline.rows)
    curtain = curtain_for([*find_personal(now.frame), *find_personal(before.frame)])
    # Among a hundred columns, one that only one in a hundred moves so far is not a surprise.
    fair = options.model_copy(update={"significance": options.significance / len(names)})
    found = [_drift(name, before.frame, now.frame, fair, curtain) for name in names]
    found.sort(key=lambda one: (-LEVELS.index(one.level), -one.figures.get("psi", 0.0)))
    verdict: Level = found[0].level if found else "none"
    report = {
        "agent": SECTION,
        "file": table.filename,
        "baseline": baseline.filename,
        "verdict": verdict,
        "made_by": [one.column for one in found if one.level == verdict and verdict != "none"],
        "rows": {"now": now.describe(), "baseline": before.describe()},
        "columns": [one.as_json() for one in found],
        "notes": [*table.notes, *baseline.notes],
        "options": options,
    }
    write_report(job.folder, "drift", report, render)


def _choose_columns(table: Table, baseline: Table, options: DriftOptions) -> list[str]:
    """The columns to compare: those of the file, then those that only the baseline has."""
    names = [*table.names, *(name for name in baseline.names if name not in table.names)]
    if options.columns is not None:
        if unknown := [name for name in options.columns if name not in names]:
            raise wrong_format(
                f"parameters.json: {SECTION}.columns: neither file has a column {unknown[0]}; "
                f"they have: {first_names(names)}."
            )
        names = [name for name in names if name in options.columns]
    names = [name for name in names if name not in options.ignore_columns]
    if not names:
        raise wrong_format(f"parameters.json: {SECTION}: columns and ignore_columns leave nothing to compare.")
    return names


def _drift(name: str, before: pl.DataFrame, now: pl.DataFrame, options: DriftOptions, curtain: Curtain) -> ColumnDrift:
    if name not in before.columns:
        return _changed_schema(name, "some", "added", "The column is new: the baseline does not have it.")
    if name not in now.columns:
        return _changed_schema(name, "strong", "removed", "The column is gone: only the baseline has it.")
    pair = before[name], now[name]
    old, new = (family(values.dtype) for values in pair)
    if old != new and not any(values.null_count() == len(values) for values in pair):
        reason = f"The column held {_plural(old)} and now holds {_plural(new)}."
        return _changed_schema(name, "strong", "type changed", reason, types=[old, new])
    if old != new:
        pair = pair[0].cast(pl.String), pair[1].cast(pl.String)
    return Comparison(*pair, options, curtain).compare()


def _changed_schema(name: str, level: Level, change: str, reason: str, **figures: object) -> ColumnDrift:
    return ColumnDrift(name, "other", level, [reason], {"schema": change, **figures})


def _plural(kind: str) -> str:
    return {"number": "numbers", "date": "dates", "text": "texts", "nested": "nested values"}.get(kind, kind)
