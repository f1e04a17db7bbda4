"""Embedders: vectors of length 1, one for each text, and every failure in its category."""

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Holdfast, step
from holdfast.apps.documents.embedders import WordLlama, load, open_embedder
from holdfast.errors import Fatal, SchemaInvalid
from holdfast.lifecycles.ingest.store import Embedder
from holdfast.settings import Settings
from holdfast.testing import Engine


def likeness(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def check(embedder: Embedder) -> None:
    """What every embedder promises."""
    texts = ["Boats lie in the harbour.", "Ships are moored in port.", "The dough must rise before baking."]
    vectors = await embedder.embed(texts)
    assert [len(vector) for vector in vectors] == [embedder.dimensions] * 3
    assert all(abs(likeness(vector, vector) - 1) < 1e-5 for vector in vectors)
    assert likeness(vectors[0], vectors[1]) > likeness(vectors[0], vectors[2])
    assert (await embedder.embed([texts[1]]))[0] == pytest.approx(vectors[1], abs=1e-5)
    assert await embedder.embed([]) == []


async def test_wordllama_puts_what_means_the_same_close_together() -> None:
    await check(open_embedder(Settings()))


def test_wordllama_asks_nobody_and_leaves_the_logs_of_the_process_alone(tmp_path: Path) -> None:
    script = """
import logging, sys
asked = []
sys.addaudithook(lambda event, args: asked.append(event) if event in (
    "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "urllib.Request") else None)
from holdfast.apps.documents.embedders import open_embedder
from holdfast.settings import Settings
embedder = open_embedder(Settings())
heavy = {"wordllama", "numpy", "httpx", "httpx2", "tokenizers"} & set(sys.modules)
from holdfast.apps.documents.embedders import embed_texts
(vector,), tokens = embed_texts(["tides"])
print(len(vector), tokens > 0, heavy, asked, logging.getLogger().handlers, logging.getLogger().level)
"""
    command = [sys.executable, "-c", script]
    alone = {"HOME": str(tmp_path), "PATH": ""}  # no cache of anybody's to find the model in
    done = subprocess.run(command, env=alone, capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout == f"256 True set() [] [] {logging.WARNING}\n"
    assert done.stderr == ""


async def test_a_text_with_nothing_in_it_has_no_vector() -> None:
    with pytest.raises(SchemaInvalid, match="nothing to embed"):
        await WordLlama().embed(["tides", ""])


async def test_a_missing_package_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    load.cache_clear()
    with pytest.raises(Fatal, match=r"pip install 'holdfast-engine\[ingest\]'"):
        await WordLlama().embed(["tides"])


def test_what_wordllama_reads_is_counted_and_free(holdfast: Engine) -> None:
    app = Holdfast()

    @app.task
    async def embed(text: str) -> int:
        return len(await step("embedded", WordLlama().embed, [text]))

    assert holdfast.run(embed, "The tide comes in.").value == 1
    (used,) = holdfast.call(holdfast.store.costs.totals())
    assert (used.group, used.calls, used.unpriced) == ("wordllama-256", 1, 0)
    assert used.cost_cents == 0
    assert 4 <= used.tokens_in <= 8


async def test_the_loop_goes_on_while_texts_are_embedded() -> None:
    waited = 0
    work = asyncio.ensure_future(WordLlama().embed(["The tide comes in twice a day. " * 30] * 300))
    while not work.done():
        waited += 1
        await asyncio.sleep(0)
    assert waited > 10
    assert len(work.result()) == 300
