"""Lists of words that the rules need, from data/words.txt."""

from functools import cache
from pathlib import Path

FILE = Path(__file__).parent / "data" / "words.txt"


@cache
def word_lists() -> dict[str, frozenset[str]]:
    """All lists by name."""
    lists: dict[str, frozenset[str]] = {}
    name = ""
    for line in FILE.read_text("utf-8").splitlines():
        if line.endswith(":"):
            name = line.removesuffix(":")
        elif line.strip() and not line.startswith("#"):
            lists[name] = lists.get(name, frozenset()) | frozenset(line.split())
    return lists


def word_list(name: str) -> frozenset[str]:
    """The words of one list. Raises KeyError."""
    return word_lists()[name]
