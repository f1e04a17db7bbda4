"""Whom we trust at the other end of a line."""

import functools
import ssl


@functools.cache
def certificates() -> ssl.SSLContext:
    """Those of certifi, or what SSL_CERT_FILE names. Read once, as that takes some 40 ms."""
    import httpx  # takes its time, and most processes ask nobody

    return httpx.create_ssl_context()
