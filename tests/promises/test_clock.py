"""There is one clock, the database's, and every id is made from it."""

from datetime import UTC, datetime
from uuid import RFC_4122, UUID

import asyncpg
import pytest

from holdfast.postgres.migrate import migrate
from holdfast.testing import Clock, Database, Ground


async def test_outside_of_tests_the_clock_is_the_servers(empty_database: Database) -> None:
    await migrate(empty_database.owner_url)
    async with empty_database.connect() as connection, connection.transaction():
        assert await connection.fetchval("select holdfast.now() = pg_catalog.now()")


async def test_all_connections_see_the_moved_time(database: Database, clock: Clock) -> None:
    async with database.connect() as application, database.connect_owner() as owner:
        for connection in (application, owner):
            assert await connection.fetchval("select holdfast.now()") == clock.now()
        moved = clock.advance(hours=26, seconds=1)
        for connection in (application, owner):
            assert await connection.fetchval("select holdfast.now()") == moved


async def test_time_stands_still_until_it_is_moved(database: Database, clock: Clock) -> None:
    async with database.connect() as connection:
        first = await connection.fetchval("select holdfast.now()")
        await connection.fetchval("select pg_sleep(0.002)")
        assert await connection.fetchval("select holdfast.now()") == first
        assert clock.set(datetime(2028, 2, 29, tzinfo=UTC)) == await connection.fetchval("select holdfast.now()")


def test_two_tests_do_not_share_a_clock(ground: Ground) -> None:
    with ground.database() as one, ground.database() as other:
        before = other.clock.now()
        one.clock.advance(days=1)
        assert other.clock.now() == before


async def test_ids_are_uuids_of_version_7_on_every_postgres(every_ground: Ground) -> None:
    with every_ground.database() as database:
        async with database.connect() as connection:
            rows = await connection.fetch("select holdfast.uuid7() as id from generate_series(1, 1000)")
        milliseconds = int(database.clock.now().timestamp() * 1000)
    ids = {UUID(bytes=row["id"].bytes) for row in rows}
    assert len(ids) == 1000
    assert {id_.version for id_ in ids} == {7}
    assert {id_.variant for id_ in ids} == {RFC_4122}
    assert {id_.int >> 80 for id_ in ids} == {milliseconds}


async def test_an_id_made_later_sorts_later(database: Database, clock: Clock) -> None:
    async with database.connect() as connection:
        ids = []
        for _ in range(20):
            ids.append(await connection.fetchval("select holdfast.uuid7()"))
            clock.advance(seconds=0.001)
    assert ids == sorted(ids)


@pytest.mark.parametrize(
    "forbidden",
    [
        "select * from holdfast.migration",
        "update holdfast.test_clock set at = now()",
        "create table holdfast.mine ()",
        "create function holdfast.mine() returns int language sql as 'select 1'",
        "drop function holdfast.now()",
    ],
)
async def test_the_application_may_only_call_what_it_is_granted(database: Database, forbidden: str) -> None:
    async with database.connect() as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(forbidden)
        assert await connection.fetchval("select holdfast.now()")


async def test_a_stranger_may_call_nothing(database: Database) -> None:
    async with database.connect_owner() as owner, owner.transaction():
        await owner.execute("create role stranger")
        for call in ("now()", "uuid7()", "installed()"):
            assert not await owner.fetchval(
                "select has_function_privilege('stranger', $1, 'execute')", f"holdfast.{call}"
            )
        await owner.execute("drop role stranger")
