"""Find what a text names: dates, money, shares, addresses, numbers to call, organisations, persons, places, languages.

By rules and a list of names, without a model: what has a shape or is known is found, with the same answer each time,
and a person without a title or a firm without its legal form is not. Where two findings overlap the longer one stays.
No text takes time out of proportion to its length: every rule is bounded, and looks at a window at a time.
"""

from collections.abc import Iterator

from holdfast.apps.documents.steps.chunk import windows
from holdfast.apps.documents.steps.entities.entity import Entity as Entity
from holdfast.apps.documents.steps.entities.gazetteer import known_names
from holdfast.apps.documents.steps.entities.names import organisations, persons
from holdfast.apps.documents.steps.entities.shapes import shaped

window_characters = 100_000
most_entities = 20_000


def find_entities(text: str) -> list[Entity]:
    """What the text names, in its order, none overlapping another: the first 20,000."""
    found: list[Entity] = []
    for start, end in windows(text, window_characters):
        found += (
            Entity(each.kind, each.value, each.text, start + each.start, start + each.end)
            for each in longest(text[start:end], candidates(text[start:end]))
        )
        if len(found) >= most_entities:
            return found[:most_entities]
    return found


def candidates(text: str) -> Iterator[Entity]:
    """All that any rule finds; of two of the same length the earlier rule's counts."""
    yield from shaped(text)
    people = list(persons(text))
    yield from people
    yield from organisations(text, people)
    yield from known_names(text)


def longest(text: str, found: Iterator[Entity]) -> list[Entity]:
    """Those that no longer one overlaps, in the order of the text."""
    taken = bytearray(len(text))
    kept = []
    for each in sorted(found, key=lambda each: each.start - each.end):
        # None that was taken is shorter, so what overlaps covers the first or the last character.
        if not taken[each.start] and not taken[each.end - 1]:
            taken[each.start : each.end] = b"\x01" * (each.end - each.start)
            kept.append(each)
    return sorted(kept, key=lambda each: each.start)
