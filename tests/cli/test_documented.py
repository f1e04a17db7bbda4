"""The FastAPI application of the documentation runs as it is printed."""

import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.testing import Database

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "steps.md"


async def test_the_web_application_starts_tasks_and_answers_errors(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_URL", database.url)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    (text,) = re.findall(r"## In FastAPI\n\n```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {"__name__": "web"}
    exec(compile(text, "web.py", "exec"), names)  # noqa: S102
    app = names["app"]
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://web") as client,
    ):
        made, again = [await client.post("/orders/42/invoice") for _ in range(2)]
        assert (made.status_code, made.json()) == (202, again.json())
        assert (await client.get(f"/tasks/{made.json()['task']}")).json() == {"state": "Queued"}
        assert (await client.get(f"/tasks/{made.json()['task'][:-4]}0000")).status_code == 404
        assert (await client.get("/tasks/none")).status_code == 422
