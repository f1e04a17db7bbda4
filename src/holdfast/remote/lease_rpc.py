"""A room whose words are said over HTTP: the class of the room itself, with another method for each word."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Protocol, TypeVar, cast

from holdfast.engine.codec import dump_proof
from holdfast.engine.lease_rpc import LEASE, Word, words_of
from holdfast.engine.store.calls import Calls
from holdfast.engine.task import Json
from holdfast.errors import StepInvalid
from holdfast.execution.context import current

C = TypeVar("C", bound=Calls)


class Say(Protocol):
    """Say something to the server."""

    async def __call__(self, word: str, body: Json, *, repeatable: bool) -> Any: ...


class RemoteRoom(Calls):
    """What all of them have in common: there is no database."""

    def __init__(self, say: Say) -> None:
        self.say = say

    async def _rows(self, query: str, *arguments: Any, repeatable: bool = True, patience: float | None = 1) -> Any:
        raise StepInvalid("This worker speaks to a server and has no database.", fix="Set HOLDFAST_URL where it runs.")


def room_over(kind: type[C], say: Say) -> C:
    """A room, over this server."""
    return cast(C, remote_kind(cast(Any, kind))(say))


@cache
def remote_kind(kind: Any) -> Callable[[Say], Any]:
    said = {name: remote(kind, word) for name, word in words_of(kind).items()}
    return type(f"Remote{kind.__name__}", (RemoteRoom, kind), said)


def remote(kind: type[Calls], word: Word) -> Callable[..., Awaitable[Any]]:
    """The same method, said over HTTP under the lease that it is given, or else that of the task that calls it."""
    place = f"rooms/{kind.__name__.lower()}/{word.name}"

    async def said(room: RemoteRoom, *args: Any, **kwargs: Any) -> Any:
        arguments = word.arguments(args, kwargs)
        lease = arguments.get(LEASE) or current()
        body = {**dump_proof(lease), "given": word.dump(arguments)}
        return word.load(await room.say(place, body, repeatable=word.is_repeatable))

    return said
