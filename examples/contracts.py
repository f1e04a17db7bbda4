"""A step of one's own in an ingestion: a service finds the clauses of a contract, beside its chunks and its names.

CLAUSES_URL=https://... .venv/bin/holdfast worker --app examples/contracts.py
.venv/bin/holdfast ingest contracts/ --kind contracts --wait
"""

import os
from typing import Any

import httpx2

from holdfast import Holdfast, usage
from holdfast.ingest import Documents, Text, run_parallel_steps, run_step

hf = Holdfast()
documents = Documents(lambda: hf.settings)


async def find_clauses(text: Text) -> list[str]:
    """Ask the service. What it refuses stands for a category by itself: 429, 5xx, 422, 401."""
    read = await documents.text_of(text)
    async with httpx2.AsyncClient(timeout=60) as http:
        answer = await http.post(os.environ["CLAUSES_URL"], json={"text": read.text})
        answer.raise_for_status()
    found = answer.json()
    usage("clause-finder", tokens_in=found["tokens"], cost_cents=0.1)
    return [str(clause) for clause in found["clauses"]]


@hf.task(name="contracts", lifecycle="ingest_item", queue="ingest_item", retries=5)
async def ingest_contract(uri: str, name: str | None = None) -> dict[str, Any]:
    """The steps of a document, and one more."""
    raw = await run_step("FETCHED", documents.fetch, uri)
    text = await run_step("CONTENT_EXTRACTED", documents.extract, raw, name or uri)
    (chunks, vectors), entities, clauses = await run_parallel_steps(
        documents.embed_chunks(text),
        run_step("ENTITY_EXTRACTED", documents.find_entities, text),
        run_step("CLAUSES_FOUND", find_clauses, text),
    )
    document = await run_step("PERSISTED", documents.persist, name or uri, raw, text, chunks, vectors, entities)
    await run_step("INDEXED", documents.index, document)
    return {"document": str(document), "clauses": clauses}


if __name__ == "__main__":
    print(__doc__)
