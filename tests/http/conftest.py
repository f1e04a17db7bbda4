"""The application on a test's own database, called as a client would call it."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import Role
from holdfast.objects.local import Folder
from holdfast.testing import Database
from tests.http.apps import app_over


@pytest.fixture
def app(database: Database, tmp_path: Path) -> FastAPI:
    return app_over(database.bridge(), Folder(tmp_path / "objects").open())


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with client(app) as http:
        yield http


def client(app: FastAPI, key: str | None = None, host: str = "localhost:7777") -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers)


async def keys(store: Store) -> dict[str, str]:
    """One key for each role, by the role's name."""
    roles: tuple[Role, ...] = ("user", "worker", "operator")
    return {role: (await store.keys.make(f"a {role}", [role])).secret for role in roles}
