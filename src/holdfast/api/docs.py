"""`/api/openapi.json` and `/api/docs`: what the server can do, to read and to try, for callers with a key.

Script and style are Swagger UI's, in swagger_ui/; nothing is fetched. A browser sends no key, so the page is for a
server without.
"""

import secrets
from pathlib import Path
from string import Template
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse

from holdfast.engine.store.keys import ROLES
from holdfast.http.access import make_router

PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Holdfast: the HTTP API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<main id="api"></main>
<script src="docs/swagger-ui-bundle.js" nonce="$nonce"></script>
<script nonce="$nonce">SwaggerUIBundle({url: "openapi.json", dom_id: "#api", deepLinking: true})</script>
</body>
</html>
""")

DESCRIPTION = """\
Holdfast keeps tasks in Postgres until they are done. Submit one by name with `POST /dispatch/tasks`; a worker that
knows the name takes it, keeps its lease with heartbeats, keeps what is done as checkpoints, and completes it; its owner
reads, follows, cancels or retries it under `/api/v1`. A key comes as `Authorization: Bearer hf_...`; a
server on loopback for which no key was made needs none. Errors are `application/problem+json`, and programs go by
their `code`."""

TAGS = [
    {"name": "dispatch", "description": "Submit a task."},
    {"name": "analysis", "description": "User tasks: upload, process, watch, download, and what pays for them."},
    {
        "name": "batch",
        "description": "Batches that outside providers work on: make them, watch their jobs, fetch the results.",
    },
    {"name": "datasets", "description": "Files under a name: what batches are made of."},
    {"name": "ingest", "description": "Documents: upload and ingest them, watch, search."},
    {"name": "pipeline", "description": "Pipelines: run them, watch their stages, fetch what they wrote."},
    {"name": "tasks", "description": "Find tasks, see where they are and why, cancel and retry them."},
    {"name": "events", "description": "Follow what happens."},
    {"name": "inbox", "description": "What failed for good and waits for a person: see it, retry, resolve, discard."},
    {"name": "schedules", "description": "What the clock starts: see it, pause it, run it, catch up on it."},
    {"name": "questions", "description": "What tasks ask people: see it, answer it; behind a link no key is needed."},
    {"name": "webhooks", "description": "Endpoints that hear how tasks end."},
    {"name": "operations", "description": "Queues, workers, counts and costs."},
    {"name": "lifecycles", "description": "The states that a task can be in, and what leads from one to another."},
    {"name": "objects", "description": "Bring and fetch files, by links that other routes answer with; no key needed."},
    {"name": "server", "description": "Whether the server is well."},
    {"name": "workers", "description": "What workers ask; not for clients that submit tasks."},
]

Asset = Literal["swagger-ui.css", "swagger-ui-bundle.js"]


def routes() -> APIRouter:
    router = make_router("/api", "server", *ROLES, in_schema=False)
    folder = Path(__file__).with_name("swagger_ui")

    @router.get("/openapi.json")
    async def document(request: Request) -> dict[str, Any]:
        prefix = request.scope.get("root_path", "")
        return {**request.app.openapi(), **({"servers": [{"url": prefix}]} if prefix else {})}

    @router.get("/docs")
    async def page() -> HTMLResponse:
        nonce = secrets.token_urlsafe(16)
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
            "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )
        headers = {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"}
        return HTMLResponse(PAGE.substitute(nonce=nonce), headers=headers)

    @router.get("/docs/{asset}")
    async def asset(asset: Asset) -> FileResponse:
        return FileResponse(folder / asset, headers={"X-Content-Type-Options": "nosniff"})

    return router
