"""What handlers ask where their worker speaks HTTP: each word of a room, for whoever proves that it holds a task."""

from fastapi import APIRouter, HTTPException
from pydantic import ValidationError

from holdfast.api.leases import Held
from holdfast.errors import RequestInvalid
from holdfast.http.access import GuardedTurn, needs
from holdfast.http.fields import Json
from holdfast.http.problem import PROBLEMS
from holdfast.kernel import values
from holdfast.kernel.rooms import words_of
from holdfast.kernel.store import Store
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
        try:
            return await known.say(kind.beside(store), lease, asked.given)
        except ValidationError as error:
            raise unfit(room, word, values.described(error)) from error
        except TypeError as error:
            raise unfit(room, word, str(error)) from error

    return router


def unfit(room: str, word: str, why: str) -> RequestInvalid:
    return RequestInvalid(f"{room}.{word} takes something else: {why}.", fix="Run workers of the server's release.")
