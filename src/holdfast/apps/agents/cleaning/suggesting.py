"""Finds what to clean, column by column, in a sample; how many rows each step changes is counted over all of them."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace

import polars as pl

from holdfast.apps.agents.cleaning import script
from holdfast.apps.agents.cleaning.script import Reading, Step
from holdfast.apps.agents.cleaning.texts import find_split, slips, spellings
from holdfast.apps.agents.options import CleaningOptions, SuggestionKind
from holdfast.apps.agents.outlying import fences
from holdfast.apps.agents.personal import Curtain, redact
from holdfast.apps.agents.report import count_noun, number
from holdfast.apps.agents.signs import (
    MISSING_MARKERS,
    date_format,
    exactly,
    names_rows,
    number_format,
    present,
)

# How much each kind of step is worth to those who use the table afterwards; times the share of rows it changes.
WORTH = {
    "drop_duplicates": 1.0, "missing_markers": 0.9, "parse_numbers": 0.8, "parse_dates": 0.8, "unify_categories": 0.7,
    "near_equal_categories": 0.6, "trim": 0.5, "outliers": 0.5, "drop_empty": 0.3, "drop_constant": 0.2, "split": 0.2,
}  # fmt: skip
never_numbers = {"phone", "card", "iban", "national_id", "postal_address", "ip_address", "secret"}


class Suggester:
    """Looks at the columns of one sample with the same options; `readings` says how the texts of some are read."""

    def __init__(
        self, sample: pl.DataFrame, types: Mapping[str, pl.DataType], options: CleaningOptions, curtain: Curtain
    ) -> None:
        self.sample = sample
        self.types = types
        self.options = options
        self.curtain = curtain
        self.markers = [*MISSING_MARKERS, *(marker.strip().lower() for marker in options.missing_markers)]
        self.taken = set(sample.columns)
        self.readings: list[Reading] = []

    def look(self, name: str) -> Iterator[Step]:
        """Everything to do with one column."""
        column = self.sample[name]
        values = column.drop_nulls()
        if column.dtype == pl.String:
            values = present(column)
            values = values.filter(~values.str.to_lowercase().is_in(self.markers))
        drop = f"table = table.drop(cs.by_name({name!r}))"
        if values.is_empty():
            yield Step("drop_empty", name, "It holds nothing in any row that was looked at.", drop, pl.lit(True))
        elif len(values) == self.sample.height > 1 and values.n_unique() == 1:
            yield Step("drop_constant", name, "Every row that was looked at has the same value.", drop, pl.lit(True))
        elif column.dtype == pl.String:
            yield from self._look_at_texts(name, column, values)
        else:
            yield from self._suggest_for_outliers(name, column, exactly(name))

    def _look_at_texts(self, name: str, column: pl.Series, values: pl.Series) -> Iterator[Step]:
        yield from self._trim(name, column)
        yield from self._suggest_for_missing(name, column)
        if reading := (yield from self._parse(name, values)):
            self.readings.append(reading)
            numbers = self.sample.select(reading.value.alias(name)).to_series()
            yield from self._suggest_for_outliers(name, numbers, reading.value)
        else:
            yield from self._unify(name, values)
            yield from self._split(name, values)

    def _trim(self, name: str, column: pl.Series) -> Iterator[Step]:
        if column.str.contains(r"^\s|\s$|\s\s").any():
            why = "Space around or doubled inside the text makes equal values differ."
            clean = script.trim(name)
            yield Step("trim", name, why, script.assign(f"trimmed({name!r})"), exactly(name) != clean, clean)

    def _suggest_for_missing(self, name: str, column: pl.Series) -> Iterator[Step]:
        low = column.drop_nulls().str.strip_chars().str.to_lowercase()
        used = sorted(low.filter(low.is_in(self.markers)).unique().to_list())
        if used:
            listed = ", ".join(repr(marker) for marker in used)
            is_marker = exactly(name).str.strip_chars().str.to_lowercase().is_in(self.markers)
            yield Step(
                "missing_markers", name, f"What is missing is written as {listed}; programs take that for a value.",
                script.assign(f"without_markers({name!r})"), is_marker,
                pl.when(~is_marker).then(exactly(name)), evidence={"markers": used},
            )  # fmt: skip

    def _parse(self, name: str, values: pl.Series) -> Generator[Step, None, Reading | None]:
        """How the texts are read as dates or numbers; a step of its own if that is not obvious to every program."""
        if self.curtain.columns.get(name) in never_numbers:
            return None
        kind: SuggestionKind
        if (dates := date_format(values, self.options.parse_share)) is not None:
            kind, form = "parse_dates", dates[0]
            value, code = form.read(exactly(name)), script.date_code(name, form)
            why = f"Dates are written as {form.pattern}; read as dates they can be sorted and compared."
            if form.ambiguous:
                why += " Day and month could also be the other way round: look before you use it."
            plain, sure = form.pattern.startswith("%Y-%m-%d"), not form.ambiguous and form.pattern != "%Y%m%d"
            evidence: dict[str, object] = {"format": form.pattern, "ambiguous": form.ambiguous}
        elif (numbers := number_format(values, self.options.parse_share)) is not None:
            kind, writing = "parse_numbers", numbers[0]
            value = writing.read(exactly(name))
            code = script.number_code(name, writing, whole=self.types.get(name) == pl.Int64)
            why = f"Numbers are written as text ({writing.describe()}); programs cannot compute with them."
            plain, sure = writing.describe() == "plain", True
            evidence = {"format": writing.describe()}
        else:
            return None
        text = exactly(name).str.strip_chars()
        lost = value.is_null() & text.is_not_null() & ~text.str.to_lowercase().is_in(self.markers)
        misfits = self.sample.select(text.filter(lost).unique(maintain_order=True)).to_series()
        plain = plain and misfits.is_empty() and self.types.get(name) != pl.String
        if not misfits.is_empty():
            examples = ", ".join(repr(one) for one in self.curtain.show_all(name, misfits.head(3)))
            why, sure = f"{why} What cannot be read is cleared, such as {examples}.", False
        if not plain:
            changed = text.is_not_null() & (text != "")
            yield Step(kind, name, why, script.assign(code), changed, value, lost, sure, evidence=evidence)
        return Reading(name, value, code, lost, plain)

    def _suggest_for_outliers(self, name: str, numbers: pl.Series, value: pl.Expr) -> Iterator[Step]:
        if not numbers.dtype.is_numeric() or name in self.curtain.columns or names_rows(numbers.drop_nulls()):
            return
        found = fences(numbers.alias(name), self.options.outlier_distance)
        if found is None or not self.sample.select(found.beyond(value).any()).item():
            return
        between = f"{number(found.low)} to {number(found.high)}"
        column = script.column_code(name)
        if self.options.outliers == "cap":
            why = f"Values outside {between} are moved to that border."
            code, after = f"{column}.clip({found.low!r}, {found.high!r})", value.clip(found.low, found.high)
        else:
            flag = self._new_name(f"{name}_outlier")
            why = f"Values outside {between} are far from the others; a new column marks them, to be looked at."
            code = f"(({column} < {found.low!r}) | ({column} > {found.high!r})).alias({flag!r})"
            after = pl.lit("marked")
        evidence: dict[str, object] = {"low": found.low, "high": found.high, "median": found.median}
        yield Step("outliers", name, why, script.assign(code), found.beyond(value), after, evidence=evidence)

    def _unify(self, name: str, values: pl.Series) -> Iterator[Step]:
        if name in self.curtain.columns:
            return  # the script would spell out what the report masks
        unified = _impersonal(spellings(values))
        if unified:
            why = f"{count_noun(len(set(unified.values())), 'category is', 'categories are')} written in several ways."
            yield self._suggest_replacement("unify_categories", name, why, unified, sure=True)
        guessed = _impersonal(slips(values, unified))
        if guessed:
            rare = count_noun(len(guessed), "rare spelling is", "rare spellings are")
            why = f"{rare} one letter away from a frequent one: probably a slip."
            yield self._suggest_replacement("near_equal_categories", name, why, guessed, sure=False)

    def _suggest_replacement(
        self, kind: SuggestionKind, name: str, why: str, mapping: Mapping[str, str], sure: bool
    ) -> Step:
        after = script.trim(name).replace(mapping)
        code = script.assign(f"trimmed({name!r}).replace({dict(mapping)!r})")
        changed = script.trim(name).is_in(list(mapping))
        return Step(kind, name, why, code, changed, after, sure=sure, evidence={"spellings": len(mapping)})

    def _split(self, name: str, values: pl.Series) -> Iterator[Step]:
        found = find_split(values, self.options.parse_share)
        if found is None or name in self.curtain.columns:
            return
        names = [self._new_name(f"{name}_{part}") for part in found.parts]
        parts = [exactly(name).str.extract(found.pattern, i + 1) for i in range(len(names))]
        yield Step(
            "split", name, f"It holds {found.what}; the new columns {', '.join(names)} hold one each.",
            script.assign(found.code(name, names)), exactly(name).str.contains(found.pattern),
            pl.concat_str(parts, separator="  |  "), sure=False, evidence={"new_columns": names},
        )  # fmt: skip

    def _new_name(self, wanted: str) -> str:
        while wanted in self.taken:
            wanted += "_"
        self.taken.add(wanted)
        return wanted


def with_examples(step: Step, sample: pl.DataFrame, curtain: Curtain) -> Step:
    """The step with up to three values before and after it, masked where they are personal."""
    if step.column is None or step.after is None:
        return step
    pairs = (
        sample.lazy().filter(step.changed)
        .select(exactly(step.column).cast(pl.String).alias("before"), step.after.cast(pl.String).alias("after"))
        .unique(maintain_order=True).head(3).collect()
    )  # fmt: skip
    show = curtain.show
    name = step.column
    examples = [(show(name, b), "(missing)" if a is None else show(name, a)) for b, a in pairs.iter_rows()]
    return replace(step, examples=examples)


def _impersonal(mapping: Mapping[str, str]) -> dict[str, str]:
    """Without what looks personal: the script shows values as they are."""
    return {old: new for old, new in mapping.items() if redact(old) == old and redact(new) == new}
