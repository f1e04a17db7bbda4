"""Categories that are one: written in another case, with other punctuation, or with one letter wrong."""

import re
from collections.abc import Mapping

import polars as pl

categories_most = 500
rarer_by = 10  # a slip is at least so many times rarer than what was meant
slip_least_letters = 5


def spellings(values: pl.Series) -> dict[str, str]:
    """Each spelling that differs from the most frequent one of its category only in case, space or punctuation.

    Empty for columns that hold no categories: too many different values, or hardly any repeated.
    """
    counts = _counted(values)
    best: dict[str, str] = {}
    changed = {}
    for spelling in counts:
        key = _folded(spelling)
        if key and best.setdefault(key, spelling) != spelling:
            changed[spelling] = best[key]
    return changed


def slips(values: pl.Series, unified: Mapping[str, str]) -> dict[str, str]:
    """Rare spellings that are one letter away from a much more frequent one. A guess: Lima is not Lime."""
    counts: dict[str, int] = {}
    for spelling, count in _counted(values).items():
        meant = unified.get(spelling, spelling)
        counts[meant] = counts.get(meant, 0) + count
    known = [one for one in counts if len(one) >= slip_least_letters and not re.search(r"\d", one)]
    changed = {}
    for rare in known:
        near = [one for one in known if counts[one] >= rarer_by * counts[rare] and one_letter_away(rare, one)]
        if near:
            changed[rare] = near[0]
    return {rare: meant for rare, meant in changed.items() if meant not in changed}


def _counted(values: pl.Series) -> dict[str, int]:
    """How often each trimmed spelling occurs, the most frequent first."""
    trimmed = values.drop_nulls().str.strip_chars().str.replace_all(r"\s+", " ").alias("value")
    counts = trimmed.filter(trimmed != "").value_counts().sort("count", "value", descending=[True, False])
    if counts.height > categories_most or counts.height > 0.5 * len(trimmed):
        return {}
    return dict(counts.iter_rows())


def _folded(text: str) -> str:
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
