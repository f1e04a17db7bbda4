"""What is made of the papers of a harbour."""

from datetime import date
from pathlib import Path

import polars as pl
import pytest

from holdfast.apps.nightly.sources import write_auctions, write_landings
from holdfast.apps.nightly.transform import boats_of, check, prices_of, read_auctions, read_landings
from holdfast.errors import SchemaInvalid

DAY, NEXT = date(2026, 11, 16), date(2026, 11, 17)


def papers(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    days = DAY, NEXT
    return (
        read_landings([(day, write_landings(folder / f"l{day}.csv", day)) for day in days]),
        read_auctions([(day, write_auctions(folder / f"a{day}.csv", day)) for day in days]),
    )


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_same_day_gives_the_same_papers(tmp_path: Path) -> None:
    first, again, other = (write_landings(tmp_path / name, day) for name, day in (("a", DAY), ("b", DAY), ("c", NEXT)))
    assert first.read_bytes() == again.read_bytes() != other.read_bytes()


def test_a_lot_that_was_written_down_twice_counts_once(tmp_path: Path) -> None:
    landings, _ = papers(tmp_path)
    assert landings.select("day", "lot").is_duplicated().sum() == 0
    lines = (tmp_path / f"l{DAY}.csv").read_text().splitlines()[1:]
    assert len(lines) > len({line.split(",")[0] for line in lines}), "the made-up papers have none"


def test_species_differ_by_their_names_alone(tmp_path: Path) -> None:
    landings, _ = papers(tmp_path)
    assert set(landings["species"]) == {"cod", "haddock", "herring", "mackerel", "plaice", "sole"}


def test_prices_are_weighted_by_what_was_sold(tmp_path: Path) -> None:
    lines = "lot,boat,species,kg", "1,Eider,cod,10", "2,Eider,cod,30", "3,Gannet,sole,5"
    landings = read_landings([(DAY, written(tmp_path / "l.csv", *lines))])
    sales = "lot,buyer,kg,cents_per_kg", "1,Market Hall,10,400", "2,Market Hall,30,200"
    auctions = read_auctions([(DAY, written(tmp_path / "a.csv", *sales))])
    cod, sole = prices_of(landings, auctions).to_dicts()
    assert cod == {
        "day": DAY, "species": "cod", "landed_kg": 40.0, "lots": 2, "sold_kg": 40.0, "cents_per_kg": 250.0,
        "lowest": 200, "highest": 400,
    }  # fmt: skip
    assert (sole["sold_kg"], sole["cents_per_kg"]) == (0.0, None)
    eider, gannet = boats_of(landings, auctions).to_dicts()
    assert (eider["earned_cents"], gannet["earned_cents"]) == (10_000, 0)


def test_a_share_is_one_more_column(tmp_path: Path) -> None:
    landings, auctions = papers(tmp_path)
    plain, more = prices_of(landings, auctions), prices_of(landings, auctions, with_share=True)
    assert more.drop("share_sold").equals(plain)
    assert more["share_sold"].is_between(0, 1).all()


def test_prices_and_boats_tell_the_same_story(tmp_path: Path) -> None:
    landings, auctions = papers(tmp_path)
    figures = check(prices_of(landings, auctions), boats_of(landings, auctions))
    assert figures["days"] == 2
    assert 0 < figures["sold_kg"] < figures["landed_kg"]


def test_sums_that_differ_are_refused(tmp_path: Path) -> None:
    landings, auctions = papers(tmp_path)
    with pytest.raises(SchemaInvalid, match="by boat"):
        check(prices_of(landings, auctions), boats_of(landings.head(100), auctions))


def test_more_sold_than_landed_is_refused(tmp_path: Path) -> None:
    landings, auctions = papers(tmp_path)
    doubled = auctions.with_columns(pl.col("kg") * 2)
    with pytest.raises(SchemaInvalid, match="was sold on"):
        check(prices_of(landings, doubled), boats_of(landings, doubled))


def test_a_paper_that_is_mostly_illegible_is_refused(tmp_path: Path) -> None:
    lines = "lot,boat,species,kg", "1,Eider,cod,10", "2,Eider,cod,", "3,,sole,5"
    with pytest.raises(SchemaInvalid, match="only 1 are legible"):
        read_landings([(DAY, written(tmp_path / "l.csv", *lines))])


def test_a_paper_without_a_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaInvalid, match="has no column species"):
        read_landings([(DAY, written(tmp_path / "l.csv", "lot,boat,kg", "1,Eider,10"))])


def test_a_paper_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaInvalid, match="cannot be read"):
        read_landings([(DAY, written(tmp_path / "l.csv", "lot,boat,species,kg", "one,Eider,cod,ten"))])
