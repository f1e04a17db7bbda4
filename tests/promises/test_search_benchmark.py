"""What the search benchmark says can be trusted: its measures are right, and its set is what it says it is."""

import math
from collections import Counter

import pytest
from bench.ranking import fused, gain, recall, reciprocal
from bench.search import passages, queries

WORTH = {"a": 2, "b": 1}


@pytest.mark.parametrize(
    ("ranking", "gained", "recalled", "first"),
    [
        (["a", "b"], 1.0, 1.0, 1.0),
        (["b", "a"], (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)), 1.0, 1.0),
        (["x", "a"], (3 / math.log2(3)) / (3 + 1 / math.log2(3)), 0.5, 0.5),
        (["x"] * 9 + ["a"], (3 / math.log2(11)) / (3 + 1 / math.log2(3)), 0.5, 0.1),
        (["x"] * 10 + ["a", "b"], 0.0, 0.0, 0.0),
        ([], 0.0, 0.0, 0.0),
    ],
    ids=["best", "the wrong way round", "one missing", "the last place", "too far down", "nothing"],
)
def test_a_list_is_worth_what_stands_where(ranking: list[str], gained: float, recalled: float, first: float) -> None:
    assert gain(ranking, WORTH) == pytest.approx(gained)
    assert recall(ranking, WORTH) == recalled
    assert reciprocal(ranking, WORTH) == first


def test_lists_are_joined_by_places_and_weights() -> None:
    assert fused(["a", "b"], ["b", "c"], k=60, weight=0.5) == ["b", "a", "c"]
    assert fused(["a", "b"], ["c"], k=60, weight=0.9) == ["c", "a", "b"]
    assert fused(["a"], ["b"], k=0, weight=0.5) == ["a", "b"]
    assert fused([], [], k=60, weight=0.5) == []


def test_the_set_is_large_enough_even_and_only_names_what_is_there() -> None:
    texts, asked = passages(), queries()
    assert len(texts) >= 120
    assert len(set(texts.values())) == len(texts)
    assert len({query.text for query in asked}) == len(asked) >= 66
    kinds = Counter(query.kind for query in asked)
    assert set(kinds) == {"keyword", "paraphrase", "mixed"}
    assert max(kinds.values()) - min(kinds.values()) <= 2
    for query in asked:
        assert set(query.relevant) <= set(texts)
        assert 2 in query.relevant.values()
        assert set(query.relevant.values()) <= {1, 2}
    assert sum(len(query.relevant) > 1 for query in asked) >= 15
