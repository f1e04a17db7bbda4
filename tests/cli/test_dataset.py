"""Datasets from the command line: made of files and addresses, version by version, listed and looked at."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing import Database
from tests.cli.conftest import Keyboard
from tests.http.serving import serving


@pytest.fixture
def typed(
    holdfast: Keyboard, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Keyboard]:
    """The command in a folder with three files, one of them hidden, and a server that is there."""
    for name in ("in/a.wav", "in/b.txt", "in/.hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    with serving(database) as address:
        monkeypatch.setenv("HOLDFAST_API", address)
        yield holdfast


def test_a_dataset_is_made_listed_and_shown(typed: Keyboard) -> None:
    none = typed("dataset")
    assert (none.code, none.out, "holdfast dataset make NAME FILES..." in none.err) == (0, "", True)
    made = typed("dataset", "make", "calls", "in", "s3://bucket/monday.wav")
    assert made.code == 0, made.err
    assert "Left out: 1 hidden (in/.hidden)." in made.err
    assert "calls, version 1: 3 files." in made.err
    assert "holdfast batch submit --dataset calls --wait" in made.err
    (listed,) = typed("dataset", "ls").lines[1:]
    assert (listed.split()[:3], listed.split()[-1]) == (["calls", "1", "3"], made.out.strip())
    shown = typed("dataset", "show", "calls")
    assert shown.lines[:3] == ["dataset  calls", f"id       {made.out.strip()}", "version  1"]
    assert [line.split()[0] for line in shown.lines[4:]] == ["file", "in/a.wav", "in/b.txt", "s3://bucket/monday.wav"]


def test_the_same_name_makes_the_next_version(typed: Keyboard) -> None:
    first = typed("dataset", "make", "calls", "in/a.wav", "--json").json
    second = typed("dataset", "make", "calls", "https://example.org/b.wav", "--json").json
    assert (first["dataset_id"], first["version"], second["version"]) == (second["dataset_id"], 1, 2)
    whole = typed("dataset", "show", first["dataset_id"], "--json").json
    assert [one["uri"] for one in whole["items"]] == ["https://example.org/b.wav"]


def test_a_long_dataset_is_read_page_by_page(typed: Keyboard) -> None:
    addresses = [f"s3://bucket/{number}.wav" for number in range(1500)]
    assert typed("dataset", "make", "long", *addresses).code == 0
    whole = typed("dataset", "show", "long", "--json").json
    assert [one["uri"] for one in whole["items"]] == addresses
    assert typed("dataset", "show", "long").lines[-1] == "... and 1,450 more, with --json"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["make", "calls", "gone.wav"], 2, "There is no gone.wav."),
        (["make", "calls", "in/.hidden/x"], 2, "There is no in/.hidden/x."),
        (["make", "x" * 300, "s3://b/a.wav"], 2, "name"),
        (["show", "none"], 3, "There is no dataset 'none'. List them: holdfast dataset ls"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_told_with_the_fix(typed: Keyboard, words: list[str], code: int, says: str) -> None:
    done = typed("dataset", *words)
    assert (done.code, says in " ".join(done.err.replace("│", " ").split())) == (code, True), done.err
