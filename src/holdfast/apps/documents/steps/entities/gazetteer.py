"""Names that are known: countries, larger cities, currencies, languages.

`names.tsv` has a line for each: its kind, its value, and the ways to write it.
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from holdfast.apps.documents.steps.entities.entity import Entity


def known_names(text: str) -> Iterator[Entity]:
    """Each known name that stands as whole words, written as in the list."""
    automaton, meant = load()
    for number, start, end in automaton.find_matches_as_indexes(text, overlapping=True):
        if not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
            kind, value = meant[number]
            yield Entity(kind, value, text[start:end], start, end)


@cache
def load() -> tuple[Any, list[tuple[str, str]]]:
    """What finds the names, and the kind and the value of each."""
    from ahocorasick_rs import AhoCorasick

    names: list[str] = []
    meant: list[tuple[str, str]] = []
    for line in files(__package__).joinpath("names.tsv").read_text("utf-8").splitlines():
        kind, value, variants = line.split("\t")
        for name in variants.split("|"):
            names.append(name)
            meant.append((kind, value))
    return AhoCorasick(names), meant
