"""Document ingestion as it ships: files and pages become text, chunks, vectors and entities that can be searched."""

from typing import TYPE_CHECKING

from holdfast.lifecycles.ingest.declaration import INGEST_ITEM

if TYPE_CHECKING:
    from holdfast.sdk.client import Holdfast


def offer(app: "Holdfast", name: str = "documents") -> None:
    """Let workers of this application ingest documents. Raises AppInvalid."""
    from holdfast.apps.documents.ingestion import Documents

    steps = Documents(lambda: app.settings)
    app.task(name=name, lifecycle=INGEST_ITEM.name, queue=INGEST_ITEM.queue)(steps.ingest)
