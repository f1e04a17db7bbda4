"""Which host names the server goes by, and whose pages may call it.

A browser can be made to send requests to a server on its own machine: under another name that resolves to loopback
(DNS rebinding), or from another site's page (CSRF). So a server that is bound to loopback answers to the names of
loopback only, one that is bound elsewhere to the names it is given, and a page may call only the server it came from.
"""

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.errors import HoldfastError, HostRefused, OriginRefused
from holdfast.http.problem import refusal

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class OriginCheck:
    """Refuses requests under foreign names and from foreign pages. No `hosts`: any name will do."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] = ()) -> None:
        self.app = app
        self.hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope)
            try:
                self.check(request.headers.get("host", ""), request.headers.getlist("origin"))
            except HoldfastError as error:
                await refusal(request, error)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def check(self, host: str, origins: list[str]) -> None:
        """Raise HostRefused or OriginRefused."""
        name, _ = split(host)
        if self.hosts and name not in self.hosts:
            raise HostRefused(fix="Call it by the name it serves on, or add the name to HOLDFAST_HOSTS.")
        for origin in origins:
            scheme, _, rest = origin.partition("://")
            if not rest or split(rest, scheme) != split(host, scheme):
                raise OriginRefused(fix="Open the page from this server itself.")


def split(netloc: str, scheme: str = "http") -> tuple[str, int]:
    """A host name and its port; ("", 0) for any other text."""
    try:
        parts = urlsplit(f"//{netloc}")
        plain = not (parts.path or parts.query or parts.fragment or "@" in netloc)
        return (parts.hostname or "", parts.port or (443 if scheme == "https" else 80)) if plain else ("", 0)
    except ValueError:
        return "", 0
