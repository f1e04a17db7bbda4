"""What comes with Holdfast and an application may offer: documents, the newsroom, providers, the nightly graph.

Each is imported by who offers it: only who wants it pays for what it imports.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.lifecycles.dispatch.sdk import Dag
    from holdfast.lifecycles.pipeline.sdk import Pipeline


class Shipped:
    """What an application offers of it. All of it raises AppInvalid."""

    def documents(self, kind: str = "documents") -> None:
        """Offer to ingest documents (`POST /ingest/runs`): workers of this application do."""
        from holdfast.apps.documents import offer

        app: Any = self
        offer(app, kind)

    def newsroom(self, name: str = "newsroom") -> "Pipeline":
        """Offer the newsroom: feeds are read, sorted, softened and summed up in a brief."""
        from holdfast.apps.newsroom import offer

        app: Any = self
        return offer(app, name)

    def nightly(self, name: str = "nightly") -> "Dag":
        """Offer the nightly graph: the papers of a harbour become two datasets, published together."""
        from holdfast.apps.nightly import offer

        app: Any = self
        return offer(app, name)

    def providers(self) -> None:
        """Offer batches with all providers that come with Holdfast (`POST /batch/tasks`)."""
        from holdfast.apps.providers import shipped

        app: Any = self
        for provider in shipped(lambda: app.settings):
            for task_type in provider.task_types:
                app.batch(task_type, provider)
