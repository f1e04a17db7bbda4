"""Signed links for Azure Blob Storage (service SAS), which carry the name and the type of a download.

Azure binds no header of an upload. Written here because the library that does everything else signs links that Azure
refuses where a key holds a space or a letter beyond ASCII, and that carry no name.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

VERSION = "2021-12-02"
clock_skew = timedelta(minutes=5)


@dataclass(frozen=True)
class AccountSigner:
    """A container's address, and the key of its account."""

    endpoint: str
    """Of the account: `https://account.blob.core.windows.net`, or `http://127.0.0.1:10000/account`."""
    account: str
    container: str
    key: str = field(repr=False)

    def sign(
        self,
        permissions: str,
        key: str,
        *,
        now: datetime,
        lasting: timedelta,
        disposition: str = "",
        content_type: str = "",
    ) -> str:
        """The link; `permissions` are Azure's letters: r to read, cw to create and write."""
        start, end = (
            moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for moment in (now - clock_skew, now + lasting)
        )
        resource = f"/blob/{self.account}/{self.container}/{key}"
        told = [
            permissions,
            start,
            end,
            resource,
            "",
            "",
            "",
            VERSION,
            "b",
            "",
            "",
            "",
            disposition,
            "",
            "",
            content_type,
        ]
        digest = hmac.new(base64.b64decode(self.key), "\n".join(told).encode(), hashlib.sha256).digest()
        query = {
            "sv": VERSION,
            "sr": "b",
            "sp": permissions,
            "st": start,
            "se": end,
            "rscd": disposition,
            "rsct": content_type,
            "sig": base64.b64encode(digest).decode(),
        }
        words = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items() if value)
        return f"{self.endpoint.rstrip('/')}/{self.container}/{quote(key, safe='/~')}?{words}"
