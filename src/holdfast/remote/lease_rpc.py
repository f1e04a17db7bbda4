"""A service over HTTP: its own class, with each RPC replaced by a request to the server."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Protocol

from holdfast.engine.lease_rpc import LEASE, LeaseRpc, rpcs_of
from holdfast.engine.store.calls import Calls
from holdfast.engine.task import Json, Proof
from holdfast.errors import StepInvalid
from holdfast.execution.context import current


class Send(Protocol):
    """Send a request to the server."""

    async def __call__(self, path: str, body: Json, *, repeatable: bool) -> Any: ...


class RemoteService(Calls):
    """What all of them have in common: there is no database."""

    def __init__(self, send: Send) -> None:
        self.send = send

    async def _rows(self, query: str, *arguments: Any, repeatable: bool = True, patience: float | None = 1) -> Any:
        raise StepInvalid("This worker speaks to a server and has no database.", fix="Set HOLDFAST_URL where it runs.")


def dump_proof(proof: Proof) -> dict[str, Json]:
    """What proves a lease, as the routes for workers take it."""
    return {"task_id": proof.task_id.hex, "attempt": proof.attempt, "lease_token": proof.token.hex}


@cache
def remote_kind(kind: Any) -> Callable[[Send], Any]:
    """A kind of service, to be made over a server."""
    methods = {name: remote(kind, rpc) for name, rpc in rpcs_of(kind).items()}
    return type(f"Remote{kind.__name__}", (RemoteService, kind), methods)


def remote(kind: type[Calls], rpc: LeaseRpc) -> Callable[..., Awaitable[Any]]:
    """The same method, sent over HTTP under the lease that it is given, or else that of the task that calls it."""
    path = f"rpc/{kind.__name__.lower()}/{rpc.name}"

    async def request(service: RemoteService, *args: Any, **kwargs: Any) -> Any:
        arguments = rpc.arguments(args, kwargs)
        lease = arguments.get(LEASE) or current()
        body = {**dump_proof(lease), "given": rpc.dump(arguments)}
        return rpc.load(await service.send(path, body, repeatable=rpc.is_repeatable))

    return request
