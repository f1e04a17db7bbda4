"""The agent suggest-cleaning: what to clean, what it changes, and a script that does it.

What is suggested comes from a sample; how many rows a step changes is counted over all rows of the file as they were
uploaded. Nothing is changed here: the script is for the owner of the data.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from holdfast.apps.agents.cleaning.page import render
from holdfast.apps.agents.cleaning.script import Reading, Step, write_script
from holdfast.apps.agents.cleaning.suggesting import WORTH, Suggester, with_examples
from holdfast.apps.agents.options import CleaningOptions
from holdfast.apps.agents.personal import curtain_for, find_personal
from holdfast.apps.agents.reading import ReadingOptions, open_table, scratch_folder
from holdfast.apps.agents.report import write_report
from holdfast.apps.agents.sampling import row_hash, take_sample
from holdfast.lifecycles.analysis.tools import Job

SECTION = "suggest-cleaning"


def suggest_cleaning(job: Job) -> None:
    """Write cleaning.json, cleaning.html and clean.py. Raises SchemaInvalid."""
    options = job.options(CleaningOptions, SECTION)
    with scratch_folder(job) as scratch:
        table = open_table(job, job.primary, scratch)
        sample = take_sample(table.texts, options.sample_rows, table.rows)
        typed = take_sample(table.frame, options.sample_rows, table.rows).frame
        curtain = curtain_for(find_personal(typed))
        suggester = Suggester(sample.frame, {one.name: one.dtype for one in table.columns}, options, curtain)
        found = [step for name in table.names if name not in options.ignore_columns for step in suggester.look(name)]
        why = "They repeat an earlier row in every column. After the other steps there may be more."
        code = "table = table.unique(maintain_order=True)"
        found.append(Step("drop_duplicates", None, why, code, row_hash(table.names)))
        wanted = [step for step in found if step.kind in options.kinds]
        counted, readings = _count(table.texts, wanted, suggester.readings)
        kept = [step for step in counted if step.rows and step.rows >= options.min_share * table.rows]
        kept = _that_can_run(kept, readings, table.texts)
        kept.sort(key=lambda step: (-_gain(step, table.rows), step.kind, step.column or ""))
        suggested = [with_examples(step, sample.frame, curtain) for step in kept]
        report = {
            "agent": SECTION,
            "file": table.filename,
            "rows": sample.describe(),
            "columns": len(table.columns),
            "notes": table.notes,
            "suggestions": [_as_json(step, table.rows) for step in suggested],
            "options": options,
        }
        script = write_script(table, job.options(ReadingOptions, "reading"), suggested, readings, suggester.markers)
    write_report(job.folder, "cleaning", report, render)
    (job.folder / "clean.py").write_text(script, encoding="utf-8")


def _count(table: pl.LazyFrame, found: Sequence[Step], readings: Sequence[Reading]) -> tuple[list[Step], list[Reading]]:
    """Each step with the rows that it changes, and those it clears, over the whole table; and readings that clear none.

    A step that clears something is not sure, whatever the sample said.
    """
    asked = [reading.lost.sum().alias(f"v{i}") for i, reading in enumerate(readings)]
    for i, step in enumerate(found):
        repeated = pl.len() - step.changed.n_unique()
        rows = repeated if step.kind == "drop_duplicates" else step.changed.fill_null(value=False).sum()
        asked.append(rows.alias(f"r{i}"))
        asked.append((pl.lit(0) if step.lost is None else step.lost.sum()).alias(f"l{i}"))
    row = table.select(pl.len().alias("all"), *asked).collect(engine="streaming").row(0, named=True)
    counted = []
    for i, step in enumerate(found):
        rows_changed = row["all"] if step.kind in {"drop_empty", "drop_constant"} else row[f"r{i}"] or 0
        lost = row[f"l{i}"] or 0
        counted.append(replace(step, rows=rows_changed, rows_lost=lost, sure=step.sure and not lost))
    return counted, [reading for i, reading in enumerate(readings) if not row[f"v{i}"]]


def _that_can_run(found: Sequence[Step], readings: Sequence[Reading], table: pl.LazyFrame) -> list[Step]:
    """Steps that work on what the others leave.

    Not every column is dropped. Outliers of texts are found only if something reads the texts as numbers, and if that
    is a guess, so are they.
    """
    if sum(step.kind in {"drop_empty", "drop_constant"} for step in found) == len(table.collect_schema()):
        found = [step for step in found if step.kind not in {"drop_empty", "drop_constant"}]
    parsed = {step.column: step.sure for step in found if step.kind == "parse_numbers"}
    parsed |= {reading.column: True for reading in readings if reading.plain}
    parsed |= {name: True for name, dtype in table.collect_schema().items() if dtype.is_numeric()}
    kept = [step for step in found if step.kind != "outliers" or step.column in parsed]
    return [replace(step, sure=step.sure and parsed[step.column]) if step.kind == "outliers" else step for step in kept]


def _gain(step: Step, rows: int) -> float:
    return WORTH[step.kind] * (step.rows / rows) * (1.0 if step.sure else 0.5)


def _as_json(step: Step, rows: int) -> dict[str, Any]:
    return {
        "kind": step.kind,
        "column": step.column,
        "why": step.why,
        "rows": step.rows,
        "share": round(step.rows / rows, 6),
        "cleared": step.rows_lost,
        "gain": round(_gain(step, rows), 6),
        "sure": step.sure,
        "examples": [{"before": before, "after": after} for before, after in step.examples],
        "code": step.code,
        "evidence": step.evidence,
    }
