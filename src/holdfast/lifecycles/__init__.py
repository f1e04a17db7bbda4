"""The lifecycles that come with Holdfast, a folder per application. Each folder is whole; none knows another."""

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.kernel.lifecycle import Lifecycle
from holdfast.kernel.store import Store
from holdfast.lifecycles.analysis.analyses import Analyses
from holdfast.lifecycles.analysis.declaration import ANALYSIS
from holdfast.lifecycles.analysis.tools import PROFILE_MY_DATA
from holdfast.lifecycles.batch.declaration import BATCH
from holdfast.lifecycles.dispatch.declaration import DISPATCH
from holdfast.lifecycles.ingest.declaration import INGEST, INGEST_ITEM
from holdfast.lifecycles.pipeline.declaration import PIPELINE
from holdfast.lifecycles.pipeline.jobs import Jobs

LIFECYCLES = (BATCH, ANALYSIS, PIPELINE, DISPATCH, INGEST, INGEST_ITEM)


async def declare_all(
    store: Store,
    lifecycles: Iterable[Lifecycle] = (),
    tools: Iterable[Mapping[str, Any]] = (),
    pipelines: Iterable[Mapping[str, Any]] = (),
) -> None:
    """Write them into the database, and an application's own, as every process does at its start.

    Raises DeclarationConflict.
    """
    for lifecycle in (*LIFECYCLES, *lifecycles):
        await store.declare(lifecycle)
    analyses = Analyses.beside(store)
    await analyses.define_tool(PROFILE_MY_DATA.published(), unless_known=True)
    for tool in tools:
        await analyses.define_tool(tool)
    for pipeline in pipelines:
        await Jobs.beside(store).declare_published(**pipeline)
