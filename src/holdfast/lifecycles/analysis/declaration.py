"""User tasks: files are uploaded, agents analyse them, results are downloaded."""

from datetime import timedelta

from holdfast.engine.lifecycle.model import Display, Lifecycle, after, final, owner, work

ANALYSIS = Lifecycle(
    "analysis",
    start="CREATED",
    cancel="CANCELLED",
    fail="FAILED",
    effects="analysis_effects",
    states=[
        owner(
            "CREATED", acts={"upload_urls": "UPLOADING"}, limit=after(minutes=15, to="EXPIRED"), progress=0,
            display=Display("Initializing", "gray", "clock", "Preparing your analysis..."),
        ),
        owner(
            "UPLOADING", acts={"upload_urls": "UPLOADING", "process": "QUEUED", "files_missing": "UPLOAD_FAILED"},
            limit=after(minutes=15, to="EXPIRED", renewed_up_to=timedelta(hours=1)), progress=10,
            display=Display("Uploading", "blue", "upload", "Please upload your files and parameters"),
        ),
        owner(
            "UPLOAD_FAILED", acts={"upload_urls": "UPLOADING"}, limit=after(hours=1, to="EXPIRED"), progress=10,
            display=Display("Upload Failed", "red", "error", "File upload failed. Please try again."),
        ),
        work(
            "QUEUED", claim="PROCESSING", limit=after(hours=1, to="EXPIRED"), progress=15,
            display=Display("Ready", "yellow", "queue", "Files received, starting analysis..."),
        ),
        work(
            "PROCESSING", done="COMPLETED", limit=after(minutes=30, to="FAILED"), progress=(15, 95),
            display=Display("Processing", "blue", "spinner", "Analysis in progress..."),
        ),
        final(
            "COMPLETED", "done", progress=100,
            display=Display("Complete", "green", "check", "Analysis completed successfully!"),
        ),
        final("FAILED", "failed", display=Display("Failed", "red", "error", "Analysis failed. See details below.")),
        final("CANCELLED", "cancelled", display=Display("Cancelled", "gray", "cancel", "Analysis was cancelled.")),
        final(
            "EXPIRED", "failed",
            display=Display("Expired", "gray", "clock", "Task expired. Please create a new analysis."),
        ),
    ],
)  # fmt: skip
