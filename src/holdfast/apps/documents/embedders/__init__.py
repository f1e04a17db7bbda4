"""Embedders: what turns texts into vectors that lie close together when the texts mean similar things.

HOLDFAST_EMBEDDER chooses one: WordLlama, which ships its weights, or any server that speaks as OpenAI does (openai.py).
Each imports its package or its HTTP client when it is first used: a process that embeds nothing needs neither.
"""

import logging
import threading
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from holdfast.distribution import install_hint
from holdfast.errors import Fatal, SchemaInvalid
from holdfast.execution.context import usage
from holdfast.execution.threads import in_thread
from holdfast.lifecycles.ingest.store import Embedder
from holdfast.settings import Settings

longest_tokens = 8192
loading = threading.Lock()


def open_embedder(settings: Settings) -> Embedder:
    """The embedder that the settings choose, not loaded yet. Raises SettingInvalid."""
    kind, _, model = settings.embedder.partition(":")
    if kind == "openai":
        from holdfast.apps.documents.embedders.openai import OpenAI

        return OpenAI(model)
    return WordLlama()


def embedder_at_hand(settings: Settings) -> Embedder | None:
    """The chosen embedder, if this process has its package. Raises SettingInvalid."""
    is_installed = settings.embedder != "wordllama" or find_spec("wordllama")
    return open_embedder(settings) if is_installed else None


class WordLlama:
    """A vector for each piece of a word, and their mean for a text. Small, quick, offline; the extra `ingest` has it.

    The weights are in its package (19 MB). Word order does not count, so it is weaker than a transformer where order or
    context decides.
    """

    name = "wordllama-256"
    dimensions = 256

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """As Embedder says. Of a text of more than 8,192 tokens the first count. Raises Fatal where it is missing."""
        if not texts:
            return []
        vectors, tokens = await in_thread(embed_texts, list(texts))
        usage(self.name, tokens_in=tokens, cost_cents=0)
        return vectors


def embed_texts(texts: list[str]) -> tuple[list[list[float]], int]:
    """The vectors, and how many tokens were read."""
    with loading:
        weights, tokenizer = load()
    ids = [found.ids[:longest_tokens] for found in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    vectors = []
    for text, tokens in zip(texts, ids, strict=True):
        if not tokens:
            raise SchemaInvalid(f"There is nothing to embed in {text[:20]!r}.")
        vector = weights[tokens].sum(axis=0)
        vectors.append((vector / (vector @ vector) ** 0.5).tolist())
    return vectors, sum(map(len, ids))


@cache
def load() -> tuple[Any, Any]:
    """The weights, a row for each token, and the tokenizer. Raises Fatal.

    The package configures logging for the whole process and would download what it looks for in the wrong folder: both
    are prevented here.
    """
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)  # logging.basicConfig, which the package calls, does nothing where there is a handler
    try:
        package: Any = import_module("wordllama")
    except ModuleNotFoundError:
        message = f"This process cannot embed texts. Install what it needs: {install_hint('ingest')}"
        raise Fatal(message, code="EMBEDDER_MISSING") from None
    finally:
        root.removeHandler(handler)
    model = package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True)
    model.tokenizer.no_padding()
    return model.embedding, model.tokenizer
