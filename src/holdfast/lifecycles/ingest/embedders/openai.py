"""Embeddings from OpenAI, or from any server that speaks as it does.

OPENAI_BASE_URL says where it is, OPENAI_API_KEY lets in. What goes wrong becomes one of the four categories; nothing
is tried again here, which is the engine's business.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from holdfast.errors import Failure, Fatal, RateLimited, SchemaInvalid, SettingInvalid, Transient
from holdfast.kernel.running import spend, usage
from holdfast.kernel.settings import vendor_variable
from holdfast.lifecycles.ingest.embedders.waits import wait_said

if TYPE_CHECKING:
    import httpx

DEFAULT_SERVER = "https://api.openai.com/v1"
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
"""How many numbers the vectors of a model have if nobody asks for fewer."""

texts_at_once = 128
characters_at_once = 300_000
silence_most = timedelta(seconds=60)

SPENT_UP = ("insufficient_quota", "billing_hard_limit_reached")
TRANSIENT = (408, 409, 425)
WRONG_INPUT = (400, 413, 415, 422)


@dataclass(frozen=True)
class OpenAI:
    """A model of such a server."""

    model: str
    dimensions: int
    server: str
    key: str | None = field(repr=False)

    @classmethod
    def of(cls, told: str) -> "OpenAI":
        """The embedder of `<model>` or `<model>:<dimensions>`. Raises SettingInvalid."""
        model, _, last = told.rpartition(":")
        if not (model and last.isascii() and last.isdigit()):
            model, last = told, ""
        dimensions = int(last) if last else KNOWN.get(model)
        if not dimensions:
            raise SettingInvalid(
                f"HOLDFAST_EMBEDDER: it is not known how many numbers the vectors of {model!r} have.",
                fix=f"Write it behind the model: openai:{model}:768.",
            )
        server = (vendor_variable("OPENAI_BASE_URL") or DEFAULT_SERVER).rstrip("/")
        if not server.startswith(("http://", "https://")):
            raise SettingInvalid("OPENAI_BASE_URL: is no web address.", fix="Write https://host:port/v1.")
        key = vendor_variable("OPENAI_API_KEY")
        if key is None and server == DEFAULT_SERVER:
            raise SettingInvalid(
                "HOLDFAST_EMBEDDER: there is no key for OpenAI.",
                fix="Set OPENAI_API_KEY, or OPENAI_BASE_URL if the server is another.",
            )
        return cls(model, dimensions, server, key)

    @property
    def name(self) -> str:
        return f"openai:{self.model}:{self.dimensions}"

    @property
    def budget(self) -> str:
        """What all share who ask for vectors of this model."""
        return f"embedder:{self.model}"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """As Embedder says, in as many requests as it takes: after a failure in one, all are to be asked again."""
        import httpx

        vectors: list[list[float]] = []
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        async with httpx.AsyncClient(headers=headers, timeout=silence_most.total_seconds()) as http:
            for batch in batches(texts):
                await spend(self.budget)
                try:
                    answer = await http.post(f"{self.server}/embeddings", json=self._asked(batch))
                except httpx.RequestError as error:
                    raise Transient(f"{self.server} does not answer: {type(error).__name__}.") from error
                if answer.status_code != 200:
                    raise self._refusal(answer)
                vectors += self._read(answer, len(batch))
        return vectors

    def _asked(self, batch: list[str]) -> dict[str, Any]:
        asked: dict[str, Any] = {"model": self.model, "input": batch, "encoding_format": "float"}
        return asked if self.dimensions == KNOWN.get(self.model) else {**asked, "dimensions": self.dimensions}

    def _read(self, answer: "httpx.Response", texts: int) -> list[list[float]]:
        """The vectors of a good answer, each made of length 1. Raises SchemaInvalid for one that is not good."""
        try:
            body = answer.json()
            rows = {row["index"]: [float(number) for number in row["embedding"]] for row in body["data"]}
            tokens = int((body.get("usage") or {}).get("prompt_tokens") or 0)
            vectors = [unit(rows[index]) for index in range(texts)]
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise SchemaInvalid(
                f"What {self.server} answers is no list of vectors, one for each text: {type(error).__name__}: {error}."
            ) from error
        usage(self.model, tokens_in=tokens)
        if len(body["data"]) != texts or any(len(vector) != self.dimensions for vector in vectors):
            lengths = sorted({len(vector) for vector in vectors})
            raise SchemaInvalid(
                f"{self.server} answers {len(body['data'])} vectors of {lengths} numbers to {texts} texts; "
                f"{self.name} has {self.dimensions}. Write HOLDFAST_EMBEDDER=openai:{self.model}:<dimensions>."
            )
        return vectors

    def _refusal(self, answer: "httpx.Response") -> Failure:
        code, message = self._said(answer)
        status = answer.status_code
        said = f"{self.server} answers {status}: {message}"
        if status == 429 and code not in SPENT_UP:
            return RateLimited(said, code=code, retry_after=wait_said(answer.headers), budget=self.budget)
        if status in TRANSIENT or status >= 500:
            return Transient(said, code=code, retry_after=wait_said(answer.headers))
        return SchemaInvalid(said, code=code) if status in WRONG_INPUT else Fatal(said, code=code)

    def _said(self, answer: "httpx.Response") -> tuple[str | None, str]:
        """The code and the words of a refusal, without the key."""
        try:
            body = answer.json()
        except ValueError:
            body = None
        error = body.get("error") if isinstance(body, dict) else None
        error = error if isinstance(error, dict) else {"message": error or answer.text}
        code = error.get("code") or error.get("type")
        message = " ".join(str(error.get("message") or "").split())[:300]
        return str(code) if code else None, message.replace(self.key, "***") if self.key else message


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
