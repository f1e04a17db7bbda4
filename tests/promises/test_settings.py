"""Settings come from the environment, once, and a wrong one is named."""

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from holdfast.errors import SettingInvalid
from holdfast.settings import SETTINGS, Settings, read_settings


def test_everything_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in SETTINGS:
        monkeypatch.delenv(f"HOLDFAST_{field}".upper(), raising=False)
    assert read_settings() == Settings(url=None, home=Path(".holdfast"), host="127.0.0.1", port=7777)


@pytest.mark.parametrize("url", ["postgresql://a@one:5432,two:5433/x", "postgres://a@[::1]:5432/x", "postgresql:///x"])
def test_any_address_that_libpq_knows_is_taken(url: str) -> None:
    assert Settings(url=url).url == url


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_URL", "")
    assert read_settings().url is None


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("HOLDFAST_PORT", "seven", "is not a whole number"),
        ("HOLDFAST_PORT", "65536", "is not a number from 0 to 65535"),
        ("HOLDFAST_URL", "mysql://root:secret@db/x", "starts with 'mysql'; write postgresql://"),
        ("HOLDFAST_URL", "postgresql+asyncpg://root:secret@db/x", "starts with 'postgresql+asyncpg'"),
        (
            "HOLDFAST_URL",
            "postgresql://me:secret/secret@db:5432/x",
            "has a port that is not a number; in a password, write / as %2F",
        ),
        ("HOLDFAST_URL", "dbname=x password=secret", "starts with 'dbname'"),
        ("HOLDFAST_EMBEDDER", "secret", "is not one of wordllama, openai:<model>"),
        ("HOLDFAST_EMBEDDER", "openai:", "is not one of wordllama, openai:<model>"),
        ("HOLDFAST_EMBEDDER", "minilm", "not part of Holdfast any more; write wordllama, or serve the model"),
        ("HOLDFAST_NEUTRALIZER", "openai:", "is not one of rules, openai:<model>"),
        ("HOLDFAST_OBJECTS", "ftp://secret", "is not one of file:///folder, s3://bucket/prefix"),
        ("HOLDFAST_OBJECTS", "/var/secret", "is not one of file:///folder"),
        ("HOLDFAST_OBJECTS", "s3://id:secret@bucket", "keys go into the variables of the vendor"),
        ("HOLDFAST_OBJECTS", "s3:///secret", "does not name a place; write s3://bucket/prefix"),
        ("HOLDFAST_OBJECTS", "file://secret", "does not name a place; write file:///folder"),
        ("HOLDFAST_OBJECTS", "az://box/../secret", "does not name a place; write az://container/prefix"),
        ("HOLDFAST_API", "http:/secret:1", "is not a web address; write https://host:port"),
        ("HOLDFAST_API", "http://host:7secret", "is not a web address"),
        ("HOLDFAST_API", "http://host:7777,htp://secret", "is not a web address"),
        ("HOLDFAST_API", "http://me:secret@host", "is not a web address"),
        ("HOLDFAST_API", ",", "does not name a server"),
        ("HOLDFAST_WAKEUPS", "secret", "is not one of postgres, sqs:<queue-url>; such as sqs:https://sqs."),
        ("HOLDFAST_WAKEUPS", "sqs:secret", "is not one of postgres, sqs:<queue-url>"),
        (
            "HOLDFAST_WAKEUPS",
            "https://sqs.eu-central-1.amazonaws.com/1/secret",
            "is not one of postgres, sqs:<queue-url>",
        ),
        ("HOLDFAST_WAKEUPS", "sqs:https://sqs.eu-central-1.amazonaws.com/secret", "is not one of postgres, sqs:"),
        ("HOLDFAST_WAKEUPS", "sqs:https://me:secret@host/1/name", "is not one of postgres, sqs:<queue-url>"),
        ("HOLDFAST_WAKEUPS", "sqs:https://host/1/secret.fifo", "names a FIFO queue; take a standard one"),
        ("HOLDFAST_FETCH_ALLOW", "10.0.0.0/8, here", "'here' is not a network; write 10.1.0.0/16"),
        ("HOLDFAST_FETCH_ALLOW", "10.1.2.3/8", "'10.1.2.3/8' is not a network"),
    ],
)
def test_a_wrong_value_is_named_and_its_secret_is_not(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingInvalid) as caught:
        read_settings()
    assert caught.value.detail.startswith(f"{name}: ")
    assert says in caught.value.detail
    assert "secret" not in str(caught.value)


def test_settings_cannot_be_changed_and_do_not_show_the_password() -> None:
    settings = Settings(url="postgresql://me:secret@db/x")
    assert "secret" not in repr(settings)
    with pytest.raises(FrozenInstanceError):
        settings.port = 1  # type: ignore[misc]
