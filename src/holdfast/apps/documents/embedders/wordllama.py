"""WordLlama: a vector for each piece of a word, and their mean for a text. Small, quick, offline; the default.

The weights are in the package (19 MB). Word order does not count, so it is weaker than a transformer where order or
context decides. Its package logs for everybody and would download what it looks for in the wrong folder: both are
kept from happening here.
"""

import logging
import threading
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from holdfast.errors import Fatal, SchemaInvalid
from holdfast.execution.context import usage
from holdfast.execution.threads import in_thread

longest_tokens = 8192
loading = threading.Lock()


class WordLlama:
    """The embedder that comes with `holdfast[ingest]`."""

    name = "wordllama-256"
    dimensions = 256

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """As Embedder says. Of a text of more than 8,192 tokens the first count. Raises Fatal where it is missing."""
        if not texts:
            return []
        vectors, tokens = await in_thread(embedded, list(texts))
        usage(self.name, tokens_in=tokens, cost_cents=0)
        return vectors


def embedded(texts: list[str]) -> tuple[list[list[float]], int]:
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
    """The weights, a row for each token, and the tokenizer. Raises Fatal."""
    everybody, silence = logging.getLogger(), logging.NullHandler()
    everybody.addHandler(silence)  # logging.basicConfig, which the package calls, leaves one who has a handler alone
    try:
        package: Any = import_module("wordllama")
    except ModuleNotFoundError:
        said = "This process cannot embed texts. Install what it needs: pip install 'holdfast[ingest]'"
        raise Fatal(said, code="EMBEDDER_MISSING") from None
    finally:
        everybody.removeHandler(silence)
    model = package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True)
    model.tokenizer.no_padding()
    return model.embedding, model.tokenizer
