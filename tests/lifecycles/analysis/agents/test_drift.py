import math
import random
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from holdfast.apps.agents import DETECT_DRIFT
from holdfast.apps.agents.drift import detect_drift
from holdfast.apps.agents.drift.statistics import (
    chi_square,
    chi_square_p,
    jensen_shannon,
    kolmogorov_p,
    kolmogorov_smirnov,
    proportions_p,
    psi,
)
from holdfast.errors import SchemaInvalid
from holdfast.lifecycles.analysis.tools import InputFile, Job
from tests.lifecycles.analysis.agents.uploads import Run, write_csv


@pytest.fixture
def compare(tmp_path: Path) -> Run:
    return Run(tmp_path, detect_drift, "detect-drift", "drift.json")


def table(seed: int, rows: int = 1000, higher: float = 0, later: int = 0) -> dict[str, list[Any]]:
    return dict(made(seed, rows, higher, later))


@cache
def made(seed: int, rows: int, higher: float, later: int) -> dict[str, list[Any]]:
    rng = random.Random(seed)  # noqa: S311
    return {
        "row_id": list(range(seed * rows, (seed + 1) * rows)),
        "speed": [round(rng.gauss(50 + higher, 10), 3) for _ in range(rows)],
        "wheels": [rng.choice([2, 2, 4, 4, 4, 6]) for _ in range(rows)],
        "city": [rng.choice(["Rome", "Rome", "Oslo", "Paris"]) for _ in range(rows)],
        "open": [rng.random() < 0.3 for _ in range(rows)],
        "seen_on": [f"{2020 + later}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}" for _ in range(rows)],
        "remark": ["".join(rng.choices("abcdefgh ", k=rng.randint(10, 40))) for _ in range(rows)],
    }


def column(report: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [one for one in report["columns"] if one["column"] == name]
    return dict(found)


def test_psi_is_the_sum_over_bins_of_difference_times_log_ratio() -> None:
    assert psi([50, 50], [60, 40]) == pytest.approx(0.1 * math.log(0.6 / 0.5) - 0.1 * math.log(0.4 / 0.5))
    assert psi([1, 2, 3], [10, 20, 30]) == 0
    assert psi([50, 50, 0], [50, 0, 50]) == pytest.approx(2 * (0.5 - 1e-4) * math.log(0.5 / 1e-4))


def test_the_distance_of_kolmogorov_and_smirnov_is_the_largest_gap() -> None:
    assert kolmogorov_smirnov(pl.Series([1, 2, 3, 4]), pl.Series([3, 4, 5, 6]))[0] == 0.5
    assert kolmogorov_smirnov(pl.Series([1, 2]), pl.Series([3, 4]))[0] == 1
    assert kolmogorov_smirnov(pl.Series([1, 1, 2]), pl.Series([1, 2, 2]))[0] == pytest.approx(1 / 3)
    assert kolmogorov_smirnov(pl.Series([5, 6, 7]), pl.Series([7, 6, 5])) == (0, 1)


@pytest.mark.parametrize(("x", "p"), [(1.2238, 0.1), (1.3581, 0.05), (1.6276, 0.01), (1.9495, 0.001)])
def test_kolmogorovs_distribution_has_its_tabulated_values(x: float, p: float) -> None:
    size = 1e10
    assert kolmogorov_p(x / math.sqrt(size), size) == pytest.approx(p, rel=1e-3)


@pytest.mark.parametrize(
    ("statistic", "freedom", "p"),
    [
        (3.8415, 1, 0.05),
        (6.6349, 1, 0.01),
        (18.307, 10, 0.05),
        (124.342, 100, 0.05),
        (0.0158, 1, 0.9),
        (0, 3, 1),
        (29.588, 10, 0.001),
    ],
)
def test_chi_square_has_its_tabulated_values(statistic: float, freedom: int, p: float) -> None:
    assert chi_square_p(statistic, freedom) == pytest.approx(p, rel=1e-2)


def test_chi_square_of_a_table_by_hand() -> None:
    statistic, p = chi_square([10, 20], [20, 10])  # all four cells expect 15
    assert statistic == pytest.approx(4 * 25 / 15)
    assert p == pytest.approx(math.erfc(math.sqrt(statistic / 2)))
    assert chi_square([5, 5], [0, 0]) == (0, 1)


def test_jensen_shannon_goes_from_nought_to_one() -> None:
    assert jensen_shannon([1, 1], [2, 2]) == 0
    assert jensen_shannon([1, 0], [0, 1]) == 1
    assert jensen_shannon([1, 0], [1, 1]) == pytest.approx(math.sqrt(0.311278), rel=1e-5)


def test_equal_proportions_are_no_surprise() -> None:
    assert proportions_p(10, 100, 100, 1000) == 1
    assert proportions_p(0, 100, 0, 100) == 1
    assert proportions_p(10, 100, 30, 100) == pytest.approx(0.000407, rel=0.02)


@pytest.mark.parametrize("rows", [60, 1000])
@pytest.mark.parametrize("seed", [3, 5, 7])
def test_two_samples_of_the_same_have_not_drifted(compare: Run, seed: int, rows: int) -> None:
    report = compare(table(seed, rows), table(seed + 1, rows))
    assert (report["verdict"], report["made_by"]) == ("none", [])


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_many_rare_values_are_no_drift_by_their_number(compare: Run, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    now, before = ({"customer": [f"c{rng.randint(1, 900)}" for _ in range(5000)]} for _ in range(2))
    report = compare(now, before)
    assert report["verdict"] == "none", column(report, "customer")


def test_a_column_that_moved_makes_the_verdict(compare: Run) -> None:
    report = compare(table(1, higher=10), table(2))
    assert (report["verdict"], report["made_by"]) == ("strong", ["speed"])
    speed = column(report, "speed")
    assert speed["mean_shift_deviations"] == pytest.approx(1, abs=0.1)
    assert speed["psi"] > 0.7
    assert speed["ks"] == pytest.approx(0.383, abs=0.05)  # of two normal distributions one deviation apart
    assert speed["ks_p"] < 1e-9
    assert len(speed["histogram"]["labels"]) == len(speed["histogram"]["now"]) + 1
    assert sum(speed["histogram"]["baseline"]) == pytest.approx(1, abs=1e-4)


def test_a_small_move_is_some_drift(compare: Run) -> None:
    assert column(compare(table(1, higher=4), table(2)), "speed")["level"] == "some"


def test_columns_that_came_went_or_changed_their_type_are_named(compare: Run) -> None:
    now, before = table(1), table(2)
    now["extra"] = now["wheels"]
    before["gone"] = before["wheels"]
    now["speed"] = [f"{v} km/h" for v in now["speed"]]
    report = compare(now, before)
    assert [column(report, name).get("schema") for name in ("extra", "gone", "speed")] == [
        "added",
        "removed",
        "type changed",
    ]
    assert (report["verdict"], set(report["made_by"])) == ("strong", {"gone", "speed"})


def test_new_and_vanished_categories_are_listed(compare: Run) -> None:
    now = table(1)
    now["city"] = [city.replace("Oslo", "Lima") for city in now["city"]]
    city = column(compare(now, table(2)), "city")
    assert city["level"] == "strong"
    assert city["new_values"]["examples"] == ["Lima"]
    assert city["new_values"]["share"] == pytest.approx(0.25, abs=0.05)
    assert city["vanished_values"]["examples"] == ["Oslo"]


def test_more_missing_values_are_drift(compare: Run) -> None:
    now = table(1)
    now["city"] = [None if i % 10 == 0 else city for i, city in enumerate(now["city"])]
    now["wheels"] = [None if i % 2 else wheels for i, wheels in enumerate(now["wheels"])]
    report = compare(now, table(2))
    assert (column(report, "city")["level"], column(report, "wheels")["level"]) == ("some", "strong")
    assert column(report, "city")["missing"] == {"baseline": 0, "now": 0.1}


def test_dates_that_moved_on_are_no_more_than_some_drift(compare: Run) -> None:
    report = compare(table(1, later=1), table(2))
    assert report["verdict"] == "some"
    seen = column(report, "seen_on")
    assert seen["range"]["now"] == ["2021-01-01", "2021-12-28"]
    assert seen["range_shift_days"]["first"] == pytest.approx(366, abs=3)


def test_a_column_that_names_rows_is_not_compared(compare: Run) -> None:
    row_id = column(compare(table(1), table(9)), "row_id")
    assert (row_id["kind"], row_id["level"]) == ("identifier", "none")


def test_texts_that_hardly_repeat_are_compared_by_length(compare: Run) -> None:
    now = table(1)
    now["remark"] = [text * 2 for text in now["remark"]]
    remark = column(compare(now, table(2)), "remark")
    assert (remark["kind"], remark["level"], remark["compared"]) == ("text", "strong", "length")


@pytest.mark.deep
def test_options_change_what_counts_and_what_is_compared(compare: Run) -> None:
    now, before = table(1, higher=4), table(2)
    assert column(compare(now, before, psi_some=0.5, psi_strong=0.9), "speed")["level"] == "none"
    assert column(compare(now, before, psi_strong=0.11), "speed")["level"] == "strong"
    assert column(compare(now, before, significance=1e-30), "speed")["level"] == "none"
    assert column(compare(now, before, bins=2), "speed")["psi"] < column(compare(now, before, bins=20), "speed")["psi"]
    assert [one["column"] for one in compare(now, before, columns=["city"])["columns"]] == ["city"]
    assert compare(now, before, ignore_columns=["speed"])["verdict"] == "none"
    assert compare(now, before, sample_rows=200)["rows"]["now"]["sampled"]
    now["city"] = [None if i % 10 == 0 else city for i, city in enumerate(now["city"])]
    assert column(compare(now, before, missing_some=0.2, missing_strong=0.3), "city")["level"] == "none"
    assert column(compare(now, before, missing_strong=0.08), "city")["level"] == "strong"


def test_a_column_that_nobody_has_is_refused(compare: Run) -> None:
    with pytest.raises(SchemaInvalid, match="neither file has a column sped; they have: row_id, speed"):
        compare(table(1, 20), table(2, 20), columns=["sped"])
    with pytest.raises(SchemaInvalid, match="leave nothing to compare"):
        compare(table(1, 20), table(2, 20), columns=["speed"], ignore_columns=["speed"])


def test_without_a_baseline_the_failure_says_that_one_is_needed(tmp_path: Path) -> None:
    with pytest.raises(SchemaInvalid, match="needs a baseline file") as refused:
        detect_drift(Job(write_csv(tmp_path / "a.csv", {"a": [1]}), tmp_path))
    assert refused.value.code == "FILE_READ_ERROR"
    assert DETECT_DRIFT.needs_baseline
    assert list(tmp_path.iterdir()) == [tmp_path / "a.csv"]


def test_personal_values_appear_nowhere_in_full(compare: Run) -> None:
    now, before = table(1), table(2)
    now["owner"] = [["Ada Lovelace", "Alan Turing"][i % 2] for i in range(1000)]
    before["owner"] = [["Grace Hopper", "Kurt Nobody"][i % 2] for i in range(1000)]
    for side in (now, before):
        side["full_name"] = side.pop("owner")
        side["contact"] = [f"{name.split()[1]}@example.org" for name in side["full_name"]]
        side["birth_date"] = [f"19{50 + i % 40}-11-{10 + i % 9}" for i in range(1000)]
    report = compare(now, before)
    assert column(report, "full_name")["new_values"]["examples"] == ["A*** L***", "A*** T***"]
    assert column(report, "contact")["level"] == "strong"
    written = compare.written()
    assert not [one for one in ("Lovelace", "Turing", "Hopper", "Nobody", "1950-11") if one in written]


def test_hostile_values_stay_text_in_the_page(compare: Run) -> None:
    now, before = table(1), table(2)
    now["<b>"] = ["<script>alert(1)</script>"] * 1000
    before["<b>"] = ["<img src=x>"] * 1000
    compare(now, before)
    page = (compare.outputs / "drift.html").read_text()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;b&gt;" in page


def test_the_same_files_give_the_same_output(compare: Run) -> None:
    written = []
    for _ in range(2):
        compare(table(1, 200, higher=5), table(2, 200))
        written.append(
            compare.written().replace(f"table{compare.runs}.csv", "").replace(f"baseline{compare.runs}.csv", "")
        )
    assert written[0] == written[1]


def test_a_column_without_a_single_value_is_compared_by_what_is_missing(compare: Run) -> None:
    now = table(1) | {"speed": [None] * 1000}
    assert column(compare(now, table(2)), "speed")["reasons"] == ["Missing in 100.0% of the rows, before in 0.0%."]


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"%PDF-1.7")
    own = write_csv(tmp_path / "b.csv", {"a": [1], "b": [2]})
    with pytest.raises(SchemaInvalid):
        detect_drift(Job(own, tmp_path, InputFile(tmp_path / "a.csv", "a.csv")))


def test_numbers_beyond_all_measure_leave_valid_json(compare: Run) -> None:
    now: dict[str, list[Any]] = {"x": [f"{i % 9}e30{i % 9}" for i in range(200)], "k": [i % 7 for i in range(200)]}
    compare(
        now, {name: values[::-1] for name, values in now.items()} | {"x": [f"-{i % 9}e30{i % 9}" for i in range(200)]}
    )
    text = (compare.outputs / "drift.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text


def test_names_that_polars_takes_for_patterns_are_only_names(compare: Run) -> None:
    now, before = (table(seed, 200) | {"^.*$": [shift + i % 9 for i in range(200)]} for seed, shift in ((1, 5), (2, 0)))
    assert compare(now, before)["made_by"] == ["(^.*$)"]
