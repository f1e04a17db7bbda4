"""The lifecycles that come with Holdfast, a folder per application. Each folder is whole; none knows another."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.engine.lifecycle.model import Lifecycle
from holdfast.engine.store.calls import Calls
from holdfast.engine.store.commands import Store
from holdfast.lifecycles.analysis.declaration import ANALYSIS
from holdfast.lifecycles.batch.declaration import BATCH, BATCH_STOP
from holdfast.lifecycles.dispatch.declaration import DAG, DISPATCH
from holdfast.lifecycles.ingest.declaration import INGEST, INGEST_ITEM
from holdfast.lifecycles.pipeline.declaration import PIPELINE

LIFECYCLES = (BATCH, BATCH_STOP, ANALYSIS, PIPELINE, DISPATCH, DAG, INGEST, INGEST_ITEM)


def services() -> tuple[type[Calls], ...]:
    """What their handlers ask, as they run. Imported here, so that commands, which need only the tables, start fast."""
    from holdfast.lifecycles.analysis.store import Analyses
    from holdfast.lifecycles.batch.store import Batches
    from holdfast.lifecycles.ingest.store import Library
    from holdfast.lifecycles.pipeline.store import Jobs

    return Analyses, Batches, Jobs, Library


async def declare_all(
    store: Store,
    lifecycles: Iterable[Lifecycle] = (),
    published: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> None:
    """Write them into the database, as every process does at its start.

    And what an application has of its own: tools, pipelines, graphs, providers, schedules. Raises DeclarationConflict.
    """
    for lifecycle in (*LIFECYCLES, *lifecycles):
        await store.declare(lifecycle)
    if not published:
        return
    from holdfast.lifecycles.analysis.store import Analyses
    from holdfast.lifecycles.batch.store import Batches
    from holdfast.lifecycles.dispatch.store import Dags
    from holdfast.lifecycles.pipeline.store import Jobs
    from holdfast.schedules.store import Schedules

    for tool in published.get("tools", ()):
        await Analyses.over(store).define_tool(tool)
    for pipeline in published.get("pipelines", ()):
        await Jobs.over(store).declare(**pipeline)
    for dag in published.get("dags", ()):
        await Dags.over(store).declare(**dag)
    for batch in published.get("batches", ()):
        await Batches.over(store).offer(**batch)
    for schedule in published.get("schedules", ()):
        await Schedules.over(store).declare(**schedule)
