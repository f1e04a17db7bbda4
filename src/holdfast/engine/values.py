"""Values of Python as JSON, and back as the types that annotations name."""

import contextlib
import functools
import inspect
import json
import reprlib
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from decimal import Decimal, InvalidOperation
from types import NoneType
from typing import Any, cast, get_args

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError, to_jsonable_python

from holdfast.engine.task import Json
from holdfast.errors import PayloadInvalid, SchemaInvalid, StepInvalid

KNOWN: MutableMapping[Callable[..., Any], Mapping[str, Any]] = weakref.WeakKeyDictionary()


def dump(value: object) -> Json:
    """A value as JSON holds it: models, dataclasses, dates, sets and the like included. Raises PayloadInvalid."""
    try:
        return to_jsonable_python(value)
    except (ValueError, RecursionError) as error:  # not serialisable, not text, or holding itself
        raise PayloadInvalid(
            f"{error}.", fix="Return what JSON can hold; put files where files live and return their address."
        ) from error


def load(value: Json, kind: object = Any) -> Any:
    """JSON as an annotation reads it. Raises ValidationError."""
    if is_itself(value, kind):
        return value
    try:
        reader = adapter(kind)
    except TypeError:  # an annotation that cannot be hashed
        return value
    return reader.validate_json(json.dumps(value)) if reader else value


def is_itself(value: object, kind: object) -> bool:
    """Whether a value is in JSON what it is in Python, so that there is nothing to convert: the common case."""
    if value is None:
        return kind is None or kind is NoneType or kind is Any
    if type(value) is not kind:
        return False
    if kind is str:
        return cast(str, value).isascii()
    return kind is bool or (kind is int and -(2**53) <= cast(int, value) <= 2**53)


def load_at(name: str, value: Json, kind: object) -> Any:
    """The same for a value that has a name, which the error then tells. Raises ValidationError."""
    try:
        return load(value, kind)
    except ValidationError as error:
        found = [((name, *each["loc"]), each["msg"]) for each in error.errors(include_url=False)]
        raise misfit(name, found) from None


def fit(whose: str, value: object, kind: object) -> Json:
    """A result as JSON, if it can be read back as its annotation says. Raises SchemaInvalid, or PayloadInvalid."""
    if is_itself(value, kind):
        return cast(Json, value)
    result = dump(value)
    try:
        load(result, kind)
    except ValidationError as error:
        raise SchemaInvalid(
            f"{whose} returned {reprlib.repr(value)}, which does not fit its annotation {type_name(kind)}:"
            f" {describe(error)}."
        ) from error
    return result


def read_back(whose: str, result: Json, kind: object) -> Any:
    """A result that was kept, as its annotation reads now. Raises SchemaInvalid."""
    try:
        return load(result, kind)
    except ValidationError as error:
        raise SchemaInvalid(
            f"{whose} has kept {reprlib.repr(result)}, which does not fit the annotation {type_name(kind)} "
            f"that it has now: {describe(error)}."
        ) from error


def type_name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


def misfit(title: str, problems: Iterable[tuple[tuple[int | str, ...], str]]) -> ValidationError:
    """The error for values that do not fit: where, and why."""
    found = [
        InitErrorDetails(type=PydanticCustomError("misfit", "{message}", {"message": message}), loc=place, input=None)
        for place, message in problems
    ]
    return ValidationError.from_exception_data(title, found)


def describe(error: ValidationError) -> str:
    """What does not fit, in one line."""
    found = error.errors(include_url=False, include_input=False)[:5]
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in found)


@functools.lru_cache(maxsize=1024)
def adapter(kind: object) -> TypeAdapter[Any] | None:
    """What reads a type; None for one that cannot be read from JSON, whose values stay plain."""
    if kind is Any or kind is inspect.Parameter.empty:
        return None
    try:
        reader: TypeAdapter[Any] = TypeAdapter(kind)  # type: ignore[arg-type]
        return reader
    except (PydanticUserError, NameError, TypeError):
        return None


def returned_by(function: Callable[..., Any]) -> object:
    """The return annotation of a function; Any if it has none that can be read."""
    return hints(function).get("return", Any)


def read_hints(function: Callable[..., Any], scope: Mapping[str, Any]) -> None:
    """Read the annotations of a function within a function where it is written: they may name what is known only there.

    If some name is not known yet, they are read again when they are needed.
    """
    if "<locals>" in getattr(function, "__qualname__", ""):
        found = _read_hints(function, scope)
        if found.keys() == getattr(function, "__annotations__", {}).keys():
            KNOWN[function] = found


def hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The annotations of a function, but for those whose names are not known."""
    try:
        if function not in KNOWN:
            KNOWN[function] = _read_hints(inspect.unwrap(function), {})
        return KNOWN[function]
    except TypeError:  # what takes no weak reference has no annotations either: a partial, a builtin
        return {}


def _read_hints(function: Callable[..., Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    where = {**scope, **_closure_values(function)}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        one = types.SimpleNamespace(__annotations__={name: annotation})
        with contextlib.suppress(NameError, TypeError, AttributeError, SyntaxError):
            known |= typing.get_type_hints(one, getattr(function, "__globals__", {}), where, include_extras=True)
    return known


def _closure_values(function: Callable[..., Any]) -> dict[str, Any]:
    """What a function has taken along from the function it was written in."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    found = {}
    for name, cell in zip(names, getattr(function, "__closure__", None) or (), strict=False):
        with contextlib.suppress(ValueError):  # not bound yet
            found[name] = cell.cell_contents
    return found


def exact(cost_cents: float | Decimal) -> Json:
    """A cost as JSON that loses none of its digits: a number as it is, a Decimal as a string."""
    try:
        amount = Decimal(str(cost_cents))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite():
        raise StepInvalid(f"cost_cents={cost_cents!r} is not a cost.", fix="Give a number, or leave it out.")
    return cost_cents if isinstance(cost_cents, (int, float)) else str(amount)
