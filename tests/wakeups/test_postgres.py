"""A database that cannot be used is refused with the reason and the remedy."""

import asyncio
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.errors import DatabaseError, DatabaseReadOnly, DatabaseTooOld, DatabaseUnreachable
from holdfast.postgres import connections
from holdfast.postgres.connections import check_server, locate, open_connection
from holdfast.postgres.embedded import Embedded, is_watched, read_postmaster
from holdfast.settings import Settings
from holdfast.testing import Database, Ground


async def refusal(url: str) -> DatabaseError:
    with pytest.raises(DatabaseError) as caught:
        async with open_connection(url):
            pass
    return caught.value


async def test_nothing_listens_there() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        error = await refusal(f"postgresql://a:secret@127.0.0.1:{closed.getsockname()[1]}/b")
    assert isinstance(error, DatabaseUnreachable)
    assert "unset it to use the embedded Postgres" in error.fix
    assert "secret" not in str(error)


async def test_it_listens_but_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "connect_timeout_seconds", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        error = await refusal(f"postgresql://a@127.0.0.1:{mute.getsockname()[1]}/b")
    assert "no answer within 0.2 s" in error.detail


@pytest.mark.parametrize("host", ["host.invalid", ".x", "x" * 300])
async def test_the_host_is_unknown(host: str) -> None:
    assert isinstance(await refusal(f"postgresql://a@{host}/b"), DatabaseUnreachable)


async def test_the_password_is_wrong(database: Database) -> None:
    port = urlsplit(database.ground.server.url()).port
    error = await refusal(f"postgresql://holdfast:wrong@127.0.0.1:{port}/{database.name}")
    assert "password authentication failed" in error.detail
    assert "user and password" in error.fix


async def test_the_database_does_not_exist(ground: Ground) -> None:
    error = await refusal(ground.server.owner_url("nowhere"))
    assert "createdb nowhere" in error.fix


async def test_the_role_may_not_write(database: Database) -> None:
    database.ask_owner(f"alter database {database.name} set default_transaction_read_only = on")
    error = await refusal(database.url)
    assert isinstance(error, DatabaseReadOnly)
    assert "default_transaction_read_only" in error.detail


@pytest.mark.deep
async def test_a_standby_is_not_the_primary(tmp_path: Path) -> None:
    home = tmp_path / "standby"
    with Embedded(home):
        pass
    while is_watched(home):
        await asyncio.wait([asyncio.create_task(asyncio.to_thread(read_postmaster, home))])
    (home / "postgres" / "standby.signal").touch()
    with Embedded(home) as standby:
        error = await refusal(standby.owner_url())
    assert isinstance(error, DatabaseReadOnly)
    assert "primary" in error.fix


FIT = {"standby": False, "read_only": False}


def test_an_old_postgres_is_named_with_what_is_needed() -> None:
    with pytest.raises(DatabaseTooOld, match=r"It is 14\.19; Holdfast needs 15 or newer"):
        check_server({**FIT, "number": 140019, "name": "14.19"})
    check_server({**FIT, "number": 150000, "name": "15.0"})
    check_server({**FIT, "number": 190000, "name": "19beta1"})


def test_holdfast_url_points_elsewhere_and_nothing_is_embedded(database: Database, tmp_path: Path) -> None:
    settings = Settings(url=database.url, home=tmp_path / "unused")
    with locate(settings) as address:
        assert address.url() == address.url(owner=True) == address.nearest() == database.url
        assert address.embedded is None
        assert database.name in address.label
        assert (urlsplit(database.url).password or "") not in address.label
        assert (urlsplit(database.url).password or "") not in repr(address)
    assert not (tmp_path / "unused").exists()
