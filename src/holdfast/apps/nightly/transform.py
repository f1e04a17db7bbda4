"""What is made of the papers: frames in, frames out, and nothing else. The same papers make the same frames."""

from collections.abc import Iterable
from datetime import date
from pathlib import Path

import polars as pl

from holdfast.apps.nightly.sources import AUCTIONS, LANDINGS
from holdfast.errors import SchemaInvalid

least_kept = 0.9
"""So much of a paper must be legible, or it is not to be trusted."""


def read_landings(papers: Iterable[tuple[date, Path]]) -> pl.DataFrame:
    """The lots that came ashore: each once, with a species in small letters and a weight. Raises SchemaInvalid."""
    species = pl.col("species").str.strip_chars().str.to_lowercase()
    return read_papers(papers, LANDINGS).with_columns(species)


def read_auctions(papers: Iterable[tuple[date, Path]]) -> pl.DataFrame:
    """The lots that were sold: each once, with a weight and a price. Raises SchemaInvalid."""
    return read_papers(papers, AUCTIONS)


def prices_of(landings: pl.DataFrame, auctions: pl.DataFrame, *, with_share: bool = False) -> pl.DataFrame:
    """By day and species: what was landed, what of it was sold, and for how much. `with_share` adds a column."""
    sold = auctions.join(landings.select("day", "lot", "species"), on=["day", "lot"])
    by_species = sold.group_by("day", "species").agg(
        pl.len().cast(pl.Int64).alias("lots"),
        pl.col("kg").sum().round(1).alias("sold_kg"),
        ((pl.col("kg") * pl.col("cents_per_kg")).sum() / pl.col("kg").sum()).round(2).alias("cents_per_kg"),
        pl.col("cents_per_kg").min().alias("lowest"),
        pl.col("cents_per_kg").max().alias("highest"),
    )
    landed = landings.group_by("day", "species").agg(pl.col("kg").sum().round(1).alias("landed_kg"))
    prices = landed.join(by_species, on=["day", "species"], how="left").with_columns(
        pl.col("lots").fill_null(0), pl.col("sold_kg").fill_null(0.0)
    )
    if with_share:
        prices = prices.with_columns((pl.col("sold_kg") / pl.col("landed_kg")).round(4).alias("share_sold"))
    return prices.sort("day", "species")


def boats_of(landings: pl.DataFrame, auctions: pl.DataFrame) -> pl.DataFrame:
    """By day and boat: what it landed, and what that brought in."""
    lots = landings.join(auctions.select("day", "lot", "cents_per_kg", sold_kg="kg"), on=["day", "lot"], how="left")
    worth = (pl.col("sold_kg") * pl.col("cents_per_kg")).sum().round(0).cast(pl.Int64)
    return (
        lots.group_by("day", "boat")
        .agg(pl.col("kg").sum().round(1).alias("landed_kg"), worth.alias("earned_cents"))
        .sort("day", "boat")
    )


def check(prices: pl.DataFrame, boats: pl.DataFrame) -> dict[str, float]:
    """What both tables agree on, in figures. Raises SchemaInvalid if they do not: then nothing is published."""
    by_species, by_boat = (round(float(frame["landed_kg"].sum()), 1) for frame in (prices, boats))
    if abs(by_species - by_boat) > 0.05 * (prices.height + boats.height):
        raise SchemaInvalid(f"By species {by_species} kg were landed, by boat {by_boat} kg.", code="sums-differ")
    if (oversold := prices.filter(pl.col("sold_kg") > pl.col("landed_kg") + 0.1)).height:
        first = oversold.row(0, named=True)
        raise SchemaInvalid(f"More {first['species']} was sold on {first['day']} than was landed.", code="oversold")
    return {
        "days": prices["day"].n_unique(), "landed_kg": by_species, "sold_kg": round(float(prices["sold_kg"].sum()), 1),
        "earned_cents": int(boats["earned_cents"].sum()),
    }  # fmt: skip


def read_papers(papers: Iterable[tuple[date, Path]], columns: tuple[str, ...]) -> pl.DataFrame:
    """The lots of all papers, each with its day. Raises SchemaInvalid."""
    return pl.concat([read_paper(path, day, columns) for day, path in papers]).sort("day", "lot")


def read_paper(path: Path, day: date, columns: tuple[str, ...]) -> pl.DataFrame:
    """Each lot once, without those that miss something. Raises SchemaInvalid if these are too many, or all is amiss."""
    kinds = {"lot": pl.Int64, "kg": pl.Float64, "cents_per_kg": pl.Int64}
    try:
        paper = pl.read_csv(path, schema_overrides={name: kinds[name] for name in columns if name in kinds})
    except pl.exceptions.PolarsError as error:
        raise SchemaInvalid(f"The paper of {day} cannot be read: {error}", code="paper") from error
    if missing := [name for name in columns if name not in paper.columns]:
        raise SchemaInvalid(f"The paper of {day} has no column {', '.join(missing)}.", code="paper")
    kept = paper.unique("lot", keep="first", maintain_order=True).drop_nulls(columns[1:]).filter(pl.col("kg") > 0)
    if kept.height < least_kept * paper.height:
        raise SchemaInvalid(
            f"Of the {paper.height} lines of {day}, only {kept.height} are legible.", code="illegible"
        )  # fmt: skip
    return kept.select(pl.lit(day).alias("day"), *columns)
