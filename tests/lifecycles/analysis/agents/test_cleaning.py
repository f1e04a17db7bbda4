import csv
import gzip
import json
import random
import runpy
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from holdfast.apps.agents.cleaning import suggest_cleaning
from holdfast.apps.agents.cleaning.texts import find_split, one_letter_away, slips, spellings
from holdfast.apps.agents.signs import date_format, number_format
from holdfast.lifecycles.analysis.tools import InputFile, Job
from tests.lifecycles.analysis.agents.uploads import Run

ROWS = 200


@pytest.fixture
def suggest(tmp_path: Path) -> Run:
    return Run(tmp_path, suggest_cleaning, "suggest-cleaning", "cleaning.json")


def clean(suggest: Run, *flags: str, apart: bool = False) -> list[dict[str, str]]:
    """The rows that the script of the last run makes of its table; `apart`: in a process of its own."""
    source, target = suggest.folder / f"table{suggest.runs}.csv", suggest.folder / "clean.csv"
    run = run_script if apart else run_here
    run(suggest.outputs / "clean.py", source, target, *flags)
    with target.open(newline="") as file:
        return list(csv.DictReader(file))


def run_here(script: Path, *arguments: str | Path) -> None:
    runpy.run_path(str(script))["main"](*map(str, arguments))


def run_script(script: Path, *arguments: str | Path) -> None:
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def kinds(report: dict[str, Any]) -> set[tuple[str, str | None]]:
    return {(one["kind"], one["column"]) for one in report["suggestions"]}


def dirty() -> dict[str, list[Any]]:
    rng = random.Random(4)  # noqa: S311
    cities = ["Lisbon", "Lisbon", "Lisbon", "lisbon", "Oslo", "Oslo ", " OSLO"]
    return {
        "id": list(range(ROWS)),
        "city": ["Lisbonn" if i == 3 else rng.choice(cities) for i in range(ROWS)],
        "status": [rng.choice(["open", "closed", "N/A", "-", None]) for _ in range(ROWS)],
        "price": [f"€ {rng.randint(1, 9)}.{rng.randint(100, 999)},{rng.randint(10, 99)}" for _ in range(ROWS)],
        "rate": [f"{rng.randint(1, 99)}%" for _ in range(ROWS)],
        "day": [f"{13 + i % 15}.{1 + i % 12:02}.2024" for i in range(ROWS)],
        "level": [9_999 if i == 7 else round(rng.gauss(20, 2), 2) for i in range(ROWS)],
        "place": [f"{52 + i / 1000:.3f},{13 + i / 1000:.3f}" for i in range(ROWS)],
        "nothing": [None] * ROWS,
        "same": ["x"] * ROWS,
    }


def test_everything_that_is_dirty_is_found_and_nothing_else(suggest: Run) -> None:
    report = suggest({name: [*values, values[0]] for name, values in dirty().items()} | {"id": [*range(ROWS), 0]})
    assert kinds(report) == {
        ("trim", "city"), ("unify_categories", "city"), ("near_equal_categories", "city"), ("parse_dates", "day"),
        ("missing_markers", "status"), ("parse_numbers", "price"), ("parse_numbers", "rate"), ("outliers", "level"),
        ("split", "place"), ("drop_empty", "nothing"), ("drop_constant", "same"), ("drop_duplicates", None),
    }  # fmt: skip
    gains = [one["gain"] for one in report["suggestions"]]
    assert gains == sorted(gains, reverse=True)


def test_the_script_runs_and_does_what_the_report_promises(suggest: Run) -> None:
    table = dirty()
    report = suggest(table)
    rows = clean(suggest, apart=True)
    assert len(rows) == ROWS
    assert {row["city"] for row in rows} == {"Lisbon", "Oslo", "Lisbonn"}
    assert {row["status"] for row in rows} == {"open", "closed", ""}
    assert [float(row["price"]) for row in rows[:5]] == [
        float(text[2:].replace(".", "").replace(",", ".")) for text in table["price"][:5]
    ]
    assert [float(row["rate"]) for row in rows[:5]] == [int(text[:-1]) / 100 for text in table["rate"][:5]]
    assert date.fromisoformat(rows[1]["day"]) == date(2024, 2, 14)
    assert [row["id"] for row in rows if row["level_outlier"] == "true"] == ["7"]
    assert not {"nothing", "same", "place_latitude"} & set(rows[0])
    (trim,) = [one for one in report["suggestions"] if one["kind"] == "trim"]
    assert trim["rows"] == sum(city != city.strip() for city in table["city"])


def test_guesses_are_made_only_when_asked_for(suggest: Run) -> None:
    report = suggest(dirty())
    assert {one["kind"] for one in report["suggestions"] if not one["sure"]} == {"near_equal_categories", "split"}
    rows = clean(suggest, "--guesses")
    assert {row["city"] for row in rows} == {"Lisbon", "Oslo"}
    assert (rows[5]["place_latitude"], rows[5]["place_longitude"]) == ("52.005", "13.005")


def test_repeated_rows_are_dropped(suggest: Run) -> None:
    table = {"a": [*range(50), 1, 2, 3], "b": [*range(50), 1, 2, 3]}
    (step,) = suggest(table)["suggestions"]
    assert (step["kind"], step["rows"]) == ("drop_duplicates", 3)
    assert len(clean(suggest)) == 50


HOSTILE = [
    "evil\"]); import os; os.system('touch pwned') #", "'''\nraise SystemExit(3)\n'''", "line\nbreak", "back\\slash",
    "{braces} %s", "^.*$", "*", "\u2028separator", "\u202ereversed", "quote'quote", '"""',
]  # fmt: skip


def test_hostile_names_and_values_cannot_leave_their_quotes(suggest: Run) -> None:
    table: dict[str, list[Any]] = {name: [" a", "A", "a", "a", "b"] * 20 for name in HOSTILE}
    table["spelling"] = [one for i in range(50) for one in (HOSTILE[i % 10], HOSTILE[i % 10].upper())]
    report = suggest({name: values[:100] for name, values in table.items()})
    assert ("trim", "line\nbreak") in kinds(report)
    rows = clean(suggest, apart=True)
    assert {row["back\\slash"] for row in rows} == {"a", "b"}
    assert {len(row) for row in rows} == {len(table)}
    compile((suggest.outputs / "clean.py").read_text(), "clean.py", "exec")
    assert not list(suggest.folder.rglob("pwned"))


def test_personal_values_appear_in_no_output_not_even_the_script(suggest: Run) -> None:
    secret = ["ada@example.org", "ADA@example.org ", "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00"]
    report = suggest({
        "full_name": [["Ada Lovelace", "ADA LOVELACE", " Alan Turing"][i % 3] for i in range(ROWS)],
        "note": [secret[i % 4] for i in range(ROWS)],
        "size": [i % 7 for i in range(ROWS)],
    })  # fmt: skip
    assert ("trim", "full_name") in kinds(report)
    written = suggest.written()
    assert not [one for one in [*secret, "ADA@example.org", "Lovelace", "LOVELACE", "Turing"] if one in written]


def test_only_the_kinds_that_are_asked_for_are_suggested_and_run(suggest: Run) -> None:
    report = suggest(dirty(), kinds=["trim"])
    assert kinds(report) == {("trim", "city")}
    rows = clean(suggest, "--guesses")
    assert "nothing" in rows[0]
    assert rows[0]["price"].startswith("€")


@pytest.mark.deep
def test_options_change_what_is_suggested(suggest: Run) -> None:
    table = dirty()
    assert ("outliers", "level") not in kinds(suggest(table, min_share=0.01))
    assert ("trim", "city") not in kinds(suggest(table, ignore_columns=["city"]))
    assert ("outliers", "level") not in kinds(suggest(table, outlier_distance=100_000))
    suggest(table, outliers="cap")
    assert max(float(row["level"]) for row in clean(suggest)) < 50
    report = suggest(table, missing_markers=["closed"])
    markers = next(one for one in report["suggestions"] if one["kind"] == "missing_markers")["evidence"]["markers"]
    assert "closed" in markers
    assert suggest(table, sample_rows=100)["rows"]["sampled"]
    odd: dict[str, list[Any]] = {"n": [f"{i},5" if i % 10 else "some" for i in range(ROWS)], "k": list(range(ROWS))}
    assert kinds(suggest(odd, parse_share=0.8)) == {("parse_numbers", "n")}
    assert kinds(suggest(odd, parse_share=0.95)) == set()


def test_values_that_would_be_lost_make_a_step_a_guess(suggest: Run) -> None:
    report = suggest({"n": [f"{i},5" if i % 20 else "plenty" for i in range(ROWS)], "k": list(range(ROWS))})
    (step,) = report["suggestions"]
    assert (step["kind"], step["sure"], step["cleared"]) == ("parse_numbers", False, ROWS // 20)
    assert "plenty" in step["why"]
    assert clean(suggest)[1]["n"] == "1,5"
    assert clean(suggest, "--guesses")[1]["n"] == "1.5"


def test_codes_keep_their_zeros(suggest: Run) -> None:
    assert suggest({"code": [f"{i:05}" for i in range(ROWS)], "k": list(range(ROWS))})["suggestions"] == []
    assert clean(suggest)[7]["code"] == "00007"


def test_a_clean_table_needs_nothing(suggest: Run) -> None:
    report = suggest(
        {
            "a": list(range(ROWS)),
            "b": [["red", "blue"][i % 2] for i in range(ROWS)],
            "c": [f"2024-01-{1 + i % 28:02}" for i in range(ROWS)],
        }
    )
    assert report["suggestions"] == []
    assert clean(suggest)[0] == {"a": "0", "b": "red", "c": "2024-01-01"}


def test_a_table_of_bare_columns_is_not_dropped_whole(suggest: Run) -> None:
    assert suggest({"a": ["x"] * 5, "b": [None] * 5}, kinds=["drop_empty", "drop_constant"])["suggestions"] == []
    assert len(clean(suggest)) == 5


def test_json_lines_and_parquet_and_gzip_are_cleaned_too(tmp_path: Path) -> None:
    cities = ["Oslo", "Oslo", "oslo", " Oslo", "Rome"] * 20
    lines = "".join(json.dumps({"city": city, "n": i, "deep": {"x": i}}) + "\n" for i, city in enumerate(cities))
    (tmp_path / "a.jsonl").write_text(lines)
    table = pl.DataFrame({"city": cities, "n": range(100), "^.*$": range(100)})
    table.write_parquet(tmp_path / "a.parquet")
    table.with_columns(pl.col("city").cast(pl.Categorical)).write_parquet(tmp_path / "b.parquet")
    (tmp_path / "c.parquet.gz").write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    (tmp_path / "a.csv.gz").write_bytes(
        gzip.compress("\n".join(["city,n", *(f"{c},{i}" for i, c in enumerate(cities))]).encode())
    )
    for name in ("a.jsonl", "a.parquet", "b.parquet", "c.parquet.gz", "a.csv.gz"):
        folder = tmp_path / f"{name}.out"
        folder.mkdir()
        suggest_cleaning(Job(InputFile(tmp_path / name, name), folder))
        run_here(folder / "clean.py", tmp_path / name, tmp_path / "clean.parquet")
        cleaned = pl.read_parquet(tmp_path / "clean.parquet")
        assert cleaned["city"].unique().sort().to_list() == ["Oslo", "Rome"]
        assert cleaned["n"].to_list() == list(range(100))


@pytest.mark.parametrize(
    ("texts", "description", "numbers"),
    [
        (["1.234,50", "2,5", "1.000"], "thousands by point, decimal comma", [1234.5, 2.5, 1000]),
        (["1,234.5", "12"], "thousands by comma, decimal point", [1234.5, 12]),
        (["1,234", "5,678"], "thousands by comma, decimal point", [1234, 5678]),
        (["1,5", "2,25"], "decimal comma", [1.5, 2.25]),
        (["1 234,5", "2"], "thousands by space, decimal comma", [1234.5, 2]),
        (["1'234.5", "2"], "thousands by apostrophe, decimal point", [1234.5, 2]),
        (["$12.50", "-$3"], "with currency", [12.5, -3]),
        (["12,50 EUR", "1.000,00 EUR"], "thousands by point, decimal comma, with currency", [12.5, 1000]),
        (["12%", "13.5 %"], "in percent", [0.12, 0.135]),
        (["-5", "1e3", "+7"], "plain", [-5, 1000, 7]),
    ],
)  # fmt: skip
def test_numbers_are_read_however_they_are_written(texts: list[str], description: str, numbers: list[float]) -> None:
    found = number_format(pl.Series(texts))
    assert found is not None
    form, share = found
    assert (form.describe(), share) == (description, 1)
    assert pl.DataFrame({"x": texts}).select(form.read(pl.col("x"))).to_series().to_list() == pytest.approx(numbers)


@pytest.mark.parametrize(
    "texts", [["a", "b"], ["1a", "2b"], ["007", "008"], ["1234567890123456", "1"], ["1.2.3", "4"], []]
)
def test_what_is_no_number_is_left_alone(texts: list[str]) -> None:
    assert number_format(pl.Series(texts, dtype=pl.String)) is None


@pytest.mark.parametrize(
    ("texts", "pattern", "ambiguous"),
    [
        (["2024-01-05"], "%Y-%m-%d", False), (["03/04/2024", "13/04/2024"], "%d/%m/%Y", False),
        (["10/25/2024"], "%m/%d/%Y", False), (["03/04/2024"], "%d/%m/%Y", True), (["5 Jan 2024"], "%d %b %Y", False),
        (["2024-01-05T10:00:00"], "%Y-%m-%dT%H:%M:%S", False), (["05.01.2024 10:30"], "%d.%m.%Y %H:%M", False),
    ],
)  # fmt: skip
def test_dates_are_read_however_they_are_written(texts: list[str], pattern: str, ambiguous: bool) -> None:
    found = date_format(pl.Series(texts))
    assert found is not None
    assert (found[0].pattern, found[0].ambiguous, found[1]) == (pattern, ambiguous, 1)


def test_what_is_no_date_is_left_alone() -> None:
    for texts in (["2024-13-45"], ["1.5", "2.5"], ["12345678"], ["soon"]):
        assert date_format(pl.Series(texts)) is None


def test_spellings_and_slips() -> None:
    values = pl.Series(["New York"] * 50 + ["new-york"] * 3 + ["Type 1"] * 20 + ["type 2"] * 20 + ["New Yrok"] * 2)
    assert spellings(values) == {"new-york": "New York"}
    assert slips(values, spellings(values)) == {"New Yrok": "New York"}
    assert spellings(pl.Series([f"t{i}" for i in range(50)])) == {}
    assert [one_letter_away("paris", other) for other in ("pari", "parisx", "pqris", "prais")] == [True] * 4
    assert [one_letter_away("paris", other) for other in ("paris", "par", "qqris", "london")] == [False] * 4


def test_combined_columns_are_distinguished_from_prose() -> None:
    measured = find_split(pl.Series(["12 kg", "7.5 kg", "3 g"] * 10), 0.9)
    assert measured is not None
    assert measured.parts == ("value", "unit")
    parts = find_split(pl.Series(["a|b|c", "d|e|f"] * 10), 0.9)
    assert parts is not None
    assert len(parts.parts) == 3
    for plain in (
        ["one two three", "four five"],
        ["2024-01-05", "2024-02-06"],
        ["https://a.org/x", "https://b.org/y"],
        ["10:30"],
    ):
        assert find_split(pl.Series(plain * 15), 0.9) is None
