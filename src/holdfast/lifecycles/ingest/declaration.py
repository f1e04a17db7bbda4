"""Document ingestion: a run gathers its items; an item goes from step to step under one lease."""

from holdfast.kernel.lifecycle import Display, Lifecycle, final, gather, work

INGEST = Lifecycle(
    "ingest",
    start="RUNNING",
    cancel="CANCELLED",
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
    states=[
        work("ENQUEUED", to=["FETCHED"], progress=0, display=Display("Enqueued", "blue", "clock")),
        work("FETCHED", to=["CONTENT_EXTRACTED"], progress=15, display=Display("Fetched", "indigo", "download")),
        work(
            "CONTENT_EXTRACTED", to=["PERSISTED"], progress=(30, 75),
            display=Display("Extracted", "indigo", "file-text", "Chunks, embeddings and entities are being made"),
        ),
        work("PERSISTED", to=["INDEXED"], progress=75, display=Display("Persisted", "indigo", "database")),
        work("INDEXED", done="DONE", progress=90, display=Display("Indexed", "indigo", "search")),
        final("DONE", "done", progress=100, display=Display("Done", "green", "check", "It can be searched")),
        final("FAILED", "failed", display=Display("Failed", "red", "x", "See the inbox")),
        final("CANCELLED", "cancelled", display=Display("Cancelled", "gray", "ban", "Cancelled")),
    ],
)  # fmt: skip
