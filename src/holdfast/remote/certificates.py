"""Whom we trust at the other end of a line."""

import functools
import ssl


@functools.cache
def certificates() -> ssl.SSLContext:
    """Those that this system trusts, or what SSL_CERT_FILE names. Read once, as that takes a while."""
    import httpx2  # takes its time, and most processes do not need it

    return httpx2.create_ssl_context()
