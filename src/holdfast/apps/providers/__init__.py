"""Outside providers that work for a long time on what they are given: one file each, behind one interface."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.lifecycles.batch.provider import Provider
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.sdk.client import Holdfast


def offer(app: "Holdfast") -> None:
    """Let workers of this application run batches with all bundled providers. Raises AppInvalid."""
    for provider in bundled_providers(lambda: app.settings):
        for task_type in provider.task_types:
            app.batch(task_type, provider)


def bundled_providers(settings: Callable[[], Settings]) -> Sequence[Provider]:
    """Those that come with Holdfast; each names what must be set up for it.

    None of them imports a vendor's library before it is used: an extra that is not installed is only missing.
    """
    from holdfast.apps.providers.aws import AWS
    from holdfast.apps.providers.local.provider import Local
    from holdfast.apps.providers.openai import OpenAI

    return [Local(settings), AWS(), OpenAI()]
