"""Files of a test's own, and what becomes of them when they are read."""

from pathlib import Path

import pytest

from holdfast.apps.documents.extract import Extracted, extract
from holdfast.errors import SchemaInvalid


class Harness:
    """Writes a file under a name, and reads it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, content: bytes | str) -> Path:
        path = self.folder / "file"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    async def read(self, content: bytes | str, name: str = "paper", content_type: str | None = None) -> Extracted:
        return await extract(self.put(content), name, content_type)

    async def refusal(self, content: bytes | str, name: str = "paper") -> SchemaInvalid:
        with pytest.raises(SchemaInvalid) as caught:
            await self.read(content, name)
        return caught.value


def one_line(text: str) -> str:
    """The text in one line, wherever its lines were broken."""
    return " ".join(text.split())
