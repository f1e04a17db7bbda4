"""`holdfast lifecycle`: a lifecycle of one's own, shown, drawn, declared and proven from the command line."""

import json
from pathlib import Path

import pytest

from holdfast.lifecycles import LIFECYCLES
from holdfast.testing import Database
from tests.cli.keyboard import typed_alone as holdfast

OWN = Path(__file__).parents[2] / "examples" / "review.py"


def test_the_declared_ones_are_listed(database: Database) -> None:
    listed = holdfast("lifecycle", "ls", HOLDFAST_URL=database.owner_url)
    names = sorted(lifecycle.name for lifecycle in LIFECYCLES)
    assert [line.split()[0] for line in listed.out.splitlines()] == ["name", *names]
    as_json = holdfast("lifecycle", "ls", "--json", HOLDFAST_URL=database.owner_url)
    assert [one["name"] for one in json.loads(as_json.out)] == names


def test_one_of_ones_own_is_printed_and_drawn_without_a_database(tmp_path: Path) -> None:
    nowhere = "postgresql://a@127.0.0.1:1/b"
    printed = holdfast("lifecycle", "show", f"{OWN}:REVIEW", HOLDFAST_URL=nowhere)
    assert "| CHECKING" in printed.out
    drawn = holdfast(
        "lifecycle", "draw", f"{OWN}:REVIEW", "--state", "DRAFT", "-o", str(tmp_path / "r.svg"), HOLDFAST_URL=nowhere
    )
    assert (drawn.code, drawn.out) == (0, "")
    assert "it is here now" in (tmp_path / "r.svg").read_text()
    assert holdfast("lifecycle", "draw", f"{OWN}:REVIEW", "--as", "mermaid", HOLDFAST_URL=nowhere).out.startswith(
        "stateDiagram"
    )


def test_one_of_ones_own_is_declared_and_then_known_by_name(database: Database) -> None:
    for _ in range(2):
        declared = holdfast("lifecycle", "declare", f"{OWN}:REVIEW", HOLDFAST_URL=database.owner_url)
        assert declared.out == "review is declared, version 1.\n"
    assert "| CHECKING" in holdfast("lifecycle", "show", "review", HOLDFAST_URL=database.owner_url).out


def test_a_broken_one_is_refused_with_the_remedy(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(OWN.read_text().replace('start="DRAFT"', 'start="DARFT"'))
    refused = holdfast("lifecycle", "show", f"{broken}:REVIEW")
    assert (refused.code, refused.out) == (2, "")
    assert "starts in 'DARFT'" in refused.err
    assert "Its states are" in refused.err


@pytest.mark.parametrize("name", ["nope", "nope.py:X", "no.such.module:X", f"{OWN}:MISSING", f"{OWN}:main"])
def test_what_is_not_there_is_not_found(name: str, database: Database) -> None:
    missing = holdfast("lifecycle", "show", name, HOLDFAST_URL=database.owner_url)
    assert (missing.code, missing.out) == (3, "")
    assert "No lifecycle has this name." in missing.err
    assert "Traceback" not in missing.err


def test_a_history_that_holds_is_exit_0_and_a_lie_is_exit_1(database: Database) -> None:
    database.ask_owner("select holdfast.submit('work')")
    held = holdfast("lifecycle", "verify", HOLDFAST_URL=database.owner_url)
    assert (held.code, held.out) == (0, "Every history holds.\n")
    database.ask_owner("with gone as (delete from holdfast.event returning 1) select count(*) from gone")
    broken = holdfast("lifecycle", "verify", HOLDFAST_URL=database.owner_url)
    assert (broken.code, "it has no events" in broken.out) == (1, True)
