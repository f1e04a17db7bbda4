"""Whatever is uploaded is read as a table, or refused with the line that is wrong."""

import gzip
import json
from collections.abc import Callable, Sequence
from datetime import date, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.apps.agents.reading import Table, delimited, open_table, parquet, raw, scratch_folder
from holdfast.errors import SchemaInvalid
from holdfast.lifecycles.analysis.tools import InputFile, Job
from tests.lifecycles.analysis.agents.conftest import MakeJob

Read = Callable[..., tuple[Table, list[tuple[Any, ...]]]]


@pytest.fixture
def read(make_job: MakeJob, tmp_path: Path) -> Read:
    """The table and its rows."""

    def read(filename: str, content: bytes | str, **reading: Any) -> tuple[Table, list[tuple[Any, ...]]]:
        job = make_job(filename, content, {"reading": reading})
        table = open_table(job, job.primary, tmp_path)
        return table, table.frame.collect(engine="streaming").rows()

    return read


@pytest.fixture
def refused(read: Read) -> Callable[..., str]:
    """The sentence with which a file is refused; without its code it is no refusal."""

    def refused(filename: str, content: bytes | str, code: str = "FILE_FORMAT_ERROR", **reading: Any) -> str:
        with pytest.raises(SchemaInvalid) as caught:
            read(filename, content, **reading)
        assert caught.value.code == code
        return str(caught.value)

    return refused


def as_parquet(frame: pl.DataFrame, **options: Any) -> bytes:
    sink = BytesIO()
    frame.write_parquet(sink, **options)
    return sink.getvalue()


TABLE = [(1, "x", date(2024, 1, 1)), (2, None, date(2024, 2, 3))]


@pytest.mark.parametrize(
    ("filename", "content", "form"),
    [
        ("a.csv", "a,b,c\n1,x,2024-01-01\n2,,2024-02-03\n", "CSV"),
        ("no-newline.csv", "a,b,c\n1,x,2024-01-01\n2,,2024-02-03", "CSV"),
        ("windows.csv", "\ufeffa,b,c\r\n1,x,2024-01-01\r\n2,,2024-02-03\r\n", "CSV"),
        ("mac.csv", "a,b,c\r1,x,2024-01-01\r2,,2024-02-03\r", "CSV"),
        ("german.csv", "a;b;c\n1;x;01.01.2024\n2;;03.02.2024\n", "CSV"),
        ("bars.txt", "a|b|c\n1|x|2024-01-01\n2||2024-02-03\n", "CSV"),
        ("a.tsv", "a\tb\tc\n1\tx\t2024-01-01\n2\t\t2024-02-03\n", "TSV"),
        ("quoted.csv", '"a","b","c"\n"1","x","2024-01-01"\n"2",,"2024-02-03"\n', "CSV"),
        ("blanks.csv", "a,b,c\n\n1,x,2024-01-01\n\n2,,2024-02-03\n\n", "CSV"),
        ("a.jsonl", '{"a":1,"b":"x","c":"2024-01-01"}\n\n{"c":"2024-02-03","a":2,"b":null}\n', "JSON Lines"),
        ("json.csv", '{"a":1,"b":"x","c":"2024-01-01"}\n{"a":2,"c":"2024-02-03"}\n', "JSON Lines"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_every_format_says_the_same(read: Read, filename: str, content: str, form: str, packed: bool) -> None:
    data = content.encode()
    table, rows = read(filename, gzip.compress(data) if packed else data)
    assert rows == TABLE
    assert (table.names, table.format, table.rows, table.compressed) == (["a", "b", "c"], form, 2, packed)


@pytest.mark.parametrize("packed", [False, True])
def test_parquet_is_known_by_its_content(read: Read, packed: bool) -> None:
    data = as_parquet(pl.DataFrame(TABLE, schema=["a", "b", "c"], orient="row"))
    table, rows = read("a.csv", gzip.compress(data) if packed else data)
    assert (rows, table.format) == (TABLE, "Parquet")


def test_parquet_columns_are_brought_to_six_types(read: Read) -> None:
    frame = pl.DataFrame(
        {
            "small": pl.Series([1, 2], dtype=pl.UInt8),
            "money": pl.Series(["1.50", "2.25"]).cast(pl.Decimal(10, 2)),
            "kind": pl.Series(["x", "y"], dtype=pl.Categorical),
            "list": [[1, 2], None],
            "zoned": pl.Series([datetime(2024, 1, 1, 12)] * 2).dt.replace_time_zone("Europe/Berlin"),
            "bytes": [b"\xff", b""],
        }
    )
    table, rows = read("a.parquet", as_parquet(frame))
    assert [column.dtype for column in table.columns] == [
        pl.Int64, pl.Float64, pl.String, pl.String, pl.Datetime("us"), pl.String,
    ]  # fmt: skip
    assert rows[0] == (1, 1.5, "x", '{"list":[1,2]}', datetime(2024, 1, 1, 11), "ff")
    assert rows[1][3] is None


@pytest.mark.parametrize(
    ("values", "dtype", "first"),
    [
        (["1", "-2", " 3 "], pl.Int64, 1),
        (["1", "2.5", "1e3"], pl.Float64, 1.0),
        (["1,5", "2,25"], pl.Float64, 1.5),
        (["007", "012"], pl.String, "007"),
        (["12345678901234567890", "1"], pl.String, "12345678901234567890"),
        (["yes", "No", "Y"], pl.Boolean, True),
        (["2024-02-29", "NA", "-"], pl.Date, date(2024, 2, 29)),
        (["2024-02-30", "2024-02-31"], pl.String, "2024-02-30"),
        (["31/12/2024", "01/02/2024"], pl.Date, date(2024, 12, 31)),
        (["12/31/2024", "01/02/2024"], pl.Date, date(2024, 12, 31)),
        (["2024-01-01 10:00", "2024-01-02 11:30"], pl.Datetime("us"), datetime(2024, 1, 1, 10)),
        (["2024-01-01T10:00:00.5", "2024-01-01T10:00:00"], pl.Datetime("us"), datetime(2024, 1, 1, 10, 0, 0, 500_000)),
        (["2024-01-01T10:00:00+02:00", "2024-01-01T10:00:00Z"], pl.Datetime("us"), datetime(2024, 1, 1, 8)),
        (["inf", "1"], pl.String, "inf"),
        (["NA", "", "-"], pl.String, "NA"),
    ],
)
def test_a_column_is_what_all_its_values_are(read: Read, values: Sequence[str], dtype: Any, first: Any) -> None:
    table, rows = read("a.csv", "x;y\n" + "".join(f"{value};1\n" for value in values))
    assert (table.columns[0].dtype, rows[0][0]) == (dtype, first)


def test_one_late_value_makes_a_column_text_and_is_counted(read: Read) -> None:
    table, rows = read("a.csv", "n,m\n" + "1,2\n" * 20_000 + "1,x\nNA,3\n")
    number, mixed = table.columns
    assert (number.dtype, number.misfits) == (pl.Int64(), 0)
    assert (mixed.dtype, mixed.misfits, mixed.almost) == (pl.String(), 1, "integer")
    assert rows[-2:] == [(1, "x"), (None, "3")]


def test_a_late_fraction_makes_a_column_decimal(read: Read) -> None:
    table, rows = read("a.csv", "n\n" + "1\n" * 20_000 + "2.5\n")
    assert (table.columns[0].dtype, rows[-1]) == (pl.Float64(), (2.5,))


def test_a_column_that_begins_late_has_its_type(read: Read) -> None:
    table, rows = read("a.csv", "n,m\n" + ",1\n" * 20_000 + "2024-05-06,1\n")
    assert (table.columns[0].dtype, rows[-1][0]) == (pl.Date(), date(2024, 5, 6))


def test_dates_that_could_be_read_two_ways_are_not_guessed(read: Read) -> None:
    content = "d\n01/02/2024\n03/04/2024\n"
    table, rows = read("a.csv", content)
    assert rows[0] == ("01/02/2024",)
    assert "day-first" in table.notes[0]
    assert read("a.csv", content, dates="day-first")[1][0] == (date(2024, 2, 1),)
    assert read("a.csv", content, dates="month-first")[1][0] == (date(2024, 1, 2),)
    assert read("a.csv", "d\n2024-01-02\n", dates="off")[1][0] == ("2024-01-02",)


def test_json_says_itself_what_is_a_number(read: Read) -> None:
    lines = ['{"zip":"12","n":1,"deep":{"a":[1]},"mixed":1}', '{"zip":"13","n":2.5,"late":true,"mixed":"x","e":""}']
    table, rows = read("a.jsonl", "\n".join(lines))
    assert table.names == ["zip", "n", "deep", "mixed", "late", "e"]
    assert rows == [("12", 1.0, '{"a": [1]}', "1", None, None), ("13", 2.5, None, "x", True, "")]


def test_options_say_how_a_file_is_to_be_understood(read: Read) -> None:
    assert read("a.csv", "1^2\n3^4\n", delimiter="^", header=False)[1] == [(1, 2), (3, 4)]
    assert read("a.csv", "1,2\n3,4\n", header=False)[0].names == ["column_1", "column_2"]
    assert read("a.csv", "a,b\n1,2\nnull island,4\n", null_values=["null island"])[1] == [(1, 2), (None, 4)]
    table, rows = read("a.csv", "a,b,c\n1,2,3\n", columns=["c", "a"])
    assert (table.names, rows) == (["a", "c"], [(1, 3)])
    assert read("a.csv", "a,b\n1,Zoë\n".encode("latin-1"), encoding="latin-1")[1] == [(1, "Zoë")]
    assert read("a.csv", "a,b\n1,€\n".encode("windows-1252"), encoding="windows-1252")[1] == [(1, "€")]
    assert read("a.csv", "a,b\n1,Zoë\n".encode("utf-16"))[1] == [(1, "Zoë")]
    for order in ("utf-16-le", "utf-16-be"):  # without a mark it must be said
        assert read("a.csv", "a,b\n1,Zoë\n".encode(order), encoding="utf-16")[1] == [(1, "Zoë")]


def test_a_name_that_is_a_text_is_refused(refused: Callable[..., str]) -> None:
    assert "the name of column 2 has 20,000 characters" in refused("a.csv", f"a,{'b' * 20_000}\n1,2\n")
    assert "the name of column 1 has 20,000" in refused("a.jsonl", f'{{"{"b" * 20_000}": 1}}\n')


def test_names_are_made_different_with_a_note(read: Read) -> None:
    table, _ = read("a.csv", "a,a,,a_2\n1,2,3,4\n")
    assert table.names == ["a", "a_3", "column_3", "a_2"]
    assert len(table.notes) == 2
    assert "Column 2 is named a" in table.notes[0]


def test_a_name_that_means_many_columns_to_polars_is_one(read: Read) -> None:
    table, rows = read("a.csv", "*,^.*$,a\n1,2,3\n")
    assert (table.names, rows) == (["(*)", "(^.*$)", "a"], [(1, 2, 3)])
    frame = pl.DataFrame({"*": [1], "^.*$": [2], "": [3]})
    table, rows = read("a.parquet", as_parquet(frame))
    assert (table.names, rows) == (["(*)", "(^.*$)", "column_3"], [(1, 2, 3)])
    assert read("a.jsonl", '{"*":1,"^a$":"x"}\n')[1] == [(1, "x")]


def test_quotes_in_the_middle_of_a_field_are_read(read: Read) -> None:
    assert read("a.csv", 'a,b\n1,5" pipe\n2,"x, ""y""\nz"\n')[1] == [(1, '5" pipe'), (2, 'x, "y"\nz')]


@pytest.mark.parametrize(
    ("filename", "content", "message"),
    [
        ("long.csv", "a,b\n1,2\n1,2,3\n1,2,3\n", "line 3 has 3 fields, but the header has 2. 2 rows"),
        ("short.csv", "a,b,c\n1,2,3\n1,2\n", "line 3 has 2 fields, but the header has 3"),
        ("even.csv", "a,b,c\n1,2\n1,2,3,4\n", "line 2 has 2 fields, but the header has 3. 2 rows"),
        ("lines.csv", 'a,b\n1,"x\ny"\n1\n', "line 4 has 1 field, but the header has 2"),
        ("inside.csv", 'a,b,c\n1,"x,y",2\n1,2\n', "line 3 has 2 fields"),
        ("open.csv", 'a,b\n1,2\n3,"4\n5,6\n', "line 3: a quote is opened and never closed"),
        ("after.csv", 'a,b\n1,"2"3\n', "line 2: after a closing quote"),
        ("nul.csv", "a,b\n1,2\n1,\0\n", "line 3 holds a NUL byte"),
        ("bytes.csv", b"a,b\n1,2\n1,caf\xe9\n", "line 3 holds the byte 0xE9 at its byte 6"),
        ("far.csv", b"a,b\n1," + b"x" * (1 << 20) + b"\xe9\n", "line 2 holds the byte 0xE9 at its byte 1,048,579"),
        (
            "split.csv",
            b"a,b\n1," + b"x" * ((1 << 20) - 7) + b"\xc3\n",
            "line 2 holds the byte 0xC3 at its byte 1,048,572",
        ),
        ("cut.csv", "a,b\n1,é".encode()[:-1], "line 2 holds the byte 0xC3"),
        ("empty.csv", "", "is empty"),
        ("blank.csv", "\n \n", "is empty"),
        ("header.csv", "a,b\n", "has a header and no rows"),
        ("header.csv", "a,b", "has a header and no rows"),
        ("wide.csv", ",".join(map(str, range(5_001))) + "\n1\n", "has 5,001 columns"),
        ("a.jsonl", '{"a":1}\n[1]\n', "line 2 is not a JSON object"),
        ("a.jsonl", '{"a":1}\n\n{"a":\n', "line 3 is not JSON"),
        ("a.jsonl", '{"a":NaN}\n', "line 1 is not JSON: NaN"),
        ("a.jsonl", '{"a":' + "[" * 100_000 + "\n", "line 1 is not JSON"),
        ("a.json", '[{"a":1}]', "is one JSON array"),
        ("a.jsonl", "{}\n{}\n", "no objects with keys"),
        ("a.parquet", "a,b\n1,2\n", "called Parquet, but"),
        ("a.csv", b"PK\x03\x04\x14\x00rows.csv", "is a zip archive"),
        ("a.csv", b"PK\x03\x04\x14\x00[Content_Types].xml", "is an Excel workbook"),
        ("a.csv", b"%PDF-1.7", "is a PDF document"),
        ("a.csv", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office document"),
        ("a.csv", "<!DOCTYPE html><p>Sign in", "is a web page"),
        ("twice.gz", gzip.compress(gzip.compress(b"a,b\n1,2\n", mtime=0), mtime=0), "compressed twice"),
    ],
)
def test_what_is_malformed_is_refused_with_its_line(
    refused: Callable[..., str], filename: str, content: bytes | str, message: str
) -> None:
    assert message in refused(filename, content)


@pytest.mark.parametrize(
    ("filename", "content", "message"),
    [
        ("cut.csv.gz", gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:-12], "cut off"),
        ("damaged.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-8] + b"\0" * 8, "damaged"),
        ("cut.parquet", as_parquet(pl.DataFrame({"a": range(1000)}))[:-100], "cut off"),
    ],
)
def test_a_file_that_cannot_be_read_to_its_end_has_an_error_of_its_own(
    refused: Callable[..., str], filename: str, content: bytes, message: str
) -> None:
    assert message in refused(filename, content, code="FILE_READ_ERROR")


def test_a_file_that_is_gone_is_a_read_error(tmp_path: Path) -> None:
    job = Job(InputFile(tmp_path / "gone", "gone.csv"), tmp_path)
    with pytest.raises(SchemaInvalid) as caught:
        open_table(job, job.primary, tmp_path)
    assert caught.value.code == "FILE_READ_ERROR"


def test_parquet_with_a_damaged_page_is_refused_before_any_work(refused: Callable[..., str]) -> None:
    data = bytearray(as_parquet(pl.DataFrame({"a": range(10_000)}), compression="zstd"))
    data[20:2000] = b"\xff" * 1980
    assert "cannot be read" in refused("a.parquet", bytes(data), code="FILE_READ_ERROR")


def test_parquet_with_a_senseless_footer_is_refused(refused: Callable[..., str]) -> None:
    data = as_parquet(pl.DataFrame({"a": [1]}))
    assert "footer" in refused("a.parquet", data[:4] + b"\xff" * (len(data) - 12) + data[-8:])
    assert "footer" in refused("a.parquet", data[:-8] + b"\xff\xff\xff\x0f" + b"PAR1")


def test_parquet_without_rows_is_refused(refused: Callable[..., str]) -> None:
    assert "no rows" in refused("a.parquet", as_parquet(pl.DataFrame({"a": []}, schema={"a": pl.Int64})))


def test_a_gzip_bomb_is_refused_before_it_is_unpacked(make_job: MakeJob, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb"
    bomb.write_bytes(gzip.compress(bytes(8 * 1024 * 1024)) * 250)
    job = make_job("bomb.csv.gz", bomb)
    with scratch_folder(job) as scratch:
        with pytest.raises(SchemaInvalid, match="refused as a bomb") as caught:
            open_table(job, job.primary, scratch)
        assert sum(file.stat().st_size for file in scratch.rglob("*") if file.is_file()) <= 400 * 1024 * 1024
    assert caught.value.code == "FILE_FORMAT_ERROR"
    assert not any(job.folder.iterdir())


def test_what_unpacks_to_more_than_we_take_is_refused(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "unpacked_most_bytes", 1_000_000)
    assert "unpacks to more than" in refused("a.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 500_000))


def test_a_line_without_end_is_refused(refused: Callable[..., str]) -> None:
    assert "line 2 is longer than 16 MiB" in refused("a.csv", "a,b\n1," + "x" * (17 * 1024 * 1024) + "\n")


def test_parquet_that_declares_more_than_it_can_hold_is_refused(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = as_parquet(pl.DataFrame({"a": [0] * 300_000}))
    monkeypatch.setattr(parquet, "cells_count_from", 100_000)
    monkeypatch.setattr(parquet, "cells_most_per_byte", 100)
    assert "300,000 values" in refused("a.parquet", many)
    monkeypatch.setattr(parquet, "cells_most_per_byte", 10**9)
    monkeypatch.setattr(raw, "ratio_counts_from_bytes", 1_000)
    monkeypatch.setattr(raw, "ratio_most", 1)
    assert "bomb" in refused("a.parquet", as_parquet(pl.DataFrame({"a": ["x" * 1000] * 1000}), compression="zstd"))
    monkeypatch.setattr(raw, "ratio_most", 10**9)
    monkeypatch.setattr(parquet, "chunk_most_bytes", 1_000)
    assert "smaller row groups" in refused("a.parquet", as_parquet(pl.DataFrame({"a": range(1_000)})))


def test_options_that_do_not_fit_are_refused(refused: Callable[..., str]) -> None:
    assert "reading.columns: a.csv has no column z" in refused("a.csv", "a,b\n1,2\n", columns=["z"])
    assert "reading.delimiter" in refused("a.csv", "a,b\n1,2\n", delimiter=",,")
    assert "reading.encodin" in refused("a.csv", "a,b\n1,2\n", encodin="utf-8")


def test_nothing_is_left_behind(make_job: MakeJob) -> None:
    job = make_job("a.csv", "a,b\n1,2\n")
    with scratch_folder(job) as scratch:
        open_table(job, job.primary, scratch)
        assert any(job.folder.iterdir())
    assert not any(job.folder.iterdir())


field = st.text(st.sampled_from('ab1 ",;\n\t|é.-0'), max_size=6)


@pytest.mark.deep
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(2, 4).flatmap(lambda width: st.lists(st.lists(field, min_size=width, max_size=width), min_size=1)))
def test_what_was_written_as_csv_comes_back(make_job: MakeJob, tmp_path: Path, rows: list[list[str]]) -> None:
    """Whatever stands in the fields, if they are quoted by the rules; read as text, so that nothing is interpreted."""
    quoted = "\n".join(",".join('"' + one.replace('"', '""') + '"' for one in row) for row in rows)
    names = [f"n{place}" for place in range(len(rows[0]))]
    job = make_job("a.csv", ",".join(names) + "\n" + quoted + "\n", {"reading": {"delimiter": ","}})
    table = open_table(job, job.primary, tmp_path)
    assert table.rows == len(rows)
    back = table.frame.collect(engine="streaming").rows()
    for before, after in zip(rows, back, strict=True):
        for text, value in zip(before, after, strict=True):
            assert not isinstance(value, str) or value == text


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.booleans())
def test_a_row_of_another_length_never_passes(
    make_job: MakeJob, tmp_path: Path, lengths: list[int], quoted: bool
) -> None:
    one = '"x,y"' if quoted else "x"
    content = "a,b,c\n" + "".join(",".join([one] * length) + "\n" for length in lengths)
    job = make_job("a.csv", content, {"reading": {"delimiter": ","}})
    wrong = [line for line, length in enumerate(lengths, start=2) if length != 3]
    if not wrong:
        assert open_table(job, job.primary, tmp_path).rows == len(lengths)
        return
    with pytest.raises(SchemaInvalid, match=f"line {wrong[0]} has"):
        open_table(job, job.primary, tmp_path)


def test_json_lines_of_any_values_come_back(read: Read) -> None:
    values = ['a"b', "x,y\nz", "\u202e", "😀", "'", "\\", "\ud800"]
    lines = "\n".join(json.dumps({"t": value, "n": place}) for place, value in enumerate(values))
    rows = read("a.jsonl", lines)[1]
    assert [row[0] for row in rows] == [*values[:-1], "?"]


def test_a_delimiter_is_found_though_others_are_more_frequent(tmp_path: Path) -> None:
    path = tmp_path / "sniffed.csv"
    path.write_text("name;note\n" + "".join(f"a;one, two, three, {'four, ' * (n % 3)}\n" for n in range(20)))
    assert delimited.sniff(path, "a.csv") == ";"
