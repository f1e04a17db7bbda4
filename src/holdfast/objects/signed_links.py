"""Tickets: the links of the local folder, which say themselves what they are good for.

A ticket travels in the address, signed with a secret that lies in the folder: every server on the folder makes and
takes the same ones, and nothing is kept until one is used. Whoever has the folder has the secret.
"""

import fcntl
import hashlib
import os
import secrets
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from itsdangerous import BadData, URLSafeSerializer

from holdfast.errors import UploadIncomplete, UploadTooLarge, UploadTypeWrong, UrlRefused

ASK_AGAIN = {
    "PUT": "Ask for a new URL, where this one came from: POST /tasks/{id}/upload-urls, or POST /ingest/uploads.",
    "GET": "Ask for a new URL, where this one came from.",
}

Method = Literal["PUT", "GET"]


@dataclass(frozen=True)
class Ticket:
    """What one link is good for."""

    id: str
    method: Method
    key: str
    content_type: str
    expires_at: datetime
    size: int | None = None
    sha256: str | None = None
    most_bytes: int = 0
    filename: str = ""

    @property
    def allowed_bytes(self) -> int:
        return self.most_bytes if self.size is None else self.size

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
        if received > self.allowed_bytes:
            kind = "at most " * (self.size is None)
            raise UploadTooLarge(f"This link takes {kind}{self.allowed_bytes} bytes.", fix=ASK_AGAIN["PUT"])

    def check_least(self, received: int) -> None:
        """Raise UploadIncomplete for fewer bytes than promised."""
        if self.size is not None and received < self.size:
            raise UploadIncomplete(f"{received} of {self.size} bytes.", fix="Send it again, by the same URL.")

    def check_sha256(self, found: str) -> None:
        """Raise UploadIncomplete for other bytes than promised."""
        if self.sha256 is not None and found != self.sha256:
            raise UploadIncomplete(
                f"Its sha256 is {found}, not {self.sha256}.", fix="Send the right file, by the same URL."
            )


class Tickets:
    """Signs tickets, and reads those that come back."""

    def __init__(self, secret: str) -> None:
        self._serializer = URLSafeSerializer(
            secret, salt="holdfast.objects", signer_kwargs={"digest_method": hashlib.sha256}
        )

    def sign(self, ticket: Ticket) -> str:
        told = {**asdict(ticket), "expires_at": ticket.expires_at.isoformat()}
        token = self._serializer.dumps({name: value for name, value in told.items() if value is not None})
        return token if isinstance(token, str) else token.decode()

    def read(self, token: str, method: Method) -> Ticket:
        """The ticket. Raises UrlRefused for one that is not ours, or for something else."""
        try:
            told = self._serializer.loads(token)
        except BadData:
            raise UrlRefused("It was not made here, or not whole.", fix=ASK_AGAIN[method]) from None
        ticket = Ticket(**{**told, "expires_at": datetime.fromisoformat(told["expires_at"])})
        if ticket.method != method:
            use = "bring a file: PUT" if ticket.method == "PUT" else "fetch a file: GET"
            raise UrlRefused(f"It was made for something else, to {use}.", fix=ASK_AGAIN[method])
        return ticket


def read_secret(path: Path) -> str:
    """The secret in this file; whoever comes first makes it, and the others wait for it."""
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
