"""Presigned links for S3 (AWS Signature Version 4), which bind headers too.

The signature covers the method, the path, the query and the headers that are named: with another Content-Type or
Content-Length than was signed, S3 refuses the request. Written here because the library that does everything else
signs no headers. It is checked against a real server, and against the example in AWS's documentation.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlsplit


@dataclass(frozen=True)
class Signer:
    """A bucket's address, and who signs for it."""

    address: str
    """Of the bucket itself: `https://bucket.s3.eu-west-1.amazonaws.com`, or `http://127.0.0.1:8333/bucket`."""
    region: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    def presign(
        self,
        method: str,
        key: str,
        *,
        now: datetime,
        lasting: timedelta,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> str:
        """The link; a client must send these headers as they are here."""
        host = urlsplit(self.address).netloc
        path = f"{urlsplit(self.address).path.rstrip('/')}/{quote(key, safe='/~')}"
        moment = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{moment[:8]}/{self.region}/s3/aws4_request"
        signed = {name.lower(): " ".join(value.split()) for name, value in {"host": host, **(headers or {})}.items()}
        names = ";".join(sorted(signed))
        told = {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": f"{self.access_key_id}/{scope}",
            "X-Amz-Date": moment,
            "X-Amz-Expires": str(int(lasting.total_seconds())),
            "X-Amz-SignedHeaders": names,
            **({"X-Amz-Security-Token": self.session_token} if self.session_token else {}),
            **(query or {}),
        }
        ordered = "&".join(sorted(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in told.items()))
        lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
        request = f"{method}\n{path}\n{ordered}\n{lines}\n{names}\nUNSIGNED-PAYLOAD"
        digest = hashlib.sha256(request.encode()).hexdigest()
        signature = self._sign(scope, f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}")
        return f"{urlsplit(self.address).scheme}://{host}{path}?{ordered}&X-Amz-Signature={signature}"

    def _sign(self, scope: str, text: str) -> str:
        key = f"AWS4{self.secret_access_key}".encode()
        for part in (*scope.split("/"), text):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key.hex()
