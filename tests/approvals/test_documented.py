"""What the pages show, runs."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from standardwebhooks.webhooks import Webhook

from holdfast.testing import Engine
from holdfast.webhooks.store import new_secret

DOCS = Path(__file__).parents[2] / "docs"


def code_under(page: str, title: str) -> str:
    (text,) = re.findall(rf'```python title="{title}"\n(.*?)```', (DOCS / page).read_text(), flags=re.DOTALL)
    return str(text)


def test_the_task_that_asks(holdfast: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "prices"}
    exec(compile(code_under("concepts/approvals.md", "prices.py"), "prices.py", "exec"), names)  # noqa: S102
    (test,) = re.findall(r"## In tests\n\n```python\n(.*?)```", (DOCS / "concepts/approvals.md").read_text(), re.DOTALL)
    exec(compile(test, "test_prices.py", "exec"), names)  # noqa: S102
    names["test_prices"](holdfast)
    assert capsys.readouterr().out.startswith("To the editor: http://127.0.0.1:7777/answers/")


async def test_the_receiver_that_verifies(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    secret = new_secret()
    monkeypatch.setenv("SECRET", secret)
    names: dict[str, Any] = {"__name__": "receiver"}
    exec(compile(code_under("operations/webhooks.md", "receiver.py"), "receiver.py", "exec"), names)  # noqa: S102
    body, now = '{"type": "task.completed", "data": {"task_id": "1"}}', datetime.now(UTC)
    headers = {
        "webhook-id": "msg_1", "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("msg_1", now, body),
    }  # fmt: skip
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(names["app"]), base_url="http://here") as http:
        statuses = [(await http.post("/hook", content=one, headers=headers)).status_code for one in (body, body, "{}")]
    assert (statuses, capsys.readouterr().out) == ([200, 200, 400], "task.completed 1\n")
