"""The lifecycles that come with Holdfast, a folder per application. Each folder is whole; none knows another."""

from holdfast.kernel.store import Store
from holdfast.lifecycles.analysis.declaration import ANALYSIS
from holdfast.lifecycles.batch.declaration import BATCH
from holdfast.lifecycles.dispatch.declaration import DISPATCH
from holdfast.lifecycles.ingest.declaration import INGEST, INGEST_ITEM
from holdfast.lifecycles.pipeline.declaration import PIPELINE

LIFECYCLES = (BATCH, ANALYSIS, PIPELINE, DISPATCH, INGEST, INGEST_ITEM)


async def declare_all(store: Store) -> None:
    """Write them into the database, as every process does at its start. Raises DeclarationConflict."""
    for lifecycle in LIFECYCLES:
        await store.declare(lifecycle)
