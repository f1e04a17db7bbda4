"""The profile says what is in the table: its numbers are those that other means compute."""

import json
import math
import os
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.apps.agents import AGENTS, UNIFIED_PROFILER
from holdfast.apps.agents.profiler import columns as profiling
from holdfast.apps.agents.profiler import relations, totals
from holdfast.errors import SchemaInvalid
from tests.lifecycles.analysis.agents.conftest import MakeJob

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(make_job: MakeJob) -> Run:
    """profile.json of a file with these rows."""

    def run(content: str, **options: Any) -> dict[str, Any]:
        job = make_job("table.csv", content, {"unified-profiler": options})
        UNIFIED_PROFILER.run(job)
        assert sorted(path.name for path in job.folder.iterdir()) == ["profile.json", "report.html"]
        found = json.loads(
            (job.folder / "profile.json").read_text(), parse_constant=lambda constant: pytest.fail(constant)
        )
        assert isinstance(found, dict)
        return found

    return run


def as_csv(**columns: Sequence[object]) -> str:
    rows = zip(*columns.values(), strict=True)
    lines = (",".join("" if one is None else str(one) for one in row) for row in rows)
    return ",".join(columns) + "\n" + "\n".join(lines) + "\n"


def column(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in found["columns"] if one["name"] == name)


def codes(found: dict[str, Any], name: str | None = None) -> set[str]:
    return {one["code"] for one in found["warnings"] if one["column"] == name}


def ranks(values: Sequence[float]) -> list[float]:
    """Places in order; equal values share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(one) + (ordered.count(one) + 1) / 2 for one in values]


def interpolated(values: Sequence[float], part: float) -> float:
    ordered, place = sorted(values), part * (len(values) - 1)
    low = math.floor(place)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)


number = st.one_of(st.integers(-1000, 1000).map(float), st.floats(-1e6, 1e6).map(lambda one: round(one, 3)))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.one_of(st.none(), number), min_size=2, max_size=200).filter(lambda xs: any(x is not None for x in xs))
)
def test_numbers_are_those_that_statistics_computes(run: Run, values: list[float | None]) -> None:
    found = run(as_csv(x=values, one=[1] * len(values)), correlations=False)
    there = [one for one in values if one is not None]
    x = column(found, "x")
    assert x["missing"]["count"] == len(values) - len(there)
    assert x["distinct"]["count"] == len(set(there))
    numbers = x["numbers"]
    assert (numbers["min"], numbers["max"]) == (min(there), max(there))
    assert numbers["mean"] == pytest.approx(statistics.fmean(there), rel=1e-9, abs=1e-6)
    assert numbers["zeros"] == there.count(0)
    assert numbers["negatives"] == sum(one < 0 for one in there)
    if len(there) > 1:
        assert numbers["std"] == pytest.approx(statistics.stdev(there), rel=1e-6, abs=1e-6)
    for name, part in profiling.QUANTILES.items():
        assert numbers["quantiles"][name] == pytest.approx(interpolated(there, part), rel=1e-9, abs=1e-6)
    if numbers["outliers"]:
        low, high = numbers["outliers"]["low"], numbers["outliers"]["high"]
        assert numbers["outliers"]["count"] == sum(one < low or one > high for one in there)
    if numbers["skew"] is not None:
        mean, std = statistics.fmean(there), statistics.pstdev(there)
        assert numbers["skew"] == pytest.approx(statistics.fmean(((one - mean) / std) ** 3 for one in there), abs=1e-3)
    if x["histogram"]:
        bars = x["histogram"]
        assert sum(bar["count"] for bar in bars["bins"]) + bars["below"] + bars["above"] == len(there)
        for bar in bars["bins"][:-1]:
            assert bar["count"] == sum(bar["start"] <= one < bar["end"] for one in there)
    top = {one["value"]: one["count"] for one in x["top_values"]}
    assert all(Counter(there)[value] == count for value, count in top.items())
    assert list(top.values()) == sorted((n for n in Counter(there).values() if n > 1), reverse=True)[:10]


texts = st.sampled_from(["red", "green", "blue", "NA", "a b", "é", '"quoted"', "x" * 300])


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.none(), texts), min_size=1, max_size=60))
def test_texts_are_counted_as_they_are(run: Run, values: list[str | None]) -> None:
    quoted = [None if one is None else '"' + one.replace('"', '""') + '"' for one in values]
    t = column(run(as_csv(n=range(len(values)), t=quoted), top_values=20, correlations=False), "t")
    there = [one for one in values if one is not None]
    counts = Counter(there)
    assert t["missing"] == {
        "count": len(values) - len(there),
        "share": pytest.approx(1 - len(there) / len(values)),
        "words": {"NA": counts["NA"]} if counts["NA"] else {},
    }
    assert t["distinct"]["count"] == len(counts)
    assert {one["value"][:150]: one["count"] for one in t["top_values"]} == {
        text[:150]: count for text, count in counts.items() if count > 1
    }
    if there:
        lengths = [len(one) for one in there]
        assert (t["text"]["shortest"], t["text"]["longest"]) == (min(lengths), max(lengths))
        assert t["text"]["mean_length"] == pytest.approx(statistics.fmean(lengths))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", ""])), min_size=1, max_size=60))
def test_rows_that_are_copies_are_counted_exactly(run: Run, rows: list[tuple[int, str]]) -> None:
    found = run(as_csv(n=[row[0] for row in rows], t=[row[1] for row in rows]), correlations=False)
    assert found["file"]["duplicate_rows"] == len(rows) - len(set(rows))


def test_copies_are_counted_in_parts_when_there_are_many_rows(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "hashes_at_once", 100)
    assert run(as_csv(n=[n % 700 for n in range(1000)], m=[1] * 1000))["file"]["duplicate_rows"] == 300


def test_every_type_is_recognised(run: Run) -> None:
    days = [date(2024, 1, 1) + timedelta(days=n) for n in range(60)]
    found = run(
        as_csv(
            order_id=range(500, 560), count=[n * n % 37 for n in range(60)], price=[n / 4 for n in range(60)],
            flag=["yes", "no"] * 30, bit=[0, 1] * 30, day=days, at=[f"{day} 10:00" for day in days],
            kind=["x", "y", "z"] * 20, note=[f"some words about {n * 2 // 3}" for n in range(60)],
            code=[f"K{n:03}" for n in range(60)], same=["EUR"] * 60, nothing=[None] * 60,
        )
    )  # fmt: skip
    assert {one["name"]: one["type"] for one in found["columns"]} == {
        "order_id": "identifier", "count": "integer", "price": "decimal", "flag": "boolean", "bit": "boolean",
        "day": "date", "at": "datetime", "kind": "category", "note": "text", "code": "identifier",
        "same": "constant", "nothing": "empty",
    }  # fmt: skip
    day = column(found, "day")
    assert (day["dates"]["min"], day["dates"]["max"]) == ("2024-01-01", "2024-02-29")
    assert sum(bar["count"] for bar in day["histogram"]["bins"]) == 60
    assert codes(found, "nothing") == {"empty"}
    assert "constant" in codes(found, "same")
    assert "identifier" in codes(found, "order_id")


def test_what_stands_out_is_reported(run: Run) -> None:
    n = 200
    content = as_csv(
        half=[None if row < 120 else row for row in range(n)],
        some=[None if row < 30 else "x" for row in range(n)],
        tail=[10 ** (row / 25) for row in range(n)],
        twice=[2 * 10 ** (row / 25) for row in range(n)],
        mixed=[row if row != 77 else "many" for row in range(n)],
        blank=[" x" if row < 3 else "y" for row in range(n)],
        maybe=["NA" if row % 50 == 0 else "DE" for row in range(n)],
        due=[date(2024, 1, 1) + timedelta(days=row) for row in range(n)],
        old=["0001-01-01" if row == 5 else "2024-01-01" for row in range(n)],
    )
    found = run(content + content.splitlines()[1] + "\n", as_of="2024-06-30")
    assert codes(found) == {"duplicate_rows"}
    expected = {
        "half": "missing", "some": "missing", "tail": "skewed", "mixed": "mixed_types", "blank": "padded",
        "maybe": "missing_words", "due": "future_dates", "old": "implausible_dates",
    }  # fmt: skip
    for name, code in expected.items():
        assert code in codes(found, name), name
    assert "correlated" in codes(found, "tail")
    assert column(found, "due")["dates"]["future"] == 18
    assert column(found, "mixed")["mixed"] == {"almost": "integer", "count": 1}
    severities = [one["severity"] for one in found["warnings"]]
    assert severities == sorted(severities, key=["high", "medium", "low"].index)


def test_a_clean_table_is_not_complained_about(run: Run) -> None:
    found = run(as_csv(a=[n * n % 101 for n in range(100)], kind=["x", "y"] * 50))
    assert found["warnings"] == []


def test_coefficients_are_those_of_the_definitions(run: Run) -> None:
    x = [n * 31 % 67 for n in range(90)]
    y = [one**3 + (one * 7 % 5) for one in x]
    z = [None if n % 9 == 0 else -one for n, one in enumerate(x)]
    kind = ["a" if one < 40 else "b" for one in x]
    side = ["l" if one < 50 else "r" for one in x]
    found = run(as_csv(x=x, y=y, z=z, kind=kind, side=side))["correlations"]
    assert (found["numbers"], found["categories"]) == (["x", "y", "z"], ["kind", "side"])
    assert found["pearson"][0][1] == pytest.approx(statistics.correlation(x, y))
    assert found["spearman"][0][1] == pytest.approx(statistics.correlation(ranks(x), ranks(y)))
    assert found["pearson"][0][2] == pytest.approx(-1)
    both = Counter(zip(kind, side, strict=True))
    expected = {(a, b): kind.count(a) * side.count(b) / 90 for a in "ab" for b in "lr"}
    chi_square = sum((both[pair] - count) ** 2 / count for pair, count in expected.items())
    assert found["cramers_v"][0][1] == pytest.approx(math.sqrt(chi_square / 90))
    strongest = [(pair["first"], pair["second"]) for pair in found["strongest"][:3]]
    assert set(strongest) == {("x", "y"), ("x", "z"), ("y", "z")}


def test_each_option_changes_what_is_done(run: Run) -> None:
    n = 400
    content = as_csv(a=[row * row % 211 for row in range(n)], b=[row % 17 for row in range(n)], c=["x", "y"] * (n // 2))
    assert [one["name"] for one in run(content, columns=["c", "a"])["columns"]] == ["a", "c"]
    assert len(column(run(content, top_values=3), "b")["top_values"]) == 3
    assert column(run(content, top_values=0), "b")["top_values"] == []
    assert len(column(run(content, histogram_bins=7), "a")["histogram"]["bins"]) == 7
    assert len(column(run(content, examples=2), "a")["examples"]) == 2
    assert run(content, correlations=False)["correlations"] is None
    assert run(content, duplicates=False)["file"]["duplicate_rows"] is None
    wide = as_csv(**{f"n{place}": [(row * (place + 3)) % 19 for row in range(40)] for place in range(5)})
    limited = run(wide, max_correlated_columns=2)["correlations"]
    assert (limited["numbers"], limited["left_out"]) == (["n0", "n1"], ["n2", "n3", "n4"])
    assert column(run(as_csv(d=["2024-01-01", "2030-01-01"], x=[1, 2])), "d")["dates"]["future"] is None


def test_a_sample_is_used_for_what_needs_memory_and_is_reported(run: Run) -> None:
    values = [row * 7919 % 10_007 for row in range(10_000)]
    found = run(as_csv(x=values, t=[f"t{one % 50}" for one in values]), sample_rows=1000)
    x = column(found, "x")
    assert 500 < found["file"]["sampled_rows"] < 1600
    assert found["file"]["rows"] == 10_000
    assert not x["distinct"]["exact"]
    assert x["distinct"]["count"] == pytest.approx(10_000, rel=0.1)
    assert x["numbers"]["mean"] == pytest.approx(statistics.fmean(values))
    assert (x["numbers"]["min"], x["numbers"]["max"]) == (min(values), max(values))
    assert x["numbers"]["quantiles"]["p50"] == pytest.approx(5000, rel=0.15)
    assert run(as_csv(x=values), sample_rows=10_000)["columns"][0]["distinct"] == {
        "count": len(set(values)), "share": len(set(values)) / 10_000, "exact": True,
    }  # fmt: skip


def test_a_column_whose_few_values_the_sample_has_missed_is_described_by_all_of_them(run: Run) -> None:
    gap = [""] * 2999
    content = as_csv(x=range(3000), rare=[*gap, 3.5], day=[*gap, "2024-05-06"], text=[*gap, "once"])
    found = run(content, sample_rows=100)
    assert column(found, "rare")["numbers"]["quantiles"]["p50"] == 3.5
    assert column(found, "day")["dates"]["median"] == "2024-05-06"
    assert column(found, "text")["distinct"]["count"] == 1


def test_correlations_look_at_a_bounded_number_of_rows(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relations, "rows_most", 200)
    found = run(as_csv(x=range(1000), y=[row % 7 for row in range(1000)]))
    assert found["correlations"]["rows"] < 400
    assert found["file"]["sampled_rows"] == 1000


@pytest.mark.parametrize(
    ("options", "message"),
    [({"columns": ["z"]}, "has no column z"), ({"top_values": 101}, "top_values"), ({"bins": 3}, "bins")],
)
def test_an_option_that_does_not_fit_is_refused(run: Run, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaInvalid, match=message) as caught:
        run("a,b\n1,2\n", **options)
    assert caught.value.code == "FILE_FORMAT_ERROR"


def test_the_same_file_has_the_same_profile(run: Run, make_job: MakeJob) -> None:
    content = as_csv(a=[row % 13 for row in range(300)], t=[f"{row % 7} x" for row in range(300)])
    job = make_job("table.csv", content)
    made = []
    for _ in range(2):
        UNIFIED_PROFILER.run(job)
        made.append([(job.folder / name).read_bytes() for name in ("profile.json", "report.html")])
    assert made[0] == made[1]


def test_numbers_that_are_none_do_not_spoil_the_others(make_job: MakeJob, tmp_path: Path) -> None:
    import polars as pl

    path = tmp_path / "odd.parquet"
    pl.DataFrame({"x": [1.0, float("nan"), float("inf"), None, 3.0], "n": range(5)}).write_parquet(path)
    job = make_job("odd.parquet", path)
    UNIFIED_PROFILER.run(job)
    x = json.loads((job.folder / "profile.json").read_text())["columns"][0]
    assert (x["numbers"]["mean"], x["numbers"]["infinite"], x["missing"]["count"]) == (2.0, 1, 2)


def test_agents_are_named_without_loading_polars() -> None:
    assert UNIFIED_PROFILER in AGENTS
    code = "import sys, holdfast.apps.agents; sys.exit('polars' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)


MEASURE = """
import resource, sys
from pathlib import Path
from holdfast.lifecycles.analysis.tools import InputFile, Job
from holdfast.apps.agents.profiler import profile
folder, few = Path(sys.argv[1]), {"unified-profiler": {"sample_rows": 20000}}
def work(name):
    (folder / name).mkdir()
    profile(Job(InputFile(folder / f"{name}.csv", name), folder / name, parameters=few))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
small = work("small")
print(work("large") - small)
"""


@pytest.mark.deep
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    line = "{0},2024-01-{1:02},{2},some words that fill the line and are all different {0}\n"
    for name, rows in (("small", 20_000), ("large", 300_000)):
        with (tmp_path / f"{name}.csv").open("w") as file:
            file.write("id,day,price,note\n")
            file.writelines(line.format(row, row % 28 + 1, row * 7919 % 10_007 / 100) for row in range(rows))
    environment = {**os.environ, "POLARS_MAX_THREADS": "2"}
    grown = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path)], check=True, capture_output=True, text=True, env=environment
    )
    assert int(grown.stdout) < 120 * 1024 * 1024
