"""`/api/docs`: the OpenAPI document, to read and to try. Script and style come with a package; nothing is fetched."""

import secrets
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import FileResponse, HTMLResponse

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

Asset = Literal["swagger-ui.css", "swagger-ui-bundle.js"]


def routes() -> APIRouter:
    router = APIRouter(prefix="/api/docs", include_in_schema=False)
    folder = Path(str(files("fastapi_offline") / "static"))

    @router.get("")
    async def page() -> HTMLResponse:
        nonce = secrets.token_urlsafe(16)
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
            "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )
        headers = {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"}
        return HTMLResponse(PAGE.substitute(nonce=nonce), headers=headers)

    @router.get("/{asset}")
    async def asset(asset: Asset) -> FileResponse:
        return FileResponse(folder / asset, headers={"X-Content-Type-Options": "nosniff"})

    return router
