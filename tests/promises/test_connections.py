"""The store between Python and Postgres: on every version, through a pooler, over deadlocks and lost connections."""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import pytest

from holdfast.engine.store import calls
from holdfast.engine.store.calls import RELEASING
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Failed, Later, Submission
from holdfast.errors import DatabaseForbidden, DatabaseUnreachable, SchemaMissing
from holdfast.postgres.connections import Address, close_connection, first_connection, open_pool
from holdfast.testing import Database, Ground
from holdfast.testing.ground import KEPT
from tests.promises.stage import MINUTE, state_of, submit, take, take_one, until_somebody_waits_for_a_lock


async def live(store: Store, database: Database) -> None:
    """A bit of everything, and the proof that it holds."""
    run, item, *rest = [one.id for one in await store.submit(
        Submission(lifecycle="ingest"), Submission(lifecycle="ingest_item", parent=0),
        Submission("a", limit_key="k"), Submission("b", limit_key="k"), Submission("c", after=[2, 3]),
    )]  # fmt: skip
    assert run is not None
    assert item is not None
    lease = await take_one(store, "ingest_item")
    for state in ("FETCHED", "CONTENT_EXTRACTED", "PERSISTED", "INDEXED"):
        await store.keep(lease, state, {"state": state}, to=state)
    await store.heartbeat([lease], lasting=MINUTE, progress={item: {"done": 4}})
    assert (await store.finish(lease, Done())).state == "DONE"
    assert await state_of(store, run) == "COMPLETED"
    await store.finish(await take_one(store), Failed("Transient", "no"))
    await store.finish(await take_one(store), Later(timedelta(seconds=5)))
    for _ in range(6):
        database.clock.advance(minutes=2)
        await store.sweep()
        await store.settle(*((lease, Done()) for lease in await take(store, n=10)))
    assert {await state_of(store, task) for task in rest if task} == {"Completed"}
    assert await store.verify() == []
    assert await store.make_partitions(1) > 0
    await submit(store)
    assert await store.verify() == []


async def test_the_kernel_works_on_every_postgres(every_ground: Ground) -> None:
    with every_ground.database() as database:
        async with database.store() as store:
            await live(store, database)


async def test_a_task_commits_or_vanishes_with_the_callers_transaction(store: Store, database: Database) -> None:
    async with database.connect() as connection:
        for commit in (False, True):
            transaction = connection.transaction()
            await transaction.start()
            task = await submit(Store(connection))
            assert await take(store) == []
            await (transaction.commit() if commit else transaction.rollback())
        assert (await take_one(store)).task_id == task


class Hole:
    """A way to a server. On the first `lost` connections nothing arrives any more, and nothing is closed."""

    def __init__(self, host: str, port: int) -> None:
        self.to = (host, port)
        self.lost = 0
        self.made = 0
        self.port = 0
        self._ends: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "Hole":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for end in self._ends:
            end.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.made
        self.made += 1
        there, back = await asyncio.open_connection(*self.to)
        self._ends += [writer, back]

        async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                while data := await source.read(65536):
                    if number < self.lost:
                        await asyncio.Event().wait()
                    target.write(data)
            target.close()

        carrying = [asyncio.ensure_future(carry(*way)) for way in ((reader, back), (there, writer))]
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*carrying)


async def test_an_answer_that_never_comes_costs_neither_the_caller_nor_the_pool(database: Database) -> None:
    url = urlsplit(database.ground.server.url(database=database.name))
    async with Hole("127.0.0.1", url.port or 5432) as hole:
        address = Address(given=url.geturl().replace(f":{url.port}/", f":{hole.port}/"))
        async with open_pool(address, connections=1) as pool:
            store = Store(pool, answer_within_seconds=2.0)
            await store.now()
            hole.lost = hole.made
            task = await submit(store, key="once")
            assert (await take_one(store)).task_id == task
            hole.lost = hole.made
            with pytest.raises(DatabaseUnreachable, match="No answer came in time"):
                await take(store)
            assert await state_of(store, task) == "Running"


async def test_whoever_stops_waiting_is_not_held_up_by_a_dead_connection(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "release_within_seconds", 5.0)
    url = urlsplit(database.ground.server.url(database=database.name))
    async with Hole("127.0.0.1", url.port or 5432) as hole:
        address = Address(given=url.geturl().replace(f":{url.port}/", f":{hole.port}/"))
        async with open_pool(address, connections=2) as pool:
            store = Store(pool)
            await store.now()
            hole.lost = hole.made
            began = time.monotonic()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await store.now()
            assert await store.now(), "by another connection"
            assert time.monotonic() - began < 5
            await asyncio.gather(*RELEASING)
            assert pool.get_size() == 1, "the dead one was given up"


async def test_a_deadlock_is_not_the_callers_worry(store: Store, database: Database) -> None:
    await store.submit(Submission("a"), Submission("b"))
    first, second = sorted(await take(store, n=2), key=lambda lease: lease.task_id)
    lock = "select from holdfast.task where id = $1 for update"
    async with database.connect_owner() as owner:
        await owner.execute("set deadlock_timeout = '10min'")  # the other one is to notice, and to be the victim
        transaction = owner.transaction()
        await transaction.start()
        await owner.execute(lock, second.task_id)
        settling = asyncio.create_task(store.settle((first, Done()), (second, Done())))
        await until_somebody_waits_for_a_lock(owner)
        await owner.execute(lock, first.task_id)
        await transaction.commit()
        assert [one.status for one in await settling] == ["ok", "ok"]


async def test_a_connection_that_is_lost_is_not_the_callers_worry(store: Store, database: Database) -> None:
    task = await submit(store, key="once")
    for lost in range(5):
        database.ask_owner(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = $1"
            " and usename = 'holdfast_app'",
            database.name,
        )
        assert await submit(store, key="once") == task, lost
    lease = await take_one(store)
    await store.finish(lease, Done())


async def test_a_server_that_stays_away_is_named(tmp_path: Path) -> None:
    pool = await asyncpg.create_pool("postgresql://nobody@127.0.0.1:1/none", min_size=0, max_size=1)
    with pytest.raises(DatabaseUnreachable):
        await Store(pool).submit(Submission("work"))
    await pool.close()


async def test_a_database_without_the_schema_says_what_to_run(empty_database: Database) -> None:
    async with empty_database.connect() as connection:
        with pytest.raises(SchemaMissing, match="holdfast db migrate"):
            await Store(connection).sweep()


async def test_a_role_without_the_right_says_what_to_grant(database: Database) -> None:
    async with database.connect_owner() as owner:
        await owner.execute(f"create role stranger_{database.name}; set role stranger_{database.name}")
        try:
            with pytest.raises(DatabaseForbidden, match="grant holdfast_app"):
                await Store(owner).sweep()
        finally:
            await owner.execute(f"reset role; drop role stranger_{database.name}")


@contextlib.contextmanager
def pooler(target: str, mode: str = "transaction") -> Iterator[str]:
    """pgbouncer in this mode before `target`, with fewer server connections than its clients have."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if not program:
        pytest.skip("pgbouncer is not installed")
    server = urlsplit(target)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        config = Path(folder, "pgbouncer.ini")
        config.write_text(
            f"[databases]\ntest = host={server.hostname} port={server.port} dbname={server.path[1:]}"
            f" user={server.username} password={server.password}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\n"
            f"pool_mode = {mode}\ndefault_pool_size = 3\nunix_socket_dir =\nlogfile =\npidfile =\n"
        )
        config.chmod(0o644)
        command = [program, *(["-u", "nobody"] if os.getuid() == 0 else []), str(config)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                yield f"postgresql://any@127.0.0.1:{port}/test"
            finally:
                process.terminate()


async def answers(url: str) -> None:
    while True:
        with contextlib.suppress(DatabaseUnreachable):
            assert await first_connection(url) is None
            return


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_the_kernel_works_through_a_pooler(ground: Ground, database: Database, mode: str) -> None:
    with pooler(ground.server.url(database=database.name), mode) as url:
        await answers(url)
        async with open_pool(Address(given=url), connections=8) as pool:
            store = Store(pool)
            await live(store, database)
            await store.submit(*(Submission("work") for _ in range(200)))

            async def work(worker: str) -> int:
                done = 0
                while leases := await take(store, n=5, worker=worker):
                    done += len(await store.settle(*((lease, Done()) for lease in leases)))
                return done

            assert sum(await asyncio.gather(*(work(f"worker-{n}") for n in range(8)))) == 201
            assert await store.verify() == []


async def test_a_direct_connection_is_distinguished_from_a_pooler(database: Database) -> None:
    connection = await first_connection(database.url)
    assert connection is not None
    await close_connection(connection)


async def test_opening_costs_one_connection_and_it_serves_the_first_call(database: Database) -> None:
    asked = (
        "select array_agg(pid) from pg_stat_activity where datname = current_database() and usename = 'holdfast_app'"
        " and application_name <> $1"
    )
    async with open_pool(Address(given=database.url)) as pool:
        (first,) = database.ask_owner(asked, KEPT["application_name"])
        await Store(pool).submit(Submission("work"))
        assert database.ask_owner(asked, KEPT["application_name"]) == [first]


async def test_arrays_are_carried_though_their_types_are_asked_for_once(database: Database) -> None:
    for _ in range(2):
        async with database.connect() as connection:
            assert await connection.fetchval("select $1::uuid[] || $2::uuid[]", [UUID(int=1)], []) == [UUID(int=1)]
            assert await connection.fetchval("select $1::text[]", ["a", None]) == ["a", None]
            lease = await connection.fetchval("select null::holdfast.lease")
            assert lease is None
