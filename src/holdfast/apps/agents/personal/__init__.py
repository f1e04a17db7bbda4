"""Finds personal data and secrets in a sample of a table, column by column.

Findings are reported only masked (`kinds.py`). They go by shape, check digit and the column's name, so that finding
nothing proves nothing: a name in a column called `x` passes unseen if it is not a common one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from holdfast.apps.agents.personal.checksums import national_id
from holdfast.apps.agents.personal.kinds import KINDS, Curtain, Kind, KindName, mask, normalized_name, redact

__all__ = ["KINDS", "Curtain", "Kind", "Seen", "curtain_for", "find_personal", "mask", "redact"]

read_most_characters = 2_000  # of one cell
examples_most = 3

# Two words that begin with a capital, as a full name does; and first names that many people have.
_full_name = (
    r"^\p{Lu}[\p{L}'\x{2019}.\-]+,?(?: (?:de|del|van|von|der|den|la|di|da|bin|al|el|le))*"
    r" (?:\p{Lu}\.? )?\p{Lu}[\p{L}'\x{2019}.\-]+$"
)
_letters_only = r"^[\p{L}][\p{L}'\x{2019}.\- ,]*$"
_first_names = [
    "james", "mary", "john", "patricia", "robert", "jennifer", "michael", "linda", "david", "elizabeth", "william",
    "barbara", "richard", "susan", "joseph", "jessica", "thomas", "sarah", "charles", "karen", "daniel", "nancy",
    "matthew", "lisa", "anthony", "betty", "mark", "margaret", "paul", "sandra", "steven", "ashley", "andrew",
    "kimberly", "emily", "donna", "joshua", "michelle", "kevin", "carol", "brian", "amanda", "george", "melissa",
    "edward", "deborah", "laura", "anna", "maria", "peter", "hans", "klaus", "stefan", "julia", "sophie", "lena",
    "lukas", "felix", "jan", "eva", "marie", "pierre", "jean", "luc", "camille", "jose", "juan", "carlos", "luis",
    "ana", "carmen", "antonio", "giulia", "marco", "luca", "francesca", "mohammed", "ahmed", "ali", "fatima", "wei",
    "li", "ming", "yuki", "hiroshi", "priya", "raj", "amit", "ravi", "olga", "ivan", "sergei", "natalia", "elena",
    "max", "emma", "olivia", "noah", "liam", "sophia", "lucas", "mia", "ben", "alice", "bob",
]  # fmt: skip
_street = (
    r"(?i)\b\d+[a-z]? (?:[\p{L}.'\-]+ ){1,4}"
    r"(?:street|st|avenue|ave|road|rd|lane|ln|drive|dr|court|ct|boulevard|blvd|way)\b"
    r"|\b\p{L}+(?:stra(?:ß|ss)e|str\.|weg|platz|allee|gasse|laan|straat) ?\d+"
    r"|\b(?:rue|avenue|calle|via|piazza|rua) (?:[\p{L}.'\-]+ ?){1,5},? ?\d+|\b\d+,? (?:rue|avenue|boulevard) "
)
_postal_code = r"^(?:\d{5}(?:-\d{4})?|\d{4} ?[A-Z]{2}|[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}|[A-Z]\d[A-Z] ?\d[A-Z]\d|\d{4})$"
_date = r"^\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|^\d{1,2}[-/. ](?:\d{1,2}|[A-Za-z]{3,9})[-/. ]\d{2,4}|^\d{8}$"


@dataclass(frozen=True)
class Seen:
    """One kind of personal data in one column: in how many of the sampled values, and a few of them masked."""

    column: str
    kind: KindName
    rows: int
    share: float  # of the values that are there
    within: bool  # inside longer texts
    why: str
    examples: tuple[str, ...]


def find_personal(frame: pl.DataFrame) -> list[Seen]:
    """What is personal in each column of a sample, the gravest first; at most one kind by name for each column."""
    found = [seen for column in frame.iter_columns() for seen in _in_column(column)]
    return sorted(found, key=lambda seen: (-KINDS[seen.kind].severity, -seen.share, seen.column))


def curtain_for(seen: Sequence[Seen]) -> Curtain:
    """The curtain before columns whose values are personal as a whole; inside longer texts, it masks by form."""
    return Curtain({one.column: one.kind for one in reversed(seen) if not one.within})


def _in_column(column: pl.Series) -> Iterator[Seen]:
    values = column.drop_nulls()
    if values.is_empty():
        return
    texts = _as_texts(values)
    shaped = list(_by_shape(column.name, texts)) if texts is not None else []
    yield from shaped
    if not any(not seen.within for seen in shaped):
        yield from _by_name(column.name, values, texts)


def _as_texts(values: pl.Series) -> pl.Series | None:
    """The values as texts, if they can hold a number or text about a person."""
    if values.dtype == pl.String or isinstance(values.dtype, pl.Categorical | pl.Enum):
        texts = values.cast(pl.String).str.slice(0, read_most_characters).str.strip_chars()
        return texts.filter(texts != "")
    if values.dtype.is_integer():
        return values.cast(pl.String)
    return None


def _by_shape(name: str, texts: pl.Series) -> Iterator[Seen]:
    taken = pl.repeat(value=False, n=len(texts), eager=True)
    for kind_name, kind in KINDS.items():
        if not (shape := kind.shape):
            continue
        if kind_name == "phone" and kind.is_hinted(name):
            shape = rf"^\+?[0-9][0-9 ().\-/]{{5,20}}[0-9]$|{shape}"
        candidates = texts.str.contains(shape) & ~taken
        if not candidates.any():
            continue
        hits = candidates & _prove(texts, candidates, shape, kind)
        enough = kind.sure or kind.is_hinted(name) or hits.sum() >= candidates.sum() / 2
        if not hits.any() or not enough:
            continue
        taken = taken | hits
        yield _make_seen(name, kind_name, texts, hits, shape)


def _prove(texts: pl.Series, candidates: pl.Series, shape: str, kind: Kind) -> pl.Series:
    """Which of the candidates hold at least one match that passes the proof."""
    distinct = texts.filter(candidates).unique()
    matches = distinct.str.extract_all(shape).to_list()
    passing = [text for text, found in zip(distinct, matches, strict=True) if any(kind.proof(one) for one in found)]
    return texts.is_in(pl.Series(passing, dtype=pl.String).implode())


def _make_seen(name: str, kind: KindName, texts: pl.Series, hits: pl.Series, shape: str) -> Seen:
    found = texts.filter(hits)
    matches = found.str.extract(f"({shape})", 1)
    whole = float(((matches.str.len_chars() * 10) >= (found.str.len_chars() * 8)).mean() or 0)  # type: ignore[arg-type]
    first = list(dict.fromkeys(matches.head(50).to_list()))[:examples_most]
    why = f"{len(found):,} of {len(texts):,} values have its form" + _describe_proof(kind, first)
    examples = tuple(mask(kind, text) for text in first)
    return Seen(name, kind, len(found), len(found) / len(texts), whole < 0.5, why, examples)


def _describe_proof(kind: KindName, matches: list[str]) -> str:
    match kind:
        case "card":
            return " and a valid check digit (Luhn)"
        case "iban":
            return " and a valid check number (ISO 7064)"
        case "national_id":
            return f" ({next((known for one in matches if (known := national_id(one))), 'national id')})"
    return ""


def _by_name(name: str, values: pl.Series, texts: pl.Series | None) -> Iterator[Seen]:
    for kind in ("special_category", "birth_date", "name", "postal_address", "location", "national_id", "secret"):
        if share := _fits(kind, name, values, texts):
            first = [str(value) for value in values.unique(maintain_order=True).head(examples_most)]
            why = f"the column's name, and {share:.0%} of its values fit"
            examples = tuple(mask(kind, text) for text in first)
            yield Seen(name, kind, round(share * len(values)), share, False, why, examples)
            return


def _fits(kind: str, name: str, values: pl.Series, texts: pl.Series | None) -> float:
    """The share of values that fit a kind that has no shape of its own; 0 if it is not that kind."""
    hinted = KINDS[kind].is_hinted(name)  # type: ignore[index]
    is_text = texts is not None and values.dtype == pl.String and len(texts) > 0
    match kind:
        case "birth_date":
            return (1.0 if values.dtype.is_temporal() else _most(texts, _date)) if hinted else 0.0
        case "location":
            return 1.0 if hinted and values.dtype.is_float() else 0.0
        case "special_category":
            return 1.0 if hinted else 0.0
        case "national_id":
            return _most(texts, r"^[A-Za-z0-9][A-Za-z0-9 .\-/]{5,19}$") if hinted else 0.0
        case "secret":
            return _most(texts, r"^\S{6,}$") if hinted and is_text else 0.0
        case "postal_address":
            shape = rf"{_street}|{_postal_code}|\d" if hinted else _street
            return _most(texts, shape) if is_text or hinted else 0.0
        case "name" if is_text and texts is not None:
            return _fits_name(name, texts, hinted)
    return 0.0


def _fits_name(name: str, texts: pl.Series, hinted: bool) -> float:
    if hinted:
        return _most(texts, _letters_only)
    first = texts.str.extract(r"^(?:[\p{L}\-']+, )?([\p{L}]+)", 1).str.to_lowercase()
    common = float(first.is_in(_first_names).mean() or 0)  # type: ignore[arg-type]
    full = _share(texts, _full_name)
    plain = normalized_name(name)
    if texts.n_unique() > 5 and (("_name_" in plain and common >= 0.15) or (plain == "_name_" and full >= 0.8)):
        return max(common, full)
    return full if common >= 0.3 and full >= 0.5 and texts.n_unique() > 5 else 0.0


def _share(texts: pl.Series | None, shape: str) -> float:
    return 0.0 if texts is None or texts.is_empty() else float(texts.str.contains(shape).mean() or 0)  # type: ignore[arg-type]


def _most(texts: pl.Series | None, shape: str) -> float:
    """The share of texts of this shape, if it is half of them or more."""
    share = _share(texts, shape)
    return share if share >= 0.5 else 0.0
