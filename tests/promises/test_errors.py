"""Every error says what is wrong, what it means here and what to do; the tree in the docstring is the tree."""

import inspect
import re

import pytest

from holdfast import errors
from holdfast.errors import DatabaseUnreachable, HoldfastError

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, HoldfastError)]


def test_the_drawn_tree_is_the_real_tree() -> None:
    drawn: dict[str, str | None] = {}
    above: list[tuple[int, str]] = []
    for found in re.finditer(r"^([ │├└─]*)(\w+)$", errors.__doc__ or "", re.MULTILINE):
        depth, name = len(found[1]), found[2]
        above = [entry for entry in above if entry[0] < depth]
        drawn[name] = above[-1][1] if above else None
        above.append((depth, name))
    real = {
        kind.__name__: kind.__base__.__name__ if kind is not HoldfastError else None
        for kind in CLASSES
        if kind.__base__
    }
    assert drawn == real


def test_no_two_classes_share_a_code() -> None:
    sqlstates = [kind.sqlstate for kind in CLASSES if vars(kind).get("sqlstate")]
    assert len(sqlstates) == len(set(sqlstates))
    http_codes = [kind.http_code for kind in CLASSES]
    assert len(http_codes) == len(set(http_codes))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_each_class_has_a_sentence_and_an_exit_code(kind: type[HoldfastError]) -> None:
    assert re.fullmatch(r"[A-Z].*\.", kind("x").title)
    assert kind.exit_code in (1, 2, 3, 4, 5, 7)
    assert 400 <= kind.http_status < 600


def test_no_two_classes_share_an_sqlstate() -> None:
    states = [vars(kind)["sqlstate"] for kind in CLASSES if vars(kind).get("sqlstate")]
    assert len(states) == len(set(states))


def test_the_message_is_what_why_and_remedy() -> None:
    error = DatabaseUnreachable("db:5432: refused.", fix="Start it.")
    assert str(error) == "The database does not answer.\ndb:5432: refused.\nStart it."
