"""What handlers ask where their worker speaks HTTP: each word of a room, for whoever proves that it holds a task."""

from fastapi import APIRouter, HTTPException

from holdfast.api.leases import Held
from holdfast.engine.lease_rpc import words_of
from holdfast.engine.store.commands import Store
from holdfast.http.access import GuardedTurn, needs
from holdfast.http.fields import Json
from holdfast.http.problem import PROBLEMS
from holdfast.lifecycles import ROOMS

BY_NAME = {room.__name__.lower(): room for room in ROOMS}


class Saying(Held):
    """A lease, and what the word is given, by name."""

    given: dict[str, Json]


def routes(store: Store) -> APIRouter:
    router = APIRouter(
        prefix="/internal/rooms", tags=["workers"], route_class=GuardedTurn, dependencies=[needs("worker")],
        responses=PROBLEMS,
    )  # fmt: skip

    @router.post("/{room}/{word}")
    async def say(room: str, word: str, asked: Saying) -> Json:
        """What a handler asks of the database, and the answer. 409 `lease-lost` for whoever does not hold the task."""
        kind = BY_NAME.get(room)
        known = words_of(kind).get(word) if kind else None
        if kind is None or known is None:
            raise HTTPException(404)
        lease = asked.proof()
        await store.check_held(lease)
        return await known.say(kind.beside(store), lease, asked.given)

    return router
