"""Document ingestion: a run gathers its items; an item goes from step to step under one lease.

An item whose run has spent its budget leaves its worker and asks its owner. When it goes on, it goes through its states
again, at no cost: what is done is kept in its steps.
"""

from datetime import timedelta

from holdfast.engine.lifecycle.model import Backoff, Display, Lifecycle, final, gather, owner, work

INGEST = Lifecycle(
    "ingest",
    start="RUNNING",
    cancel="CANCELLED",
    effects="ingest_effects",
    states=[
        gather(
            "RUNNING", done="COMPLETED", partial="PARTIAL", fail="FAILED",
            display=Display("Running", "indigo", "play", "Its documents are being worked on"),
        ),
        final("COMPLETED", "done", progress=100, display=Display("Completed", "green", "check", "All are in")),
        final("PARTIAL", "partial", progress=100, display=Display("Partial", "yellow", "check", "Some are missing")),
        final("FAILED", "failed", display=Display("Failed", "red", "x", "No document could be read")),
        final("CANCELLED", "cancelled", display=Display("Cancelled", "gray", "ban", "Cancelled")),
    ],
)  # fmt: skip

INGEST_ITEM = Lifecycle(
    "ingest_item",
    start="ENQUEUED",
    cancel="CANCELLED",
    fail="FAILED",
    max_attempts=5,
    backoff=Backoff(timedelta(seconds=2), timedelta(minutes=10)),
    effects="ingest_effects",
    states=[
        work("ENQUEUED", to=["FETCHED", "OVER_BUDGET"], progress=0, display=Display("Enqueued", "blue", "clock")),
        work(
            "FETCHED", to=["CONTENT_EXTRACTED", "OVER_BUDGET"], progress=15,
            display=Display("Fetched", "indigo", "download"),
        ),
        work(
            "CONTENT_EXTRACTED", to=["PERSISTED", "OVER_BUDGET"], progress=(30, 75),
            display=Display("Extracted", "indigo", "file-text", "Chunks, embeddings and entities are being made"),
        ),
        work(
            "PERSISTED", to=["INDEXED", "OVER_BUDGET"], progress=75, display=Display("Persisted", "indigo", "database"),
        ),
        work("INDEXED", done="DONE", progress=90, display=Display("Indexed", "indigo", "search")),
        owner(
            "OVER_BUDGET", acts={"go_on": "ENQUEUED"},
            display=Display("Over budget", "orange", "coins", "Its run has spent its budget: raise it, or cancel"),
        ),
        final("DONE", "done", progress=100, display=Display("Done", "green", "check", "It can be searched")),
        final("FAILED", "failed", display=Display("Failed", "red", "x", "See the inbox")),
        final("CANCELLED", "cancelled", display=Display("Cancelled", "gray", "ban", "Cancelled")),
    ],
)  # fmt: skip

# In their order. Those that are states of an item move it; the others are rows beside it, made in parallel.
STEPS = (
    "FETCHED", "CONTENT_EXTRACTED", "CHUNKED", "EMBEDDED", "ENTITY_EXTRACTED", "PERSISTED", "INDEXED",
)  # fmt: skip
MOVES = ("ENQUEUED", "FETCHED", "CONTENT_EXTRACTED", "PERSISTED", "INDEXED")
