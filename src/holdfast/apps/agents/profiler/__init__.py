"""The agent unified-profiler: what is in a table, column by column, as profile.json and report.html.

Counts, extremes, means and deviations are exact over all rows. What needs a column in memory (quantiles, histograms,
commonest and distinct values) is exact up to `sample_rows` rows and on a sample of that many beyond; profile.json says
which. Memory depends on the sample, not on the file.
"""

from dataclasses import asdict
from pathlib import Path

from holdfast.apps.agents.options import ProfilerOptions
from holdfast.apps.agents.profiler.columns import profile_column
from holdfast.apps.agents.profiler.findings import warn
from holdfast.apps.agents.profiler.page import render
from holdfast.apps.agents.profiler.relations import correlate
from holdfast.apps.agents.profiler.shape import ColumnProfile, FileFacts, Profile
from holdfast.apps.agents.profiler.totals import (
    Sample,
    approximate_distinct,
    count_all,
    duplicate_rows,
    in_parts,
    sample_of,
)
from holdfast.apps.agents.reading import Table, open_table, scratch_folder
from holdfast.apps.agents.report import write_json
from holdfast.lifecycles.analysis.tools import Job, wrong_format

NAME = "unified-profiler"
looked_through_rows = 1_000


def profile(job: Job) -> None:
    """Profile the primary file into profile.json and report.html. Raises SchemaInvalid for what cannot be read."""
    options = job.options(ProfilerOptions, NAME)
    with scratch_folder(job) as scratch:
        table = narrow(open_table(job, job.primary, scratch), options)
        found = profile_table(table, options, scratch)
    write_json(job.folder / "profile.json", asdict(found))
    (job.folder / "report.html").write_text(render(found), encoding="utf-8")


def narrow(table: Table, options: ProfilerOptions) -> Table:
    """The table with the columns that were asked for. Raises SchemaInvalid for one that it does not have."""
    if options.columns is None:
        return table
    if unknown := [name for name in options.columns if name not in table.names]:
        raise wrong_format(f"parameters.json: {NAME}.columns: {table.filename} has no column {unknown[0]}.")
    return table.only(options.columns)


def profile_table(table: Table, options: ProfilerOptions, scratch: Path) -> Profile:
    """Everything that profile.json says."""
    totals = count_all(table)
    sample = sample_of(table, options.sample_rows)
    distinct = {} if sample.whole else approximate_distinct(table, table.names)
    start = table.frame.head(looked_through_rows).collect(engine="streaming")
    columns = tuple(
        profile_column(table, column, totals[column.name], held, distinct.get(column.name), start, options)
        for part, held in in_parts(table, sample, totals)
        for column in part
    )
    file = facts(table, columns, sample, duplicate_rows(table, scratch) if options.duplicates else None)
    relations = correlate(table, columns, options.max_correlated_columns) if options.correlations else None
    return Profile(file, columns, relations, warn(file, columns, relations))


def facts(table: Table, columns: tuple[ColumnProfile, ...], sample: Sample, duplicates: int | None) -> FileFacts:
    missing = sum(column.missing.count for column in columns)
    return FileFacts(
        name=table.filename,
        format=table.format,
        delimiter=table.delimiter,
        compressed=table.compressed,
        bytes=table.bytes,
        rows=table.rows,
        columns=len(columns),
        missing_cells=missing,
        missing_share=missing / (table.rows * len(columns)),
        duplicate_rows=duplicates,
        duplicate_share=None if duplicates is None else duplicates / table.rows,
        sampled_rows=sample.rows,
        notes=table.notes,
    )
