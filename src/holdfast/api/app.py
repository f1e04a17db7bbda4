"""The application that `holdfast up` serves."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Literal

import asyncpg
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from prometheus_client import CollectorRegistry
from pydantic import BaseModel

from holdfast import __version__
from holdfast.api import (
    costs,
    docs,
    events,
    inbox,
    leases,
    lifecycles,
    metrics,
    operations,
    tasks,
    worker_objects,
    workers,
)
from holdfast.api import objects as files
from holdfast.api.page import Work, describe, render_page, tasks_listed
from holdfast.api.readiness import Ready, ask_database
from holdfast.approvals import routes as questions
from holdfast.datasets import routes as datasets
from holdfast.engine.store.commands import Store
from holdfast.engine.store.feed import Feed
from holdfast.engine.store.keys import Principal
from holdfast.errors import DatabaseError, KeyRefused
from holdfast.http.access import Guard, Guarded
from holdfast.http.measured import Measured
from holdfast.http.origin import LOOPBACK, OriginCheck
from holdfast.http.problem import PROBLEMS, answer_errors
from holdfast.lifecycles.analysis import routes as analysis
from holdfast.lifecycles.batch import routes as batch
from holdfast.lifecycles.dispatch import graph_routes as graphs
from holdfast.lifecycles.dispatch import routes as dispatch
from holdfast.lifecycles.ingest import routes as ingest
from holdfast.lifecycles.ingest.store import Embedder
from holdfast.lifecycles.pipeline import routes as pipeline
from holdfast.objects import Objects
from holdfast.postgres.connections import Address
from holdfast.schedules import routes as schedules
from holdfast.wakeups.postgres import PostgresListener
from holdfast.webhooks import routes as webhooks


class Health(BaseModel):
    status: Literal["ok"] = "ok"
    version: str = __version__


def make_app(
    pool: asyncpg.Pool,
    *,
    database: str,
    objects: Objects,
    embedder: Embedder | None = None,
    loopback: bool = True,
    hosts: Collection[str] = (),
    address: Address | None = None,
) -> FastAPI:
    """The application over an open pool, with files at `objects`. `database` is the place in words, for the page.

    With an `embedder` documents are searched by their meaning too. With the `address` of the database, workers that
    sleep here over HTTP are woken.

    Bound to `loopback` it answers to the names of loopback, and to every caller as long as there is no key; otherwise
    to these `hosts`, or to any if none is named.
    """
    app = FastAPI(
        title="Holdfast",
        version=__version__,
        description=docs.DESCRIPTION,
        openapi_tags=docs.TAGS,
        openapi_url=None,  # docs.py has the route, which asks for a key
    )
    app.router.route_class = Guarded
    started_at = datetime.now(UTC)
    store = Store(pool)
    app.state.guard = Guard(store, loopback=loopback)
    registry = CollectorRegistry()
    app.add_middleware(OriginCheck, hosts=(*LOOPBACK, *hosts) if loopback else hosts)
    app.add_middleware(Measured, registry=registry)
    answer_errors(app, store)
    app.state.feed = Feed(store)  # closed before the server stops: waiting clients would hold it up
    app.state.listener = None if address is None else PostgresListener(address, pool)
    app.include_router(dispatch.routes(store))
    app.include_router(graphs.routes(store))
    app.include_router(analysis.routes(store, objects))
    app.include_router(batch.routes(store, objects))
    app.include_router(datasets.routes(store, objects))
    app.include_router(ingest.routes(store, objects, embedder))
    app.include_router(pipeline.routes(store, objects))
    app.include_router(pipeline.routes(store, objects, under="/admin"))
    app.include_router(tasks.routes(store))
    app.include_router(events.routes(store, app.state.feed))
    app.include_router(inbox.routes(store))
    app.include_router(questions.routes(store))
    app.include_router(webhooks.routes(store))
    app.include_router(operations.routes(store))
    app.include_router(schedules.routes(store))
    app.include_router(costs.routes(store))
    app.include_router(lifecycles.routes(store))
    app.include_router(files.routes(store, objects))
    app.include_router(metrics.routes(store, registry))
    app.include_router(docs.routes())

    @app.get("/health", tags=["server"], responses=PROBLEMS)
    async def health() -> Health:
        """This process is alive. Says nothing of the database."""
        return Health()

    @app.get("/ready", tags=["server"], responses=PROBLEMS)
    async def ready(request: Request) -> Ready:
        """The database answers, with the schema in place: requests can be served. Details need a key."""
        state = await ask_database(pool)
        return state if await find_principal(request) else Ready()

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> HTMLResponse:
        try:
            state = await ask_database(pool)
            caller = await find_principal(request)
            if not caller:
                return render_page({"Version": __version__})
            work = None
            if "operator" in caller.roles:
                newest = (await store.list_tasks(limit=tasks_listed)).items
                work = Work(await store.stats(), newest, sum(one.live for one in await store.workers()))
            names = [lifecycle.name for lifecycle in await store.lifecycles()]
        except DatabaseError as error:
            return render_page({"Version": __version__}, error=error)
        return render_page(describe(state, database, started_at), lifecycles=names, work=work)

    async def find_principal(request: Request) -> Principal | None:
        try:
            return await app.state.guard.identify(request)  # type: ignore[no-any-return]
        except KeyRefused:
            return None

    app.include_router(leases.routes(store))
    app.include_router(workers.routes(store, app.state.listener))
    app.include_router(worker_objects.routes(store, objects))
    return app


def close_app(app: FastAPI) -> None:
    """End the streams and the sleep of workers, so that the server can stop."""
    app.state.feed.close()
    if app.state.listener:
        app.state.listener.close()
