"""What declared work takes by name: the parameters of its functions, joined, as params.sql checks them."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic.errors import PydanticInvalidForJsonSchema

from holdfast.engine import values
from holdfast.engine.task import Json
from holdfast.errors import AppInvalid

TIMES = ("date", "date-time", "duration", "time")  # which may be numbers of seconds, too
ALL_KINDS = ("array", "boolean", "null", "number", "object", "string")
MORE = "**"


def parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def join_parameters(
    owner: str, taken: Iterable[tuple[str, Mapping[str, inspect.Parameter]]]
) -> dict[str, inspect.Parameter]:
    """What several functions take together, each by its name. Raises AppInvalid where two do not mean the same.

    Who needs a parameter, needs it for all. `taken`: the name of each function, and those of its parameters that count.
    """
    found: dict[str, inspect.Parameter] = {}
    for function, params in taken:
        for name, one in params.items():
            if one.kind is one.VAR_KEYWORD:
                found.setdefault(MORE, one.replace(name="_more"))
                continue
            known = found.get(name, one)
            is_other_kind = Any not in (known.annotation, one.annotation) and known.annotation != one.annotation
            is_other_default = one.empty not in (known.default, one.default) and known.default != one.default
            if is_other_kind or is_other_default:
                raise AppInvalid(
                    f"{owner}: {function} takes {one.replace(kind=one.KEYWORD_ONLY)}, and another one {known}.",
                    fix="Let both say the same, or rename one.",
                )
            found[name] = known.replace(
                kind=one.KEYWORD_ONLY,
                annotation=one.annotation if known.annotation is Any else known.annotation,
                default=one.empty if known.default is one.empty else one.default,
            )
    return found


def typed_parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of a function, with the types that its annotations name."""
    kinds = values.hints(function)
    return {name: one.replace(annotation=kinds.get(name, Any)) for name, one in parameters(function).items()}


def present_as(
    function: Callable[..., Any],
    name: str,
    params: Iterable[inspect.Parameter],
    returns: object,
    doc: str | None = None,
) -> Callable[..., Any]:
    """The function, which takes `**params`, as if it were written with these; they are sorted as Python wants them."""
    places = sorted((one.replace(kind=max(one.kind, one.KEYWORD_ONLY)) for one in params), key=lambda one: one.kind)
    function.__annotations__ = {**{one.name: one.annotation for one in places}, "return": returns}
    vars(function).update(
        __signature__=inspect.Signature(places), __name__=name.rpartition(".")[2], __qualname__=name, __doc__=doc
    )
    return function


def describe_parameters(params: Mapping[str, inspect.Parameter]) -> dict[str, Json]:
    """The parameters, as params.sql knows them: the kinds of JSON values that each takes, and its default."""
    described: dict[str, Json] = {}
    for name, one in params.items():
        described[name] = takes(one.annotation)
        if name != MORE:
            is_needed = one.default is one.empty
            described[name] |= {"needed": True} if is_needed else {"default": values.dump(one.default)}
    return described


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
