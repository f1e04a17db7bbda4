"""One application for all tests of a process: to make its ninety routes anew takes longer than most tests do.

What it stands on changes from test to test. Where several must answer at the same time, each is made with `make_app`.
"""

import functools
from typing import Any

import asyncpg
from fastapi import FastAPI

from holdfast.api import make_app
from holdfast.engine.store.commands import Store
from holdfast.engine.store.feed import Feed
from holdfast.lifecycles.ingest.store import Embedder
from holdfast.objects import Objects


class Changing:
    """Whatever it stands for now."""

    def __init__(self) -> None:
        self.now: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.now, name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.now)


pools, places, embedders = Changing(), Changing(), Changing()


def app_over(pool: asyncpg.Pool, objects: Objects, embedder: Embedder | None = None) -> FastAPI:
    """The application, over these from now on, as if it were new but for what it has counted."""
    pools.now, places.now, embedders.now = pool, objects, embedder
    app = made(type(objects), embedder is not None)
    app.state.guard.loopback = True
    vars(app.state.feed).update(vars(Feed(Store(pool))))
    return app


@functools.cache
def made(kind: type[Objects], has_embedder: bool) -> FastAPI:
    pool: Any = pools
    objects: Any = places
    embedder: Any = embedders if has_embedder else None
    return make_app(pool, database="a test's own", objects=objects, embedder=embedder)
