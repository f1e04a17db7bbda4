"""A task made in the caller's transaction commits or vanishes with it, whatever driver holds that transaction."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import psycopg
import psycopg.rows
import psycopg2
import psycopg2.extras
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from holdfast import Handle, Holdfast
from holdfast.errors import KeyConflict, PayloadTooLarge, QueueUnknown, RequestInvalid, SchemaMissing
from holdfast.testing import Database, Engine

hf = Holdfast()


@hf.task
def send(text: str) -> str:
    return text


class Row:
    def __init__(self, **columns: Any) -> None:
        vars(self).update(columns)


# Each opens a connection with a transaction begun, and says how to run a statement and how to commit.
Way = tuple[Any, Callable[[str], Any], Callable[[], Any]]


@contextlib.contextmanager
def psycopg_connection(url: str, **options: Any) -> Iterator[Way]:
    with contextlib.closing(psycopg.connect(url, **options)) as connection:
        yield connection, connection.execute, connection.commit


@contextlib.contextmanager
def psycopg2_connection(url: str, **options: Any) -> Iterator[Way]:
    with contextlib.closing(psycopg2.connect(url, **options)) as connection:
        yield connection, lambda sql: connection.cursor().execute(sql), connection.commit


@contextlib.contextmanager
def sqlalchemy_connection(url: str) -> Iterator[Way]:
    engine = sqlalchemy.create_engine(address(url, "psycopg"), poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        yield connection, lambda sql: connection.execute(sqlalchemy.text(sql)), connection.commit


@contextlib.contextmanager
def sqlalchemy_session(url: str, driver: str = "psycopg") -> Iterator[Way]:
    engine = sqlalchemy.create_engine(address(url, driver), poolclass=sqlalchemy.NullPool)
    with Session(engine) as session:
        yield session, lambda sql: session.execute(sqlalchemy.text(sql)), session.commit


SYNC: dict[str, Callable[[str], contextlib.AbstractContextManager[Way]]] = {
    "psycopg": psycopg_connection,
    "psycopg dict rows": lambda url: psycopg_connection(url, row_factory=psycopg.rows.dict_row),
    "psycopg class rows": lambda url: psycopg_connection(url, row_factory=psycopg.rows.class_row(Row)),
    "psycopg scalar rows": lambda url: psycopg_connection(url, row_factory=psycopg.rows.scalar_row),
    "psycopg2": psycopg2_connection,
    "psycopg2 dict rows": lambda url: psycopg2_connection(url, cursor_factory=psycopg2.extras.RealDictCursor),
    "sqlalchemy connection": sqlalchemy_connection,
    "sqlalchemy session": sqlalchemy_session,
    "sqlalchemy session psycopg2": lambda url: sqlalchemy_session(url, "psycopg2"),
}


@contextlib.asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[Way]:
    connection = await psycopg.AsyncConnection.connect(url, row_factory=psycopg.rows.dict_row)
    try:
        yield connection, connection.execute, connection.commit
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Way]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield connection, connection.execute, transaction.commit
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def asyncpg_pooled(url: str) -> AsyncIterator[Way]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool:
        connection = await pool.acquire()
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield connection, connection.execute, transaction.commit
        finally:
            await pool.release(connection)


@contextlib.asynccontextmanager
async def sqlalchemy_async_connection(url: str, driver: str) -> AsyncIterator[Way]:
    engine = create_async_engine(address(url, driver), poolclass=sqlalchemy.NullPool)
    async with engine.connect() as connection:
        yield connection, lambda sql: connection.execute(sqlalchemy.text(sql)), connection.commit


@contextlib.asynccontextmanager
async def sqlalchemy_async_session(url: str, driver: str) -> AsyncIterator[Way]:
    engine = create_async_engine(address(url, driver), poolclass=sqlalchemy.NullPool)
    async with AsyncSession(engine) as session:
        yield session, lambda sql: session.execute(sqlalchemy.text(sql)), session.commit


ASYNC: dict[str, Callable[[str], contextlib.AbstractAsyncContextManager[Way]]] = {
    "psycopg": psycopg_async,
    "asyncpg": asyncpg_connection,
    "asyncpg from a pool": asyncpg_pooled,
    "sqlalchemy connection psycopg": lambda url: sqlalchemy_async_connection(url, "psycopg"),
    "sqlalchemy connection asyncpg": lambda url: sqlalchemy_async_connection(url, "asyncpg"),
    "sqlalchemy session psycopg": lambda url: sqlalchemy_async_session(url, "psycopg"),
    "sqlalchemy session asyncpg": lambda url: sqlalchemy_async_session(url, "asyncpg"),
}

REFUSALS: list[tuple[dict[str, Any], str, type[Exception], str]] = [
    ({"key": "taken"}, "another", KeyConflict, "idempotency key was used before"),
    ({"queue": "nowhere"}, "a", QueueUnknown, "holdfast.make_queue\\('nowhere'\\)"),
    ({}, "x" * 70_000, PayloadTooLarge, "Put it where files live"),
]


def address(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://", 1)


@pytest.fixture
def database(holdfast: Engine) -> Database:
    """The test's database, with a table of the caller's own."""
    holdfast.database.ask_owner("create table public.orders (id int)")
    holdfast.database.ask_owner("grant all on public.orders to public")
    send.opts(key="taken").start("one")
    return holdfast.database


def orders(database: Database) -> int:
    return int(database.ask_owner("select count(*) from public.orders"))


def is_there(database: Database, handle: Handle[str]) -> bool:
    return bool(database.ask_owner("select exists (select from holdfast.task where id = $1)", handle.id))


@pytest.mark.parametrize("way", SYNC)
def test_a_task_commits_or_vanishes_with_the_callers_row(database: Database, holdfast: Engine, way: str) -> None:
    with SYNC[way](database.url) as (connection, execute, commit):
        execute("insert into public.orders values (1)")
        handle = send.opts(on=connection, key="k", tags=["a"], priority=9).start("kept")
        commit()
    with SYNC[way](database.url) as (connection, execute, _):
        execute("insert into public.orders values (2)")
        vanished = send.opts(on=connection).start("lost")
    assert (orders(database), is_there(database, handle), is_there(database, vanished)) == (1, True, False)
    assert holdfast.run(handle).result == "kept"
    for options, text, kind, message in REFUSALS:
        with SYNC[way](database.url) as (connection, *_), pytest.raises(kind, match=message):
            send.opts(on=connection, **options).start(text)


@pytest.mark.parametrize("way", ASYNC)
async def test_the_same_in_async_code(database: Database, holdfast: Engine, way: str) -> None:
    async with ASYNC[way](database.url) as (connection, execute, commit):
        await execute("insert into public.orders values (1)")
        handle = await send.opts(on=connection, key="k", tags=["a"], priority=9).astart("kept")
        await commit()
    async with ASYNC[way](database.url) as (connection, execute, _):
        await execute("insert into public.orders values (2)")
        vanished = await send.opts(on=connection).astart("lost")
    assert (orders(database), is_there(database, handle), is_there(database, vanished)) == (1, True, False)
    assert holdfast.run(handle).result == "kept"
    for options, text, kind, message in REFUSALS:
        async with ASYNC[way](database.url) as (connection, *_):
            with pytest.raises(kind, match=message):
                await send.opts(on=connection, **options).astart(text)


ALL_OPTIONS: dict[str, Any] = {
    "key": "whole", "delay": "5m", "priority": 7, "tags": ["a", "b"], "owner": "ada", "limit_key": "l", "limit_to": 2,
}  # fmt: skip


@pytest.mark.parametrize("way", ["psycopg", "psycopg2", "sqlalchemy session"])
def test_all_options_arrive_as_without_a_connection(database: Database, way: str) -> None:
    first = send.start("first")
    expected = send.opts(after=[first], **ALL_OPTIONS).start("a").read()
    with SYNC[way](database.url) as (connection, _, commit):
        other = {**ALL_OPTIONS, "key": None, "delay": None, "run_at": datetime(2030, 1, 1, 0, 5, tzinfo=UTC)}
        handle = send.opts(after=[first], on=connection, **other).start("a")
        commit()
    read = handle.read()
    assert {name: value for name, value in read.items() if name != "id"} == {
        name: value for name, value in expected.items() if name != "id"
    }


async def test_all_options_arrive_by_asyncpg_too(database: Database) -> None:
    first = await send.astart("first")
    for way in ("asyncpg", "sqlalchemy session asyncpg"):
        async with ASYNC[way](database.url) as (connection, _, commit):
            handle = await send.opts(after=[first], on=connection, **{**ALL_OPTIONS, "key": way}).astart("a")
            await commit()
        read = await handle.aread()
        assert (read["state"], read["priority"], read["tags"], read["owner"]) == ("Blocked", 7, ["a", "b"], "ada")
        assert datetime.fromisoformat(read["due_at"]) == datetime(2030, 1, 1, 0, 5, tzinfo=UTC)


async def test_a_connection_without_a_transaction_is_refused(database: Database) -> None:
    async with asyncpg.create_pool(database.url, min_size=0) as pool:
        with pytest.raises(RequestInvalid, match="no pool, no engine"):
            await send.opts(on=pool).astart("a")
        with pytest.raises(RequestInvalid, match="is async"):
            send.opts(on=pool).start("a")
    engine = sqlalchemy.create_engine(address(database.url, "psycopg"))
    for thing in (engine, object(), "postgresql://here", psycopg):
        with pytest.raises(RequestInvalid, match="not a connection that is known here"):
            send.opts(on=thing).start("a")
        with pytest.raises(RequestInvalid, match="not a connection that is known here"):
            await send.opts(on=thing).astart("a")
    async with psycopg_async(database.url) as (connection, *_):
        with pytest.raises(RequestInvalid, match=r"Use `await task\.opts"):
            send.opts(on=connection).start("a")


def test_a_database_without_holdfast_is_named(holdfast: Engine, empty_database: Database) -> None:
    for way in ("psycopg", "psycopg2", "sqlalchemy connection"):
        with SYNC[way](empty_database.owner_url) as (connection, *_), pytest.raises(SchemaMissing, match="db migrate"):
            send.opts(on=connection).start("a")


def test_an_error_of_the_callers_own_stays_as_it_is(database: Database) -> None:
    with psycopg_connection(database.url) as (connection, execute, _):
        with pytest.raises(psycopg.errors.UndefinedTable):
            execute("select * from nothing")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            send.opts(on=connection).start("a")


def test_plain_sql_makes_a_task_too(database: Database, holdfast: Engine) -> None:
    with psycopg_connection(database.url) as (connection, _, commit):
        (made,) = connection.execute("""select holdfast.submit('send', '{"text": "by hand"}')""").fetchone()
        commit()
    holdfast.start(send, "other")
    assert holdfast.run(hf.handle(made)).result == "by hand"
