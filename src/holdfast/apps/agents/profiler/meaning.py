"""What a column is to its reader: a category, an identifier, a constant, or just what its values are."""

import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from holdfast.apps.agents.profiler.shape import Type
from holdfast.apps.agents.reading import Column

identifier_least_rows = 20
identifier_longest = 64
category_most = 50
category_most_of_many = 1_000
category_most_share = 0.5
category_of_many_share = 0.05
identifying = re.compile(r"(?i:(^|[_\W\d])(id|ids|key|uuid|guid|number|no|nr|code|index|row))$|[a-z](Id|ID|Key|No|Nr)$")


def type_of(column: Column, said: Mapping[str, Any], distinct: int, rows: int) -> Type:
    """The type that helps most to understand the column."""
    count = said["count"]
    if not count:
        return "empty"
    if distinct == 1:
        return "constant"
    if column.dtype == pl.Boolean:
        return "boolean"
    if column.dtype.is_temporal():
        return "date" if column.dtype == pl.Date else "datetime"
    if column.dtype.is_numeric():
        return type_of_number(column, said, distinct)
    if is_identifier(column, distinct, count) and said["longest"] <= identifier_longest:
        return "identifier"
    if is_category(distinct, count):
        return "category"
    return "text"


def type_of_number(column: Column, said: Mapping[str, Any], distinct: int) -> Type:
    whole = column.dtype == pl.Int64 or said["whole"] == said["count"]
    if not whole:
        return "decimal"
    if distinct == 2 and said["min"] == 0 and said["max"] == 1:
        return "boolean"
    gapless = said["max"] - said["min"] + 1 <= 1.1 * said["count"]
    if is_identifier(column, distinct, said["count"]) and (gapless or identifying.search(column.name)):
        return "identifier"
    return "integer"


def is_identifier(column: Column, distinct: int, count: int) -> bool:
    """Whether nearly all values are different; fewer are enough where the name says so, for rows may be copies."""
    least = 0.9 if identifying.search(column.name) else 0.999
    return count >= identifier_least_rows and distinct >= least * count


def is_category(distinct: int, count: int) -> bool:
    if distinct <= category_most:
        return distinct <= category_most_share * count
    return distinct <= min(category_most_of_many, category_of_many_share * count)
