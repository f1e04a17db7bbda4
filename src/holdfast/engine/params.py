"""What declared work is told by name: the parameters of its functions, joined, as params.sql checks them."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pydantic.errors import PydanticInvalidForJsonSchema

from holdfast.engine import values
from holdfast.engine.task import Json

TIMES = ("date", "date-time", "duration", "time")  # which may be numbers of seconds, too
ALL_KINDS = ("array", "boolean", "null", "number", "object", "string")
MORE = "**"


def parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def joined(known: inspect.Parameter | None, one: inspect.Parameter) -> inspect.Parameter | None:
    """A parameter that two functions take; None if they do not mean the same. Who needs it, needs it for both."""
    known = known or one
    is_other_kind = Any not in (known.annotation, one.annotation) and known.annotation != one.annotation
    is_other_default = one.empty not in (known.default, one.default) and known.default != one.default
    if is_other_kind or is_other_default:
        return None
    kind = one.annotation if known.annotation is Any else known.annotation
    return known.replace(annotation=kind, default=one.empty if known.default is one.empty else one.default)


def published(params: Mapping[str, inspect.Parameter]) -> dict[str, Json]:
    """The parameters, as the database is told of them."""
    told: dict[str, Json] = {}
    for name, one in params.items():
        is_needed = one.default is one.empty and name != MORE
        told[name] = {**takes(one.annotation), **({"needed": True} if is_needed else {})}
        if not is_needed and name != MORE:
            told[name]["default"] = values.dump(one.default)
    return told


def takes(annotation: object) -> dict[str, Json]:
    """What an annotation can be read from: the kinds of JSON values, and from where to where numbers may go."""
    reader = values.adapter(annotation)
    try:
        schema = reader.json_schema() if reader else {}
    except PydanticInvalidForJsonSchema:
        schema = {}
    ends = {name: schema[key] for name, key in (("least", "minimum"), ("most", "maximum")) if key in schema}
    return {"kinds": kinds_of(schema), **ends}


def kinds_of(schema: Mapping[str, Any]) -> list[str]:
    """The kinds of JSON values that a schema speaks of, as Postgres calls them; `integer` besides."""
    found: set[str] = set()
    for one in [schema, *schema.get("anyOf", [])]:
        if "$ref" in one or "enum" in one or "const" in one or ("type" not in one and "anyOf" not in one):
            return list(ALL_KINDS)
        if one.get("format") in TIMES:
            found.add("number")
        if "type" in one:
            found.add(one["type"])
    return sorted(found)
