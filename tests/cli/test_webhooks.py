"""`holdfast webhooks`: endpoints, made and mended from the keyboard."""

import pytest

from tests.cli.conftest import Keyboard


@pytest.fixture(autouse=True)
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """192.0.2.0/24 leads nowhere, and stands for what is public."""
    monkeypatch.setenv("HOLDFAST_FETCH_ALLOW", "192.0.2.0/24")


def test_a_secret_is_printed_once_and_alone(holdfast: Keyboard) -> None:
    assert "No webhooks." in holdfast("webhooks").err
    made = holdfast("webhooks", "add", "https://192.0.2.1/hook", "--name", "mine", "--on", "failed, moved")
    assert (made.code, made.out.startswith("whsec_"), len(made.lines)) == (0, True, 1)
    assert "not shown again" in made.err
    (kept,) = holdfast("webhooks", "ls", "--json").json
    assert (kept["name"], kept["kinds"], kept["url"]) == ("mine", ["failed", "moved"], "https://192.0.2.1/hook")
    assert made.out.strip() not in holdfast("webhooks", "--json").out
    assert all(part in holdfast("webhooks").out for part in ("mine", "failed,moved", "https://192.0.2.1/hook"))


def test_it_is_paused_resumed_tested_and_removed(holdfast: Keyboard) -> None:
    made = holdfast("webhooks", "add", "https://192.0.2.1/hook", "--name", "mine", "--owner", "ada", "--json").json
    assert holdfast("webhooks", "pause", "mine").out == "mine is paused.\n"
    assert "paused" in holdfast("webhooks").out
    assert holdfast("webhooks", "test", "mine").code == 2
    assert holdfast("webhooks", "resume", made["id"][:13], "--json").json["paused_at"] is None
    sent = holdfast("webhooks", "test", made["id"], "--json").json["delivery_id"]
    (listed,) = holdfast("webhooks", "deliveries", "mine", "--json").json
    assert (listed["id"], listed["kind"], listed["state"]) == (sent, "webhook.test", "pending")
    assert "webhook.test" in holdfast("webhooks", "deliveries", "mine", "--state", "pending").out
    assert holdfast("webhooks", "redeliver", "mine", sent).out == f"On its way as {sent}.\n"
    assert holdfast("webhooks", "rm", "mine").out == "mine is removed.\n"
    assert holdfast("webhooks", "--json").json == []


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("add", "http://127.0.0.1/hook"), 2, "is not a public address"),
        (("add", "http://169.254.169.254/"), 2, "is not a public address"),
        (("add", "ftp://192.0.2.1/"), 2, "Only http:// and https://"),
        (("add", "https://192.0.2.1/", "--on", "finished"), 2, "are not events"),
        (("add", "https://192.0.2.1/", "--lifecycle", "nope"), 3, "There is no lifecycle"),
        (("pause", "nope"), 3, "There is no webhook 'nope'"),
    ],
)
def test_what_cannot_be_is_refused(holdfast: Keyboard, arguments: tuple[str, ...], code: int, message: str) -> None:
    refused = holdfast("webhooks", *arguments)
    assert (refused.code, refused.out) == (code, "")
    assert message in refused.err
