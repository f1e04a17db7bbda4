"""The numbers that compare two samples, each in a few lines.

PSI (population stability index) and the Jensen-Shannon distance compare shares; Kolmogorov-Smirnov compares whole
distributions of numbers; chi-square compares counts. P-values are the usual large-sample ones: fine from some fifty
values on, rough below.
"""

from collections.abc import Sequence
from math import erfc, exp, lgamma, log, log2, sqrt

import polars as pl

least_share = 1e-4  # stands for an empty bin, whose logarithm would be infinite


def psi(expected: Sequence[float], actual: Sequence[float]) -> float:
    """The population stability index of two lists of counts or shares: 0 if the shares are equal."""
    return sum((a - e) * log(a / e) for e, a in zip(_shares(expected), _shares(actual), strict=True))


def _shares(counts: Sequence[float]) -> list[float]:
    total = sum(counts)
    return [max(count / total, least_share) for count in counts]


def jensen_shannon(expected: Sequence[float], actual: Sequence[float]) -> float:
    """The Jensen-Shannon distance with base 2: 0 if the shares are equal, 1 if they have nothing in common."""
    first, second = sum(expected) or 1, sum(actual) or 1
    divergence = 0.0
    for e, a in ((e / first, a / second) for e, a in zip(expected, actual, strict=True)):
        middle = (e + a) / 2
        divergence += sum(x * log2(x / middle) for x in (e, a) if x > 0) / 2
    return sqrt(max(divergence, 0.0))


def kolmogorov_smirnov(expected: pl.Series, actual: pl.Series) -> tuple[float, float]:
    """The largest distance between two cumulative distributions, and how probable one as large is by chance."""
    n, m = len(expected), len(actual)
    both = pl.concat([
        pl.DataFrame({"value": expected.cast(pl.Float64), "step": pl.Series([1 / n]).new_from_index(0, n)}),
        pl.DataFrame({"value": actual.cast(pl.Float64), "step": pl.Series([-1 / m]).new_from_index(0, m)}),
    ])  # fmt: skip
    steps = both.group_by("value").agg(pl.col("step").sum()).sort("value")["step"].cum_sum()
    distance = min(float(steps.abs().max()), 1.0)  # type: ignore[arg-type]
    return distance, kolmogorov_p(distance, n * m / (n + m))


def kolmogorov_p(distance: float, size: float) -> float:
    """The probability of such a distance between samples of one distribution; `size` is n m / (n + m)."""
    root = sqrt(size)
    x = (root + 0.12 + 0.11 / root) * distance  # Stephens' correction for small samples
    if x < 0.2:
        return 1.0
    signed = (exp(-2 * k * k * x * x) * (1 if k % 2 else -1) for k in range(1, 101))
    return min(1.0, max(0.0, 2 * sum(signed)))


def chi_square(expected: Sequence[float], actual: Sequence[float]) -> tuple[float, float]:
    """Pearson's statistic for two rows of counts, and how probable one as large is by chance.

    Categories that are rare in both are joined until five are expected, as the approximation wants.
    """
    first, second = _join_small_cells(expected, actual)
    n, m = sum(first), sum(second)
    if not n or not m or len(first) < 2:
        return 0.0, 1.0
    statistic = 0.0
    for e, a in zip(first, second, strict=True):
        whole = (e + a) / (n + m)
        statistic += (e - whole * n) ** 2 / (whole * n) + (a - whole * m) ** 2 / (whole * m)
    return statistic, chi_square_p(statistic, len(first) - 1)


def _join_small_cells(expected: Sequence[float], actual: Sequence[float]) -> tuple[list[float], list[float]]:
    n, m = sum(expected), sum(actual)
    smaller = min(n, m) / (n + m) if n + m else 0
    pairs = sorted(zip(expected, actual, strict=True), key=lambda pair: -sum(pair))
    kept = [pair for pair in pairs if sum(pair) * smaller >= 5]
    rare = [pair for pair in pairs if 0 < sum(pair) * smaller < 5]
    if rare:
        kept.append((sum(e for e, _ in rare), sum(a for _, a in rare)))
    return [e for e, _ in kept], [a for _, a in kept]


def chi_square_p(statistic: float, freedom: int) -> float:
    """The probability of a larger chi-square statistic.

    It is the upper regularised incomplete gamma function at half the freedom, which is known at 1/2 and 1 and goes up
    by a positive term with each whole step from there.
    """
    x = statistic / 2
    if x <= 0:
        return 1.0
    a, p = (0.5, erfc(sqrt(x))) if freedom % 2 else (1.0, exp(-x))
    while a < freedom / 2:
        p += exp(a * log(x) - x - lgamma(a + 1))
        a += 1
    return min(1.0, p)


def proportions_p(first: int, of_first: int, second: int, of_second: int) -> float:
    """How probable a difference as large between two proportions is by chance."""
    together = (first + second) / (of_first + of_second)
    spread = together * (1 - together) * (1 / of_first + 1 / of_second)
    if spread == 0:
        return 1.0
    return chi_square_p((first / of_first - second / of_second) ** 2 / spread, 1)
