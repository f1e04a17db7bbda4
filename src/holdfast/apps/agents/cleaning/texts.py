"""Texts that can be written better: categories in several spellings, and columns that hold two things in one text."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from holdfast.apps.agents.cleaning.script import column_code

categories_most = 500
rarer_by = 10  # a slip is at least so many times rarer than what was meant
slip_least_letters = 5


def spellings(values: pl.Series) -> dict[str, str]:
    """Each spelling that differs from the most frequent one of its category only in case, space or punctuation.

    Empty for columns that hold no categories: too many different values, or hardly any repeated.
    """
    counts = _count_spellings(values)
    best: dict[str, str] = {}
    changed = {}
    for spelling in counts:
        key = _fold(spelling)
        if key and best.setdefault(key, spelling) != spelling:
            changed[spelling] = best[key]
    return changed


def slips(values: pl.Series, unified: Mapping[str, str]) -> dict[str, str]:
    """Rare spellings that are one letter away from a much more frequent one. A guess: Lima is not Lime."""
    counts: Counter[str] = Counter()
    for spelling, count in _count_spellings(values).items():
        counts[unified.get(spelling, spelling)] += count
    known = [one for one in counts if len(one) >= slip_least_letters and not re.search(r"\d", one)]
    changed = {}
    for rare in known:
        near = [one for one in known if counts[one] >= rarer_by * counts[rare] and one_letter_away(rare, one)]
        if near:
            changed[rare] = near[0]
    return {rare: meant for rare, meant in changed.items() if meant not in changed}


def _count_spellings(values: pl.Series) -> dict[str, int]:
    """How often each trimmed spelling occurs, the most frequent first."""
    trimmed = values.drop_nulls().str.strip_chars().str.replace_all(r"\s+", " ").alias("value")
    counts = trimmed.filter(trimmed != "").value_counts().sort("count", "value", descending=[True, False])
    if counts.height > categories_most or counts.height > 0.5 * len(trimmed):
        return {}
    return dict(counts.iter_rows())


def _fold(text: str) -> str:
    # Punctuation counts where digits are: 1.5 is not 15.
    return text.casefold() if re.search(r"\d", text) else re.sub(r"[\W_]+", " ", text.casefold()).strip()


def one_letter_away(first: str, second: str) -> bool:
    """Whether one letter was added, left out, replaced, or swapped with its neighbour."""
    a, b = sorted((first.casefold(), second.casefold()), key=len)
    if len(b) - len(a) > 1 or a == b:
        return False
    start = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))
    if len(a) < len(b):
        return a[start:] == b[start + 1 :]
    swapped = a[start : start + 2] == b[start : start + 2][::-1] and a[start + 2 :] == b[start + 2 :]
    return swapped or a[start + 1 :] == b[start + 1 :]


_coordinates = r"^\s*(-?[0-9]{1,3}\.[0-9]+)\s*[,;]\s*(-?[0-9]{1,3}\.[0-9]+)\s*$"
_measure = r"^\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s?([A-Za-zµ°]{1,6}[²³]?)\s*$"
_separators = (" | ", "|", ";", " / ", " - ", ", ", "_", "/", ":")


@dataclass(frozen=True)
class Split:
    """How a column is divided: a pattern with a group for each part, and the names of the parts."""

    pattern: str
    parts: tuple[str, ...]
    what: str
    numbers: tuple[int, ...] = ()

    def code(self, column: str, names: list[str]) -> str:
        """The expressions of the parts, as code."""
        cast = [".cast(pl.Float64, strict=False)" if i in self.numbers else "" for i in range(len(names))]
        return ", ".join(
            f"{column_code(column)}.str.extract({self.pattern!r}, {i + 1}){cast[i]}.alias({name!r})"
            for i, name in enumerate(names)
        )


def find_split(values: pl.Series, least: float) -> Split | None:
    """How a column can be divided, if at least this share of its values can; None for plain columns and prose."""
    if len(values) < 20:
        return None
    if _share(values, _coordinates) >= least:
        return Split(_coordinates, ("latitude", "longitude"), "two coordinates", (0, 1))
    if _share(values, _measure) >= least and values.str.extract(_measure, 2).n_unique() <= 10:
        return Split(_measure, ("value", "unit"), "a number with its unit", (0,))
    for separator in _separators:
        counts = values.str.count_matches(separator, literal=True)
        often = counts.mode()[0]
        if 1 <= often <= 3 and float((counts == often).mean() or 0) >= least and _short(values):
            escaped = separator.replace("|", r"\|")
            pattern = "^" + escaped.join([r"\s*(.*?)\s*"] * (often + 1)) + "$"
            return Split(
                pattern, tuple(str(i + 1) for i in range(often + 1)), f"{often + 1} parts divided by {separator!r}"
            )
    return None


def _share(values: pl.Series, pattern: str) -> float:
    return float(values.str.contains(pattern).mean() or 0)  # type: ignore[arg-type]


def _short(values: pl.Series) -> bool:
    """Whether these are short, and not addresses on the web, times or dates."""
    plain = _share(values, r"://|\d:\d\d|^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}") < 0.05
    return plain and float(values.str.len_chars().mean() or 0) <= 60  # type: ignore[arg-type]
