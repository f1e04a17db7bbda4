"""Signed links, by which a client uploads or downloads one object without a key: for a folder, for S3 and for Azure.

A folder's link carries what it is good for in its own address, signed with a secret that lies in the folder: every
server on the folder makes and accepts the same links, and nothing is stored until one is used. Buckets check their
links themselves. S3's and Azure's are signed here because obstore, which does everything else, binds no headers for
S3, and for Azure signs links that Azure refuses where a key holds a space or a letter beyond ASCII, and that carry no
name. Both are checked against real servers.
"""

import base64
import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlsplit

from itsdangerous import BadData, URLSafeSerializer
from pydantic import TypeAdapter

from holdfast.errors import UploadIncomplete, UploadTooLarge, UploadTypeWrong, UrlRefused
from holdfast.objects import attachment

ASK_AGAIN = {
    "PUT": "Ask for a new URL, where this one came from: POST /tasks/{id}/upload-urls, or POST /ingest/uploads.",
    "GET": "Ask for a new URL, where this one came from.",
}

Method = Literal["PUT", "GET"]


@dataclass(frozen=True)
class FolderLink:
    """What one link of a folder is good for."""

    id: str
    method: Method
    key: str
    content_type: str
    expires_at: datetime
    size: int | None = None
    sha256: str | None = None
    most_bytes: int = 0
    filename: str = ""

    def check_time(self, now: datetime) -> None:
        """Raise UrlRefused once the moment has passed; in that very moment it is still good."""
        if now > self.expires_at:
            detail = f"It expired: it was good until {self.expires_at.isoformat()}."
            raise UrlRefused(detail, fix=ASK_AGAIN[self.method])

    def check_request(self, content_type: str, length: int | None) -> None:
        """Raise what is wrong already before any of the body is read."""
        if content_type.strip().lower() != self.content_type.lower():
            raise UploadTypeWrong(f"This link is for {self.content_type}.", fix="Send that as the Content-Type.")
        if length is not None:
            self.check_most(length)
            self.check_least(length)

    def check_most(self, received: int) -> None:
        """Raise UploadTooLarge."""
        if received > (self.most_bytes if self.size is None else self.size):
            allowed = f"at most {self.most_bytes}" if self.size is None else self.size
            raise UploadTooLarge(f"This link takes {allowed} bytes.", fix=ASK_AGAIN["PUT"])

    def check_least(self, received: int) -> None:
        """Raise UploadIncomplete for fewer bytes than promised."""
        if self.size is not None and received < self.size:
            raise UploadIncomplete(f"{received} of {self.size} bytes.", fix="Send it again, by the same URL.")

    def check_sha256(self, found: str) -> None:
        """Raise UploadIncomplete for other bytes than promised."""
        if self.sha256 is not None and found != self.sha256:
            fix = "Send the right file, by the same URL."
            raise UploadIncomplete(f"Its sha256 is {found}, not {self.sha256}.", fix=fix)


LINK = TypeAdapter(FolderLink)


class FolderSigner:
    """Signs the links of a folder, and reads those that come back."""

    def __init__(self, secret: str) -> None:
        self._serializer = URLSafeSerializer(
            secret, salt="holdfast.objects", signer_kwargs={"digest_method": hashlib.sha256}
        )

    def sign(self, link: FolderLink) -> str:
        token = self._serializer.dumps(LINK.dump_python(link, mode="json", exclude_none=True))
        return token if isinstance(token, str) else token.decode()

    def read(self, token: str, method: Method) -> FolderLink:
        """The link. Raises UrlRefused for one that is not ours, or for another method."""
        try:
            link = LINK.validate_python(self._serializer.loads(token))
        except BadData:
            raise UrlRefused("It was not made here, or not whole.", fix=ASK_AGAIN[method]) from None
        if link.method != method:
            use = "bring a file: PUT" if link.method == "PUT" else "fetch a file: GET"
            raise UrlRefused(f"It was made for something else, to {use}.", fix=ASK_AGAIN[method])
        return link


def read_secret(path: Path) -> str:
    """The secret in this file; the first process makes it, and the others wait for it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+") as file:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        secret = file.read()
        if len(secret) != 64:  # new, or its maker was killed over it
            secret = secrets.token_hex(32)
            file.seek(0)
            file.truncate()
            file.write(secret)
            file.flush()
            os.fsync(descriptor)
        return secret


@dataclass(frozen=True)
class S3Signer:
    """A bucket's address, and who signs for it (AWS Signature Version 4).

    The signature covers the method, the path, the query and the headers that are named: with another Content-Type or
    Content-Length than was signed, S3 refuses the request.
    """

    address: str
    """Of the bucket itself: `https://bucket.s3.eu-west-1.amazonaws.com`, or `http://127.0.0.1:8333/bucket`."""
    region: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    prefix: str = ""
    link_most_bytes = 5 << 30

    async def sign_upload(
        self, key: str, content_type: str, size: int | None, now: datetime, lasting: timedelta
    ) -> tuple[str, dict[str, str]]:
        headers = {"Content-Type": content_type}
        bound = headers | ({"Content-Length": str(size)} if size is not None else {})
        return self.presign("PUT", self.prefix + key, now=now, lasting=lasting, headers=bound), headers

    async def sign_download(self, key: str, content_type: str, filename: str, now: datetime, lasting: timedelta) -> str:
        query = {"response-content-disposition": attachment(filename), "response-content-type": content_type}
        return self.presign("GET", self.prefix + key, now=now, lasting=lasting, query=query)

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
        fields = {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": f"{self.access_key_id}/{scope}",
            "X-Amz-Date": moment,
            "X-Amz-Expires": str(int(lasting.total_seconds())),
            "X-Amz-SignedHeaders": names,
            **({"X-Amz-Security-Token": self.session_token} if self.session_token else {}),
            **(query or {}),
        }
        ordered = "&".join(
            sorted(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in fields.items())
        )
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


AZURE_VERSION = "2021-12-02"
clock_skew = timedelta(minutes=5)


@dataclass(frozen=True)
class AzureSigner:
    """A container's address, and the key of its account (service SAS). Azure binds no header of an upload."""

    endpoint: str
    """Of the account: `https://account.blob.core.windows.net`, or `http://127.0.0.1:10000/account`."""
    account: str
    container: str
    key: str = field(repr=False)
    prefix: str = ""
    link_most_bytes = 5000 << 20

    async def sign_upload(
        self, key: str, content_type: str, size: int | None, now: datetime, lasting: timedelta
    ) -> tuple[str, dict[str, str]]:
        headers = {"Content-Type": content_type, "x-ms-blob-type": "BlockBlob"}
        return self._sign("cw", key, now, lasting), headers

    async def sign_download(self, key: str, content_type: str, filename: str, now: datetime, lasting: timedelta) -> str:
        return self._sign("r", key, now, lasting, attachment(filename), content_type)

    def _sign(
        self,
        permissions: str,
        key: str,
        now: datetime,
        lasting: timedelta,
        disposition: str = "",
        content_type: str = "",
    ) -> str:
        """The link; `permissions` are Azure's letters: r to read, cw to create and write."""
        start, end = (
            moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for moment in (now - clock_skew, now + lasting)
        )
        resource = f"/blob/{self.account}/{self.container}/{self.prefix}{key}"
        fields = (permissions, start, end, resource, "", "", "", AZURE_VERSION, "b", "", "", "", disposition, "", "")
        text = "\n".join((*fields, content_type))
        digest = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        query = {
            "sv": AZURE_VERSION, "sr": "b", "sp": permissions, "st": start, "se": end, "rscd": disposition,
            "rsct": content_type, "sig": base64.b64encode(digest).decode(),
        }  # fmt: skip
        pairs = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items() if value)
        return f"{self.endpoint.rstrip('/')}/{self.container}/{quote(self.prefix + key, safe='/~')}?{pairs}"
