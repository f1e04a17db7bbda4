"""RPC under a lease: what a handler asks of a lifecycle's store, over SQL or over HTTP.

A service is a class over `Calls`. Those of its methods that are marked `@lease_rpc` are for handlers. With the database
at hand they are SQL; elsewhere each is one request to a server, which makes the same call. Arguments and results travel
as their annotations say, so these name types that JSON can carry.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from holdfast.engine import values
from holdfast.engine.store.calls import Calls
from holdfast.engine.task import Json, Proof
from holdfast.errors import RequestInvalid

F = TypeVar("F", bound=Callable[..., Any])

MARK = "holdfast_lease_rpc_repeatable"
LEASE = "lease"


def lease_rpc(method: F) -> F:
    """Mark a method that a handler may call. A parameter `lease` is filled in from the lease that the caller proves."""
    setattr(method, MARK, True)
    return method


def lease_rpc_once(method: F) -> F:
    """The same, for what must not be sent again when its answer was lost."""
    setattr(method, MARK, False)
    return method


@dataclass(frozen=True)
class LeaseRpc:
    """A marked method, and how its arguments and result travel as JSON."""

    name: str
    method: Callable[..., Any]

    @property
    def is_repeatable(self) -> bool:
        return bool(getattr(self.method, MARK))

    @cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.method)

    @cached_property
    def _kinds(self) -> dict[str, TypeAdapter[Any]]:
        hints = get_type_hints(self.method, include_extras=True)
        return {
            name: adapter(hints[name], several=one.kind is one.VAR_POSITIONAL)
            for name, one in list(self.signature.parameters.items())[1:]
            if name != LEASE
        }

    @cached_property
    def _answers(self) -> TypeAdapter[Any]:
        return TypeAdapter(get_type_hints(self.method, include_extras=True)["return"])

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """What it is called with, by name, without the service."""
        bound = self.signature.bind(None, *args, **kwargs)
        return dict(list(bound.arguments.items())[1:])

    def dump(self, arguments: Mapping[str, Any]) -> dict[str, Json]:
        """The arguments as JSON carries them, but for the lease, which is proven apart."""
        kinds = self._kinds
        return {name: kinds[name].dump_python(one, mode="json") for name, one in arguments.items() if name in kinds}

    async def call(self, service: Calls, lease: Proof, given: Mapping[str, Json]) -> Json:
        """Call it with arguments out of JSON; the answer as JSON. Raises RequestInvalid, and whatever it raises."""
        bound = self.signature.bind_partial(service)
        bound.arguments.update(self._load_arguments(lease, given))
        return self._answers.dump_python(await self.method(*bound.args, **bound.kwargs), mode="json")

    def _load_arguments(self, lease: Proof, given: Mapping[str, Json]) -> dict[str, Any]:
        """The arguments in their order; what is not known here is left out. Raises RequestInvalid."""
        found: dict[str, Any] = {}
        for name, one in list(self.signature.parameters.items())[1:]:
            if name == LEASE:
                found[name] = lease
            elif name in given:
                try:
                    found[name] = self._kinds[name].validate_python(given[name])
                except ValidationError as error:
                    raise self._unfit(f"{name}: {values.describe(error)}") from error
            elif one.default is one.empty and one.kind is not one.VAR_POSITIONAL:
                raise self._unfit(f"{name} is missing")
        return found

    def _unfit(self, why: str) -> RequestInvalid:
        return RequestInvalid(
            f"{self.name} cannot be called like that: {why}.", fix="Run workers of the server's release."
        )

    def load(self, answer: Json) -> Any:
        """The answer again, as the method gives it."""
        return self._answers.validate_python(answer)


def adapter(kind: Any, *, several: bool) -> TypeAdapter[Any]:
    return TypeAdapter(tuple[kind, ...] if several else kind)


@cache
def rpcs_of(service: Any) -> Mapping[str, LeaseRpc]:
    """The RPCs of a service, by name."""
    return {name: LeaseRpc(name, one) for name, one in inspect.getmembers(service) if hasattr(one, MARK)}
