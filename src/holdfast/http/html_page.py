"""HTML pages that the server renders itself: one screen, no script, no request beyond it."""

import secrets
from string import Template

from fastapi.responses import HTMLResponse

PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
$head
<title>$title</title>
<style nonce="$nonce">
:root { color-scheme: light dark; --ground: #f6f5f1; --card: #fff; --ink: #1d2522; --faint: #5c6964; --line: #dcded8;
  --good: #0b6b50; --bad: #a8321d; --paper: #fff; }
@media (prefers-color-scheme: dark) { :root { --ground: #121614; --card: #1a201d; --ink: #e8ece9; --faint: #9aa8a2;
  --line: #2e3733; --good: #5fd0a8; --bad: #ff9780; --paper: #121614; } }
* { box-sizing: border-box; margin: 0; }
body { background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; padding: 8vh 1.25rem; }
main { margin: auto; }
$style
</style>
</head>
<body><main>
$body
</main></body>
</html>
""")


def html_page(title: str, body: str, *, style: str, head: str, status: int = 200, form: bool = False) -> HTMLResponse:
    """A page of escaped parts. With a `form` it may send one here, and is stored nowhere."""
    nonce = secrets.token_urlsafe(16)
    headers = {
        "Content-Security-Policy": f"default-src 'none'; style-src 'nonce-{nonce}'; img-src 'self'; "
        f"form-action '{'self' if form else 'none'}'; frame-ancestors 'none'; base-uri 'none'",
        "X-Content-Type-Options": "nosniff",
    }
    if form:
        # The form's own POST must say where it comes from, so the referrer may stay within this server; no further.
        headers |= {"Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
    page = PAGE.substitute(title=title, head=head, style=style, nonce=nonce, body=body)
    return HTMLResponse(page, status, headers)
