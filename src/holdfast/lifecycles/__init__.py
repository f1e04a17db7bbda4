"""The lifecycles that come with Holdfast, a folder per application. Each folder is whole; none knows another."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.engine.lifecycle.model import Lifecycle
from holdfast.engine.store.commands import Store
from holdfast.lifecycles.analysis.declaration import ANALYSIS
from holdfast.lifecycles.analysis.store import Analyses
from holdfast.lifecycles.batch.declaration import BATCH, BATCH_STOP
from holdfast.lifecycles.batch.store import Batches
from holdfast.lifecycles.dispatch.declaration import DAG, DISPATCH
from holdfast.lifecycles.dispatch.store import Dags
from holdfast.lifecycles.ingest.declaration import INGEST, INGEST_ITEM
from holdfast.lifecycles.ingest.store import Library
from holdfast.lifecycles.pipeline.declaration import PIPELINE
from holdfast.lifecycles.pipeline.store import Jobs
from holdfast.schedules.store import Schedules

LIFECYCLES = (BATCH, BATCH_STOP, ANALYSIS, PIPELINE, DISPATCH, DAG, INGEST, INGEST_ITEM)

SERVICES = (Analyses, Batches, Jobs, Library)
"""What their handlers ask, as they run."""


async def declare_all(
    store: Store,
    lifecycles: Iterable[Lifecycle] = (),
    published: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> None:
    """Write them into the database, and what an application has of its own, as every process does at its start.

    Raises DeclarationConflict.
    """
    for lifecycle in (*LIFECYCLES, *lifecycles):
        await store.declare(lifecycle)
    analyses, jobs, batches = Analyses.over(store), Jobs.over(store), Batches.over(store)
    dags = Dags.over(store)
    own = published or {}
    for tool in own.get("tools", ()):
        await analyses.define_tool(tool)
    for pipeline in own.get("pipelines", ()):
        await jobs.declare_published(**pipeline)
    for dag in own.get("dags", ()):
        await dags.declare(**dag)
    for batch in own.get("batches", ()):
        await batches.offer(**batch)
    for schedule in own.get("schedules", ()):
        await Schedules.over(store).declare(**schedule)
