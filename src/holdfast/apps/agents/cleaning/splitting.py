"""Columns that hold two or more things in one text, such as 52.5,13.4 or 12 kg."""

from dataclasses import dataclass

import polars as pl

from holdfast.apps.agents.cleaning.steps import column_code

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
    """Whether these are no sentences, addresses on the web, times or dates."""
    plain = _share(values, r"://|\d:\d\d|^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}") < 0.05
    return plain and float(values.str.len_chars().mean() or 0) <= 60  # type: ignore[arg-type]
