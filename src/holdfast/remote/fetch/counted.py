"""What has come of a document so far: its size and its checksum, and no more than is taken."""

import hashlib
from dataclasses import dataclass

from holdfast.errors import SchemaInvalid

piece_bytes = 1024 * 1024


@dataclass(frozen=True)
class Fetched:
    """What was fetched. The type is what a server said, if one was asked."""

    bytes: int
    sha256: str
    content_type: str | None


class Counted:
    """Counts and hashes the pieces of a document."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._digest = hashlib.sha256()

    def expect(self, size: int) -> None:
        """Raise SchemaInvalid if a document of this size is too large."""
        if size > self.most_bytes:
            message = f"The document is larger than {self.most_bytes:,} bytes, and no larger one is taken."
            raise SchemaInvalid(message, code="too-large")

    def add(self, piece: bytes) -> bytes:
        """The piece itself. Raises SchemaInvalid once it is too much."""
        self.bytes += len(piece)
        self.expect(self.bytes)
        self._digest.update(piece)
        return piece

    def fetched(self, content_type: str | None = None) -> Fetched:
        """All of it. Raises SchemaInvalid if that is nothing."""
        if not self.bytes:
            raise SchemaInvalid("The document is empty: it has no bytes at all.", code="empty")
        return Fetched(self.bytes, self._digest.hexdigest(), content_type)
