"""How a worker runs a node: what it comes after has ended, and is handed to it by name."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from holdfast.engine import values
from holdfast.engine.store.calls import patiently
from holdfast.errors import SchemaInvalid
from holdfast.execution.attempt import ATTEMPT
from holdfast.execution.threads import call_function

WELL = ("done", "partial")


async def run_node(
    dag: str, function: Callable[..., Any], upstream: Mapping[str, bool], given: Mapping[str, Any]
) -> Any:
    """What the function returns of its own arguments and the results of the nodes it is named after.

    upstream: those nodes, and whether the function takes their result. One that ended badly and is ignored gives None.
    Outside of a worker the arguments are all there are. Raises SchemaInvalid for a result that does not fit.
    """
    attempt = ATTEMPT.get()
    wanted = [name for name, is_taken in upstream.items() if is_taken]
    if attempt is None or not wanted:
        return await call_function(function, (), given)
    ended = {one.name: one for one in await patiently(lambda: attempt.backend.held_upstream(attempt.lease))}
    kinds = values.hints(function)
    results: dict[str, Any] = {}
    for name in wanted:
        one = ended.get(f"{dag}.{name}")
        if one is None or one.outcome not in WELL:
            results[name] = None
            continue
        try:
            results[name] = values.load_at(name, one.result, kinds.get(name, Any))
        except ValidationError as error:
            raise SchemaInvalid(
                f"What {name} returned does not fit the parameter {name}: {values.describe(error)}.",
                code="upstream-result",
            ) from error
    return await call_function(function, (), {**given, **results})
