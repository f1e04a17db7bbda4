"""Warnings to read before using the data, in plain sentences, the gravest first."""

from collections.abc import Iterator

from holdfast.apps.agents.profiler.shape import ColumnProfile, Correlations, FileFacts, Severity, Warned
from holdfast.apps.agents.report import count_noun, number, share

GRAVITY: dict[Severity, int] = {"high": 0, "medium": 1, "low": 2}
missing_high, missing_medium = 0.5, 0.1
skew_much, skew_some = 5.0, 2.0
outliers_many = 0.05
imbalance = 0.95
close = 0.95
NAMES = {"pearson": "Pearson", "spearman": "Spearman", "cramers_v": "Cramér's V"}
earliest_plausible, latest_plausible = "1900", "2100"


def warn(file: FileFacts, columns: tuple[ColumnProfile, ...], relations: Correlations | None) -> tuple[Warned, ...]:
    """Every warning, by severity, then in the order of the file."""
    found = [*of_file(file)]
    for column in columns:
        found += [Warned(severity, code, column.name, message) for severity, code, message in of_column(column)]
    if relations:
        found += of_pairs(relations)
    return tuple(sorted(found, key=lambda one: GRAVITY[one.severity]))


def of_file(file: FileFacts) -> Iterator[Warned]:
    if file.duplicate_rows:
        part = file.duplicate_rows / file.rows
        grave: Severity = "high" if part >= 0.1 else "medium"
        rows = count_noun(file.duplicate_rows, "row is a copy of an earlier one", "rows are copies of earlier ones")
        yield Warned(grave, "duplicate_rows", None, f"{rows} ({share(part)}).")
    for note in file.notes:
        yield Warned("low", "reading", None, note)


Finding = tuple[Severity, str, str]


def of_column(column: ColumnProfile) -> Iterator[Finding]:
    """Severity, code and message of each warning about a column."""
    if column.type == "empty":
        yield "high", "empty", "Every value is missing."
        return
    yield from of_missing(column)
    if column.mixed:
        values = count_noun(column.mixed.count, "value is", "values are")
        kind = {"integer": "whole numbers", "decimal": "numbers", "boolean": "yes or no", "date": "dates"}
        almost = f"Nearly all values are {kind.get(column.mixed.almost, 'times')}"
        yield "high", "mixed_types", f"{almost}, but {values} not, so the column is read as text."
    if column.type == "constant":
        yield "medium", "constant", "Every value is the same, so the column tells nothing apart."
    if column.type == "identifier":
        yield "low", "identifier", "Nearly every value is different: it is likely an identifier."
    yield from of_numbers(column)
    yield from of_dates(column)
    yield from of_text(column)


def of_missing(column: ColumnProfile) -> Iterator[Finding]:
    part = column.missing.share
    if part >= missing_medium:
        grave: Severity = "high" if part >= missing_high else "medium"
        yield grave, "missing", f"{share(part)} of the values are missing ({column.missing.count:,})."
    if column.missing.words:
        listed = ", ".join(f"{text or 'an empty text'} ({count:,})" for text, count in column.missing.words.items())
        yield "low", "missing_words", f"Some texts may mean that a value is missing: {listed}."


def of_numbers(column: ColumnProfile) -> Iterator[Finding]:
    numbers = column.numbers
    if not numbers or column.type not in ("integer", "decimal"):
        return
    if numbers.skew is not None and abs(numbers.skew) >= skew_some:
        side = "right" if numbers.skew > 0 else "left"
        tail = f"The values have a long tail to the {side} (skewness {number(numbers.skew, 3)})"
        median, mean = number(numbers.quantiles["p50"]), number(numbers.mean)
        grave: Severity = "medium" if abs(numbers.skew) >= skew_much else "low"
        yield grave, "skewed", f"{tail}: the median ({median}) says more than the mean ({mean})."
    if (outliers := numbers.outliers) and outliers.share >= outliers_many:
        beyond = f"below {number(outliers.low)} or over {number(outliers.high)}"
        yield "low", "outliers", f"{share(outliers.share)} of the values are outliers, {beyond}."
    if numbers.infinite:
        yield "medium", "infinite", f"{count_noun(numbers.infinite, 'value is', 'values are')} infinite."


def of_dates(column: ColumnProfile) -> Iterator[Finding]:
    if not column.dates:
        return
    if column.dates.future:
        dates = count_noun(column.dates.future, "date is", "dates are")
        yield "medium", "future_dates", f"{dates} in the future; the last is {column.dates.max[:10]}."
    for day in (column.dates.min, column.dates.max):
        if not earliest_plausible <= day[:4] < latest_plausible or len(day.partition("-")[0]) != 4:
            yield "medium", "implausible_dates", f"There is a date that can hardly be meant: {day}."


def of_text(column: ColumnProfile) -> Iterator[Finding]:
    if column.text and column.text.padded:
        texts = count_noun(column.text.padded, "text has", "texts have")
        yield "low", "padded", f"{texts} blanks before or after."
    if column.type in ("category", "boolean") and column.top_values and column.top_values[0].share >= imbalance:
        first = column.top_values[0]
        yield "low", "imbalanced", f"{share(first.share)} of the values are the same one: {first.value}."


def of_pairs(relations: Correlations) -> Iterator[Warned]:
    for pair in relations.strongest:
        if abs(pair.value) >= close:
            message = (
                f"It goes along with {pair.second} almost exactly ({NAMES[pair.measure]} {number(pair.value, 3)})."
            )
            yield Warned("medium", "correlated", pair.first, message)
    if relations.left_out:
        columns = count_noun(len(relations.left_out), "column was", "columns were")
        message = f"{columns} left out of the correlations; raise max_correlated_columns to have them in."
        yield Warned("low", "correlations_left_out", None, message)
