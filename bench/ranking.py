"""How good a ranked list is, and how two lists become one.

`relevant` says which names are worth how much: 2, or 1 for a little.
"""

import math
from collections.abc import Mapping, Sequence


def gain(ranking: Sequence[str], relevant: Mapping[str, int], places: int = 10) -> float:
    """nDCG: what stands at the top counts in full, further down less and less; 1 is the best list there can be."""
    got = discounted([relevant.get(name, 0) for name in ranking[:places]])
    best = discounted(sorted(relevant.values(), reverse=True)[:places])
    return got / best if best else 0.0


def discounted(grades: Sequence[int]) -> float:
    return sum((2.0**grade - 1) / math.log2(place + 2) for place, grade in enumerate(grades))


def recall(ranking: Sequence[str], relevant: Mapping[str, int], places: int = 10) -> float:
    """The share of what is relevant, a little or more, that is among the first."""
    wanted = {name for name, grade in relevant.items() if grade > 0}
    return len(wanted & set(ranking[:places])) / len(wanted) if wanted else 0.0


def reciprocal(ranking: Sequence[str], relevant: Mapping[str, int], places: int = 10) -> float:
    """1 over the place of the first that is relevant, whose mean is the MRR; 0 if it is not among the first."""
    return next((1 / place for place, name in enumerate(ranking[:places], 1) if relevant.get(name, 0) > 0), 0.0)


def fused(by_text: Sequence[str], by_vector: Sequence[str], *, k: float, weight: float) -> list[str]:
    """One list of two by reciprocal ranks: (1 - weight) / (k + place) in one, weight / (k + place) in the other."""
    scores: dict[str, float] = {}
    for ranking, share in ((by_text, 1 - weight), (by_vector, weight)):
        for place, name in enumerate(ranking, 1):
            scores[name] = scores.get(name, 0.0) + share / (k + place)
    return sorted(scores, key=lambda name: (-scores[name], name))
