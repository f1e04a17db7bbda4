"""Embeddings from OpenAI, or from any server that speaks as it does."""

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from holdfast.errors import SchemaInvalid, SettingInvalid
from holdfast.execution.context import usage
from holdfast.remote.models import ModelServer

KNOWN = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
    "all-minilm": 384,
    "bge-m3": 1024,
    "mxbai-embed-large": 1024,
    "nomic-embed-text": 768,
    "mistral-embed": 1024,
}
"""How many numbers the vectors of a model have unless fewer are asked for."""

texts_at_once = 128
characters_at_once = 300_000
answer_within = timedelta(seconds=60)


class OpenAI:
    """A model of such a server."""

    def __init__(self, given: str) -> None:
        """given: `<model>` or `<model>:<dimensions>`. Raises SettingInvalid."""
        model, _, last = given.rpartition(":")
        if not (model and last.isascii() and last.isdigit()):
            model, last = given, ""
        dimensions = int(last) if last else KNOWN.get(model)
        if not dimensions:
            raise SettingInvalid(
                f"HOLDFAST_EMBEDDER: it is not known how many numbers the vectors of {model!r} have.",
                fix=f"Write it behind the model: openai:{model}:768.",
            )
        self.model, self.dimensions = model, dimensions
        self.name = f"openai:{model}:{dimensions}"
        self.server = ModelServer.named_by("HOLDFAST_EMBEDDER")

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """As Embedder says, in as many requests as it takes: after a failure in one, all are to be asked again."""
        vectors: list[list[float]] = []
        budget = f"embedder:{self.model}"  # what all share who ask for vectors of this model
        async with self.server.client(answer_within) as http:
            for batch in batches(texts):
                answer = await self.server.ask(http, "embeddings", self._ask(batch), budget=budget)
                vectors += self._read(answer, len(batch))
        return vectors

    def _ask(self, batch: list[str]) -> dict[str, Any]:
        asked: dict[str, Any] = {"model": self.model, "input": batch, "encoding_format": "float"}
        return asked if self.dimensions == KNOWN.get(self.model) else {**asked, "dimensions": self.dimensions}

    def _read(self, body: Any, texts: int) -> list[list[float]]:
        """The vectors of a good answer, each made of length 1. Raises SchemaInvalid for one that is not good."""
        try:
            rows = {row["index"]: [float(number) for number in row["embedding"]] for row in body["data"]}
            tokens = int((body.get("usage") or {}).get("prompt_tokens") or 0)
            vectors = [unit(rows[index]) for index in range(texts)]
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise SchemaInvalid(
                f"What {self.server.url} answers is not a list of vectors, one for each text: "
                f"{type(error).__name__}: {error}."
            ) from error
        usage(self.model, tokens_in=tokens)
        if len(body["data"]) != texts or any(len(vector) != self.dimensions for vector in vectors):
            lengths = sorted({len(vector) for vector in vectors})
            raise SchemaInvalid(
                f"{self.server.url} answers {len(body['data'])} vectors of {lengths} numbers to {texts} texts; "
                f"{self.name} has {self.dimensions}. Write HOLDFAST_EMBEDDER=openai:{self.model}:<dimensions>."
            )
        return vectors


def batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts, so many in a request as a server takes."""
    batch: list[str] = []
    for text in texts:
        if batch and (len(batch) == texts_at_once or sum(map(len, batch)) + len(text) > characters_at_once):
            yield batch
            batch = []
        batch.append(text)
    if batch:
        yield batch


def unit(vector: list[float]) -> list[float]:
    """The same direction, of length 1. Raises ValueError if it has none."""
    length = math.hypot(*vector)
    if not math.isfinite(length) or not length:
        raise ValueError(f"a vector of length {length}")
    return [number / length for number in vector]
