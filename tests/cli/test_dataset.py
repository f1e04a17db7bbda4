"""Datasets from the command line: made of files and addresses, version by version, listed and looked at."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engine.task import Output
from holdfast.testing import Database
from tests.cli.conftest import Keyboard
from tests.datasets.stage import publish
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


def test_a_dataset_is_made_listed_and_printed(typed: Keyboard) -> None:
    none = typed("dataset")
    assert (none.code, none.out, "holdfast dataset make NAME FILES..." in none.err) == (0, "", True)
    made = typed("dataset", "make", "calls", "in", "s3://bucket/monday.wav")
    assert made.code == 0, made.err
    assert "Left out: 1 hidden (in/.hidden)." in made.err
    assert "calls, version 1: 3 files." in made.err
    assert "holdfast batch submit --dataset calls --wait" in made.err
    (listed,) = typed("dataset", "ls").lines[1:]
    assert (listed.split()[:3], listed.split()[-1]) == (["calls", "1", "3"], made.out.strip())
    printed = typed("dataset", "show", "calls")
    assert printed.lines[:3] == ["dataset  calls", f"id       {made.out.strip()}", "version  1"]
    assert [line.split()[0] for line in printed.lines[4:]] == ["file", "in/a.wav", "in/b.txt", "s3://bucket/monday.wav"]


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
    assert typed("dataset", "show", "long").lines[-1] == "... and 1,450 more: --json has all"


def test_generations_are_listed_taken_back_and_brought_back(typed: Keyboard) -> None:
    for name in ("a.wav", "b.txt"):
        assert typed("dataset", "make", "calls", f"in/{name}").code == 0
    rolled = typed("dataset", "rollback", "calls")
    assert (rolled.code, "calls: version 2 is rolled back; version 1 is current." in rolled.err) == (0, True)
    listed = [line.split()[:3] for line in typed("dataset", "generations", "calls").lines[1:]]
    assert listed == [["2", "rolled", "back"], ["1", "current", "1"]]
    again = typed("dataset", "rollback", "calls")
    assert (again.code, "none to go back to" in again.err) == (4, True)
    cut = typed("dataset", "cutover", "calls", "2", "--json").json
    assert (cut["version"], cut["before"]) == (2, 1)
    old = typed("dataset", "show", "calls", "--version", "1", "--json").json
    assert (old["version"], [one["name"] for one in old["items"]]) == (1, ["in/a.wav"])
    assert typed("dataset", "cutover", "calls", "7").code == 3


def test_a_generation_is_downloaded_whole(typed: Keyboard, database: Database, tmp_path: Path) -> None:
    async def publish_rows() -> None:
        async with database.store() as store:
            await publish(store, Output("calls", "rows/of monday", rows=[{"a": 1}, {"a": "é"}]))

    assert typed("dataset", "make", "calls", "in/a.wav", "s3://bucket/b.wav").code == 0
    asyncio.run(publish_rows())
    got = typed("dataset", "get", "calls", "-o", "out/whole", "--json").json
    assert (got["version"], got["left"]) == (2, 1)
    assert sorted(Path(path).name for path in got["saved"]) == ["0001-in-a.wav", "0003-rows-of-monday.jsonl"]
    assert (tmp_path / "out/whole/0001-in-a.wav").read_text() == "in/a.wav"
    assert (tmp_path / "out/whole/0003-rows-of-monday.jsonl").read_text() == '{"a": 1}\n{"a": "é"}\n'
    assert "s3://bucket/b.wav" in (tmp_path / "out/whole/dataset.json").read_text()
    assert "2 rows" in typed("dataset", "show", "calls").out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["get", "none", "-o", "out"], 3, "There is no dataset 'none'."),
        (["make", "calls", "gone.wav"], 2, "There is no gone.wav."),
        (["make", "calls", "in/.hidden/x"], 2, "There is no in/.hidden/x."),
        (["make", "x" * 300, "s3://b/a.wav"], 2, "name"),
        (["show", "none"], 3, "There is no dataset 'none'. List them: holdfast dataset ls"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_with_the_fix(
    typed: Keyboard, arguments: list[str], code: int, says: str
) -> None:
    done = typed("dataset", *arguments)
    assert (done.code, says in " ".join(done.err.replace("│", " ").split())) == (code, True), done.err
