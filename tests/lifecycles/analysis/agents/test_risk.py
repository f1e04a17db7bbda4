import random
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from holdfast.apps.agents.outlying import fences
from holdfast.apps.agents.risk import score_risk
from holdfast.apps.agents.risk.leakage import correlation, determination, guess_target
from holdfast.apps.agents.risk.quality import gather
from holdfast.apps.agents.risk.scoring import Finding, Part, join_severities, overall
from holdfast.apps.agents.sampling import take_sample
from holdfast.apps.agents.signs import exactly
from holdfast.errors import SchemaInvalid
from tests.lifecycles.analysis.agents.uploads import Run

ROWS = 400


@pytest.fixture
def score(tmp_path: Path) -> Run:
    return Run(tmp_path, score_risk, "score-risk", "risk.json")


def sound() -> dict[str, list[Any]]:
    """A table with nothing to find."""
    rng = random.Random(1)  # noqa: S311
    return {
        "colour": [rng.choice(["red", "green", "blue"]) for _ in range(ROWS)],
        "size": [round(rng.gauss(10, 2), 3) for _ in range(ROWS)],
        "weight_kg": [round(rng.gauss(70, 9), 3) for _ in range(ROWS)],
    }


def found(report: dict[str, Any], part: str | None = None) -> set[tuple[str, str | None]]:
    return {
        (one["code"], one["column"]) for one_part in report["parts"] for one in one_part["findings"]
        if part in {None, one_part["name"]}
    }  # fmt: skip


def part_score(report: dict[str, Any], name: str) -> float:
    return next(float(part["score"]) for part in report["parts"] if part["name"] == name)


def test_a_table_with_nothing_to_find_scores_nothing(score: Run) -> None:
    report = score(sound())
    assert found(report) == set()
    assert (report["score"], report["level"]) == (0, "low")
    assert report["rows"] == {"total": ROWS, "looked_at": ROWS, "sampled": False}


PROBLEMS: dict[tuple[str, str, str | None], dict[str, list[Any]]] = {
    ("pii", "email", "contact"): {"contact": [f"user{i}@example.org" for i in range(ROWS)]},
    ("pii", "card", "paid_with"): {"paid_with": ["4111 1111 1111 1111", "5500005555555559"] * (ROWS // 2)},
    ("outliers", "outliers", "speed"): {"speed": [*(50 + i % 17 + i / ROWS for i in range(ROWS - 8)), *[9999.0] * 8]},
    ("quality", "missing", "maybe"): {"maybe": [None if i % 2 else i % 40 for i in range(ROWS)]},
    ("quality", "missing", "words"): {"words": ["N/A" if i % 2 else "yes" if i % 3 else "no" for i in range(ROWS)]},
    ("quality", "mixed_types", "amount"): {"amount": ["ten" if i % 20 == 0 else i % 50 for i in range(ROWS)]},
    ("quality", "mixed_dates", "day"): {"day": ["2024-05-06" if i % 2 else "13.05.2024" for i in range(ROWS)]},
    ("quality", "inconsistent_categories", "city"): {"city": [["Rome", "rome", "Oslo "][i % 3] for i in range(ROWS)]},
    ("quality", "impossible", "age"): {"age": [-1 if i < 9 else 20 + i % 50 for i in range(ROWS)]},
    ("quality", "impossible", "birth_date"): {
        "birth_date": [f"20{70 if i < 9 else 10}-01-0{1 + i % 9}" for i in range(ROWS)]
    },
    ("quality", "empty", "nothing"): {"nothing": [None] * ROWS},
    ("quality", "constant", "same"): {"same": ["x"] * ROWS},
    ("leakage", "identifier", "row_code"): {"row_code": [f"K{i:05}" for i in range(ROWS)]},
    ("leakage", "redundant", "b"): {
        "a": [i * 7 % 101 for i in range(ROWS)], "b": [i * 7 % 101 * 2 + 1 for i in range(ROWS)],
    },
    ("leakage", "target_leak", "closed_on"): {
        "churned": [i * 31 % 7 % 2 for i in range(ROWS)],
        "closed_on": [f"2024-01-0{1 + i % 9}" if i * 31 % 7 % 2 else None for i in range(ROWS)],
    },
}  # fmt: skip


@pytest.mark.parametrize(("part", "code", "column"), PROBLEMS)
def test_a_problem_is_found_and_raises_the_score(part: str, code: str, column: str | None, score: Run) -> None:
    report = score(sound() | PROBLEMS[part, code, column], today="2026-01-01")
    assert (code, column) in found(report, part)
    assert part_score(report, part) > 0
    assert report["score"] > 0


def test_repeated_rows_are_found_and_more_of_them_score_higher(score: Run) -> None:
    scores = []
    for share in (0, 20, 200):
        table = {name: values + values[:share] for name, values in sound().items()}
        scores.append(part_score(score(table), "quality"))
    assert scores[0] == 0 < scores[1] < scores[2]


def test_every_finding_says_what_to_do_and_what_it_would_score_alone(score: Run) -> None:
    report = score(sound() | PROBLEMS["pii", "email", "contact"])
    (one,) = report["parts"][0]["findings"]
    assert one["advice"].endswith(".")
    assert one["alone"] == report["score"] == 45
    assert one["evidence"] == {"rows": ROWS, "share": 1.0, "within_text": False}
    assert one["examples"][0] == "u***@example.org"


def test_personal_values_appear_nowhere_in_full(score: Run) -> None:
    secret = [
        "AKIAABCDEFGHIJKLMNOP",
        "ada@example.org",
        "4111 1111 1111 1111",
        "DE89 3704 0044 0532 0130 00",
        "123-45-6789",
    ]
    table = sound() | {
        "note": [f"{' ' * (i % 2)}Please call us about {secret[i % 5]} before noon" for i in range(ROWS)],
        "full_name": [["Ada Lovelace", "ADA LOVELACE", "Alan Turing "][i % 3] for i in range(ROWS)],
        "birth_date": [f"20{99 if i < 9 else 10}-01-0{1 + i % 9}" for i in range(ROWS)],
    }
    report = score(table)
    assert {"secret", "email", "card", "iban", "national_id", "name", "birth_date"} <= {
        code for code, _ in found(report)
    }
    written = score.written()
    assert not [
        one for one in [*secret, "Lovelace", "LOVELACE", "Turing", "2099-01-01", "2010-01-01"] if one in written
    ]


def test_hostile_values_and_names_stay_text_in_the_page(score: Run) -> None:
    score(
        sound()
        | {"<img src=x onerror=alert(1)>": ["<script>alert(1)</script>", "<SCRIPT>alert(1)</script>"] * (ROWS // 2)}
    )
    page = (score.outputs / "risk.html").read_text()
    assert "<script" not in page.lower()
    assert "<img" not in page
    assert "&lt;script&gt;" in page


def test_rows_that_are_in_the_baseline_too_are_found(score: Run) -> None:
    table = sound() | {"n": list(range(ROWS))}
    assert ("rows_in_both", None) not in found(
        score(table, {name: [f"{v}9" for v in vs] for name, vs in table.items()})
    )
    half = {name: values[: ROWS // 2] for name, values in table.items()}
    report = score(table, half)
    (leak,) = [one for one in report["parts"][1]["findings"] if one["code"] == "rows_in_both"]
    assert leak["evidence"] == {"rows": ROWS // 2, "share": 0.5, "columns": 4}


def test_a_kind_of_personal_data_can_be_switched_off_and_is_still_masked(score: Run) -> None:
    table = sound() | {"contact": ["ada@example.org", "ADA@example.org"] * (ROWS // 2)}
    report = score(table, pii={"email": False})
    assert found(report, "pii") == set()
    assert ("inconsistent_categories", "contact") in found(report)
    assert "ada@example.org" not in score.written().replace("options", "")


def test_a_column_can_be_ignored(score: Run) -> None:
    table = sound() | PROBLEMS["pii", "email", "contact"]
    assert score(table, ignore_columns=["contact"])["score"] == 0
    with pytest.raises(SchemaInvalid, match="leaves no column"):
        score(table, ignore_columns=list(table))


def test_weights_decide_how_much_a_part_counts(score: Run) -> None:
    table = sound() | PROBLEMS["pii", "email", "contact"]
    assert score(table, weights={"pii": 0})["score"] == 0
    assert score(table, weights={"pii": 1})["score"] == 50


def test_thresholds_decide_what_counts(score: Run) -> None:
    table = (
        sound()
        | {"maybe": [None if i % 10 == 0 else i % 40 for i in range(ROWS)]}
        | PROBLEMS["pii", "email", "contact"]
    )
    assert ("missing", "maybe") in found(score(table))
    report = score(table, thresholds={"missing_share": 0.2, "moderate": 10, "high": 20, "critical": 30})
    assert ("missing", "maybe") not in found(report)
    assert report["level"] == "critical"


def test_the_target_is_guessed_or_given(score: Run) -> None:
    table = sound() | {"kind": ["a" if i % 3 else "b" for i in range(ROWS)], "twin": [i % 3 > 0 for i in range(ROWS)]}
    assert score(table)["target"] is None
    report = score(table, target="kind")
    assert ("target_leak", "twin") in found(report)
    assert guess_target(["a", "label", "b"]) == "label"
    assert guess_target(["label", "target"]) is None
    with pytest.raises(SchemaInvalid, match="no column nonsense; it has: colour"):
        score(table, target="nonsense")


def test_a_sample_is_reported_as_one(score: Run) -> None:
    table = sound() | PROBLEMS["pii", "email", "contact"]
    report = score(table, sample_rows=100)
    assert report["rows"]["sampled"]
    assert 80 <= report["rows"]["looked_at"] <= 120
    assert "sample of" in (score.outputs / "risk.html").read_text()


def test_today_decides_which_births_are_in_the_future(score: Run) -> None:
    table = sound() | {"birth_date": [f"2020-01-0{1 + i % 9}" for i in range(ROWS)]}
    assert ("impossible", "birth_date") in found(score(table, today="2019-06-01"))
    assert ("impossible", "birth_date") not in found(score(table, today="2021-06-01"))


def test_a_wrong_option_is_refused_with_its_name(score: Run) -> None:
    with pytest.raises(SchemaInvalid, match=r"score-risk\.wieghts"):
        score(sound(), wieghts={})


def test_the_same_table_gives_the_same_output(score: Run) -> None:
    table = sound() | PROBLEMS["pii", "email", "contact"] | PROBLEMS["quality", "inconsistent_categories", "city"]
    written = []
    for _ in range(2):
        score(table)
        written.append(score.written().replace(f"table{score.runs}.csv", "table.csv"))
    assert written[0] == written[1]


def test_severities_join_without_order_and_below_one() -> None:
    assert join_severities([0.5, 0.5]) == 0.75
    assert join_severities([0.2, 0.7, 2.0]) == 1.0
    assert join_severities([]) == 0
    part = Part("p", "P", 0.5, [Finding("c", None, 1.0, "", "")])
    assert overall([part, part]) == 75


def test_fences_let_normal_and_stretched_numbers_be() -> None:
    rng = random.Random(3)  # noqa: S311
    for numbers in ([rng.gauss(0, 1) for _ in range(5000)], [rng.lognormvariate(3, 1) for _ in range(5000)]):
        found_fences = fences(pl.Series("x", numbers), 3.5)
        assert found_fences is not None
        assert sum(n < found_fences.low or n > found_fences.high for n in numbers) < 15
        assert found_fences.low < 1e6 * found_fences.high < float("inf")
    assert fences(pl.Series("x", [1] * 100), 3.5) is None
    assert fences(pl.Series("x", list(range(15))), 3.5) is None


def test_knowing_the_other_rows_of_a_group_is_what_determines() -> None:
    target = pl.Series([i % 2 for i in range(200)])
    assert determination(target.cast(pl.String), target) == 1
    assert determination(pl.Series([f"k{i}" for i in range(200)]), target) == 0  # each row alone tells nothing
    assert determination(pl.Series([i // 2 % 4 for i in range(200)]), target) == 0
    smooth = pl.Series([float(i) for i in range(200)])
    assert determination(smooth, smooth * 3 + 1) > 0.98
    assert correlation(smooth, smooth**3) == pytest.approx(1)
    assert correlation(smooth, target) < 0.1


def test_the_end_of_something_is_not_before_its_start(score: Run) -> None:
    days = [date(2024, 1, 1) + timedelta(days=i % 50) for i in range(ROWS)]
    ends = [day + timedelta(days=-3 if i < 5 else 3 + i % 7) for i, day in enumerate(days)]
    assert ("impossible", "trip_end_date") in found(score(sound() | {"trip_start_date": days, "trip_end_date": ends}))


def test_names_that_polars_takes_for_patterns_are_only_names() -> None:
    frame = pl.DataFrame({"^.*$": [1.0, None], "*": ["n/a", "b"], "row": [1, 1]})
    facts = gather(frame.lazy(), frame.schema, [exactly("*") == "b"])
    assert (facts.missing, facts.duplicates, facts.counted) == ({"^.*$": 1, "*": 1, "row": 0}, 0, [1])
    many = pl.concat([frame] * 200)
    sample = take_sample(many.lazy(), 100, many.height)
    assert sample.frame.columns == ["^.*$", "*", "row"]
    assert 80 <= sample.frame.height <= 120


def test_harmless_traits_that_single_out_persons_together_are_found(score: Run) -> None:
    traits: dict[str, list[Any]] = {
        "gender": ["mf"[i % 2] for i in range(ROWS)],
        "region": [f"R{i * 7 % 13}" for i in range(ROWS)],
        "profession": [f"P{i * 11 % 17}" for i in range(ROWS)],
    }
    assert ("singled_out", None) in found(score(sound() | traits), "pii")
    assert ("singled_out", None) not in found(score(sound() | traits | {"region": ["R1"] * ROWS}), "pii")


def test_a_column_that_is_sometimes_missing_is_not_constant(score: Run) -> None:
    report = score(sound() | {"ended": ["x" if i % 2 else None for i in range(ROWS)]})
    assert found(report, "quality") == {("missing", "ended")}


def test_a_table_with_such_names_is_scored(score: Run) -> None:
    # Reading puts them into parentheses.
    report = score(sound() | {"^.*$": [None if i % 2 else i % 40 for i in range(ROWS)], "*": ["x"] * ROWS})
    assert found(report, "quality") == {("missing", "(^.*$)"), ("constant", "(*)")}
