"""A site, a place for objects, and a way to fetch from both."""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

import pytest

from holdfast.objects.local import Folder
from holdfast.remote.fetch import Fetched, fetch
from holdfast.remote.fetch.guard import Guard
from tests.remote.site import Site, serving

HERE = ip_network("127.0.0.1/32")  # stands for what is public: nothing else of loopback is allowed


@dataclass
class Fetching:
    """Fetches into a file, behind a guard that lets through what is public and this machine's 127.0.0.1."""

    objects: Folder
    target: Path

    async def __call__(self, uri: str, *, guard: Guard | None = None, most_bytes: int = 1 << 20) -> Fetched:
        guard = guard or Guard([HERE])
        return await fetch(uri, self.target, objects=self.objects, guard=guard, most_bytes=most_bytes)

    @property
    def content(self) -> bytes | None:
        """What is in the file now."""
        return self.target.read_bytes() if self.target.exists() else None


@pytest.fixture(scope="package")
def server() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture
def site(server: Site) -> Site:
    """A site that answers nothing yet, and was not asked."""
    server.forget()
    return server


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "objects").open()


@pytest.fixture
def fetching(folder: Folder, tmp_path: Path) -> Fetching:
    return Fetching(folder, tmp_path / "fetched")
