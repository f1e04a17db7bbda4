"""However a database came to its schema, and however many brought it there at once, it is the same schema."""

import asyncio
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from holdfast import __version__
from holdfast.errors import (
    MigrationBusy,
    MigrationChanged,
    MigrationFailed,
    MigrationFolderInvalid,
    MigrationForbidden,
)
from holdfast.postgres.embedded import find_binaries
from holdfast.postgres.migrate import ENGINE, LOCK, PACKAGES, Package, migrate, pending, read_package
from holdfast.testing import Database, Ground

STEPS = {
    "0001_shelf": "create table holdfast.shelf (id int primary key, label text);",
    "0002_rows": "insert into holdfast.shelf select n, 'row ' || n from generate_series(1, 1000) n;",
    "0003_index": "-- no transaction\ncreate index concurrently if not exists shelf_label on holdfast.shelf (label);",
    "0004_column": "alter table holdfast.shelf add column at timestamptz not null default holdfast.now();",
}
FUNCTIONS = {
    "count": "create or replace function holdfast.shelf_count() returns bigint language sql stable security definer"
    " as 'select count(*) from holdfast.shelf';"
    " grant execute on function holdfast.shelf_count() to holdfast_app;",
}
STEPS_OF_ALL = [f"{package.name}/{step.name}" for package in PACKAGES for step in package.migrations]


@pytest.fixture
def library(tmp_path: Path) -> Package:
    """A second package with several migrations, one of which cannot run in a transaction."""
    return write_package(tmp_path / "library", STEPS, FUNCTIONS)


def write_package(folder: Path, steps: dict[str, str], functions: dict[str, str]) -> Package:
    for kind, files in (("migrations", steps), ("sql", functions)):
        (folder / kind).mkdir(parents=True)
        for name, sql in files.items():
            (folder / kind / f"{name}.sql").write_text(sql)
    return read_package("library", folder)


def dump(database: Database) -> str:
    """The whole schema and the books, as text that two databases can be compared by."""
    binaries = database.ground.server.bindir or find_binaries(database.ground.server.home)
    command: list[str | Path] = [binaries / "pg_dump", "--schema-only", f"--dbname={database.owner_url}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    books = database.ask_owner(
        "select json_agg((room, number, name, sha256) order by room, number) from holdfast.migration"
    )
    release = database.ask_owner("select (version, sha256, functions)::text from holdfast.release")
    return "\n".join(
        [*(line for line in text.splitlines() if not re.match(r"\\(un)?restrict|--", line)), books, release]
    )


async def cut_off(database: Database, migrating: asyncio.Task[list[str]], where: str) -> None:
    """Kill the connection of a migration once it is found in this situation."""
    query = (
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        f" where datname = current_database() and pid <> pg_backend_pid() and {where}"
    )
    while not database.ask_owner(query):
        await asyncio.wait([migrating], timeout=0.02)
        assert not migrating.done(), "it was over before it could be cut off"


async def test_migrating_step_by_step_equals_a_fresh_schema(ground: Ground, library: Package) -> None:
    packages = [ENGINE, library]
    with ground.empty_database() as fresh:
        await migrate(fresh.owner_url, packages)
        expected = dump(fresh)
    with ground.empty_database() as grown:
        for count in range(len(ENGINE.migrations) + 1):
            await migrate(grown.owner_url, [replace(ENGINE, migrations=ENGINE.migrations[:count], functions={})])
        for count in range(len(library.migrations) + 1):
            part = replace(library, migrations=library.migrations[:count], functions={})
            await migrate(grown.owner_url, [ENGINE, part])
        assert await migrate(grown.owner_url, packages) == ["functions"]
        assert dump(grown) == expected


BEFORE_THE_INBOX = """
set session_replication_role = replica;
insert into holdfast.queue (name) values ('q');
insert into holdfast.lifecycle (
  name, version, definition, queue, max_attempts, crash_budget, backoff, backoff_most, rate_wait)
values ('old', 1, '{}', 'q', 1, 1, '1s', '1s', '1s');
insert into holdfast.task_done (id, lifecycle, name, owner, state, from_state, actor, queue, max_attempts, outcome)
select 'a0000000-0000-7000-8000-000000000000', l.id, 'mail', 'ada', 'DEAD', 'RUN', 'nobody', 'q', 1, 'failed'
from holdfast.lifecycle l;
insert into holdfast.inbox (task_id, category, signature, error, resolved_at, resolved_by, resolution, note) values
  ('a0000000-0000-7000-8000-000000000000', 'Fatal', 'one', '{"step": "sent"}', null, null, null, null),
  ('b0000000-0000-7000-8000-000000000000', 'Fatal', 'two', null, now(), 'ada', 'retried',
   'Retried as c0000000-0000-7000-8000-000000000000.'),
  ('b0000000-0000-7000-8000-000000000000', 'Fatal', 'three', null, now(), 'ada', 'resolved', 'known');
"""


async def test_inbox_entries_of_before_are_kept_and_filled(empty_database: Database) -> None:
    await migrate(empty_database.owner_url, [replace(ENGINE, migrations=ENGINE.migrations[:6], functions={})])
    async with empty_database.connect_owner() as owner:
        await owner.execute(BEFORE_THE_INBOX)
    await migrate(empty_database.owner_url, [ENGINE])
    async with empty_database.store() as store:
        found = {entry.signature: entry for entry in (await store.inbox.page(handled="all")).items}
    one, two, three = (found[name] for name in ("one", "two", "three"))
    assert (one.lifecycle, one.name, one.owner, one.state, one.step) == ("old", "mail", "ada", "RUN", "sent")
    assert (two.name, str(two.retried_as)) == (None, "c0000000-0000-7000-8000-000000000000")
    assert (three.resolution, three.note, three.retried_as) == ("resolved", "known", None)


async def test_the_second_start_changes_nothing(empty_database: Database) -> None:
    assert await migrate(empty_database.owner_url) == [*STEPS_OF_ALL, "functions"]
    before = dump(empty_database)
    assert await migrate(empty_database.owner_url) == []
    assert dump(empty_database) == before


async def test_three_starters_at_once_end_well_on_every_postgres(every_ground: Ground, library: Package) -> None:
    packages = [ENGINE, library]
    everything = [f"engine/{step.name}" for step in ENGINE.migrations] + [f"library/{name}" for name in STEPS]
    for _ in range(3):
        with every_ground.empty_database() as database:
            applied = await asyncio.gather(*(migrate(database.owner_url, packages) for _ in range(3)))
            assert sorted(name for one in applied for name in one) == sorted([*everything, "functions"])
            async with database.connect() as connection:
                assert await connection.fetchval("select holdfast.shelf_count()") == 1000
                assert await pending(connection, packages) == []
            assert database.ask_owner(
                "select indisvalid from pg_index where indexrelid = 'holdfast.shelf_label'::regclass"
            )


@pytest.mark.deep
async def test_three_processes_at_once_end_well_on_every_postgres(every_ground: Ground) -> None:
    with every_ground.empty_database() as database:
        environment = {**os.environ, "HOLDFAST_URL": database.owner_url}
        command = [sys.executable, "-m", "holdfast", "db", "migrate", "--json"]
        starters = [
            await asyncio.create_subprocess_exec(
                *command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            for _ in range(3)
        ]
        answers = [await starter.communicate() for starter in starters]
        assert [starter.returncode for starter in starters] == [0, 0, 0], answers
        applied = [name for out, _ in answers for name in json.loads(out)["applied"]]
        assert sorted(applied) == sorted([*STEPS_OF_ALL, "functions"])


async def test_an_edited_migration_is_refused(empty_database: Database, library: Package) -> None:
    await migrate(empty_database.owner_url, [ENGINE, library])
    before = dump(empty_database)
    edited = replace(library.migrations[1], sql="drop table holdfast.shelf;")
    tampered = replace(library, migrations=(library.migrations[0], edited, *library.migrations[2:]))
    with pytest.raises(MigrationChanged, match=r"library/0002_rows\.sql"):
        await migrate(empty_database.owner_url, [ENGINE, tampered])
    assert dump(empty_database) == before
    assert await migrate(empty_database.owner_url, [ENGINE, library]) == []


async def test_a_failing_migration_leaves_the_steps_before_it(empty_database: Database, tmp_path: Path) -> None:
    steps = {**STEPS, "0005_broken": "create table holdfast.half (id int);\n\nselect nonsense;"}
    broken = write_package(tmp_path / "broken", steps, {})
    with pytest.raises(MigrationFailed, match=r'library/0005_broken, line 3: column "nonsense" does not exist'):
        await migrate(empty_database.owner_url, [ENGINE, broken])
    assert empty_database.ask_owner("select to_regclass('holdfast.half')") is None
    assert empty_database.ask_owner("select max(number) from holdfast.migration where room = 'library'") == 4
    mended = write_package(tmp_path / "mended", {**STEPS, "0005_broken": "create table holdfast.half (id int);"}, {})
    assert await migrate(empty_database.owner_url, [ENGINE, mended]) == ["library/0005_broken", "functions"]


async def test_a_starter_that_dies_in_a_migration_leaves_nothing_half_done(
    empty_database: Database, tmp_path: Path
) -> None:
    slow = write_package(tmp_path / "slow", {"0001_slow": "create table holdfast.half ();\nselect pg_sleep(60);"}, {})
    first = asyncio.create_task(migrate(empty_database.owner_url, [ENGINE, slow]))
    await cut_off(empty_database, first, "wait_event = 'PgSleep'")
    with pytest.raises(MigrationFailed, match="library/0001_slow"):
        await first
    assert empty_database.ask_owner("select to_regclass('holdfast.half')") is None
    quick = write_package(tmp_path / "quick", {"0001_slow": "create table holdfast.half ();"}, {})
    assert await migrate(empty_database.owner_url, [ENGINE, quick]) == ["library/0001_slow", "functions"]


async def test_functions_that_a_release_no_longer_has_are_dropped(empty_database: Database, tmp_path: Path) -> None:
    def answer(parameters: str) -> str:
        return f"create or replace function holdfast.answer({parameters}) returns int language sql as 'select 42';"

    def functions() -> object:
        return empty_database.ask_owner(
            "select array_agg(format('%s(%s)', proname, pg_get_function_identity_arguments(oid)) order by 1)"
            " from pg_proc where pronamespace = 'holdfast'::regnamespace and proname in ('answer', 'other')"
        )

    old = write_package(
        tmp_path / "old", {}, {"answer": answer("a int"), "other": answer("").replace("answer", "other")}
    )
    await migrate(empty_database.owner_url, [ENGINE, old])
    assert functions() == ["answer(a integer)", "other()"]
    new = write_package(tmp_path / "new", {}, {"answer": answer("a text")})
    assert await migrate(empty_database.owner_url, [ENGINE, new]) == ["functions"]
    assert functions() == ["answer(a text)"]


async def test_a_function_with_other_parameter_names_or_another_result_is_replaced(
    empty_database: Database, tmp_path: Path
) -> None:
    def answer(parameters: str, result: str) -> str:
        return (
            f"create or replace function holdfast.answer({parameters}) returns {result} language sql as 'select 42';"
            "grant execute on function holdfast.answer(int) to holdfast_app;"
        )

    for release, sql in enumerate((answer("told int", "int"), answer("given int", "table (number int)"))):
        package = write_package(tmp_path / str(release), {}, {"answer": sql})
        assert "functions" in await migrate(empty_database.owner_url, [ENGINE, package])
        assert await migrate(empty_database.owner_url, [ENGINE, package]) == []
    async with empty_database.connect() as connection:
        assert await connection.fetchval("select number from holdfast.answer(given => 1)") == 42


async def test_what_is_not_granted_nobody_may_call(empty_database: Database, tmp_path: Path) -> None:
    secret = "create or replace function holdfast.secret() returns int language sql as 'select 42';"
    await migrate(empty_database.owner_url, [ENGINE, write_package(tmp_path / "secret", {}, {"secret": secret})])
    async with empty_database.connect() as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetchval("select holdfast.secret()")


async def test_a_process_of_an_older_release_leaves_newer_functions_alone(
    empty_database: Database, library: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.postgres.migrate.__version__", "99.0.0")
    await migrate(empty_database.owner_url, [ENGINE, library])
    monkeypatch.setattr("holdfast.postgres.migrate.__version__", __version__)
    assert await migrate(empty_database.owner_url, [ENGINE, replace(library, functions={})]) == []
    assert empty_database.ask_owner("select holdfast.shelf_count()") == 1000


async def test_a_database_that_is_ahead_is_left_alone(empty_database: Database, library: Package) -> None:
    await migrate(empty_database.owner_url, [ENGINE, library])
    behind = replace(library, migrations=library.migrations[:2], functions={})
    assert await migrate(empty_database.owner_url, [ENGINE, behind]) == []


async def test_the_application_may_start_on_a_schema_that_is_up_to_date(database: Database) -> None:
    assert await migrate(database.url) == []


async def test_the_application_may_not_migrate(ground: Ground, database: Database, library: Package) -> None:
    with pytest.raises(MigrationForbidden, match="holdfast db migrate"):
        await migrate(database.url, [ENGINE, library])
    with ground.empty_database() as empty, pytest.raises(MigrationForbidden, match="grant holdfast_app"):
        await migrate(empty.url)


async def test_a_migration_gives_way_to_those_who_use_the_table(empty_database: Database, library: Package) -> None:
    await migrate(empty_database.owner_url, [ENGINE, replace(library, migrations=library.migrations[:3])])
    async with empty_database.connect_owner() as user, empty_database.connect_owner() as other:
        transaction = user.transaction()
        await transaction.start()
        await user.execute("select * from holdfast.shelf limit 1")
        with pytest.raises(MigrationBusy, match="long transactions"):
            await migrate(empty_database.owner_url, [ENGINE, library], patience_seconds=0)
        waiting = asyncio.create_task(migrate(empty_database.owner_url, [ENGINE, library]))
        while not await other.fetchval("select count(*) from pg_locks where not granted and locktype = 'relation'"):
            await asyncio.wait([waiting], timeout=0.02)
            assert not waiting.done()
        assert await other.fetchval("select count(*) from holdfast.shelf") == 1000  # behind the migration, yet served
        assert not waiting.done()
        await transaction.commit()
    assert await waiting == ["library/0004_column"]


async def test_an_index_that_was_cut_off_is_built_anew(empty_database: Database, library: Package) -> None:
    await migrate(empty_database.owner_url, [ENGINE, replace(library, migrations=library.migrations[:2], functions={})])
    async with empty_database.connect_owner() as writer:
        transaction = writer.transaction()
        await transaction.start()
        await writer.execute("insert into holdfast.shelf values (0, 'open')")
        building = asyncio.create_task(migrate(empty_database.owner_url, [ENGINE, library]))
        await cut_off(empty_database, building, "query ~ 'concurrently' and wait_event_type = 'Lock'")
        with pytest.raises(MigrationFailed, match="library/0003_index"):
            await building
        await transaction.commit()
    valid = "select indisvalid from pg_index where indexrelid = 'holdfast.shelf_label'::regclass"
    assert empty_database.ask_owner(valid) is False
    assert "library/0003_index" in await migrate(empty_database.owner_url, [ENGINE, library])
    assert empty_database.ask_owner(valid) is True


async def test_a_connection_lost_while_waiting_is_reported(empty_database: Database) -> None:
    async with empty_database.connect_owner() as other, other.transaction():
        await other.execute(f"select pg_advisory_xact_lock({LOCK})")
        waiting = asyncio.create_task(migrate(empty_database.owner_url))
        await cut_off(empty_database, waiting, "query ~ 'pg_try_advisory_xact_lock|ROLLBACK'")
        with pytest.raises(MigrationFailed, match="run again"):
            await waiting
    assert await migrate(empty_database.owner_url)


async def test_a_newer_release_may_say_more_of_what_is_installed(database: Database) -> None:
    database.ask_owner(
        "create or replace function holdfast.installed() returns jsonb language sql security definer as $$ select"
        """ '{"migrations": {"engine/99": "x"}, "version": "99.0", "functions": "x", "more": 1}'::jsonb $$"""
    )
    async with database.connect() as connection:
        assert None not in await pending(connection)


async def test_the_owner_of_the_schema_needs_no_right_on_the_database(
    empty_database: Database, library: Package
) -> None:
    await migrate(empty_database.owner_url, [ENGINE])
    async with empty_database.connect_owner() as owner:
        await owner.execute("create role keeper")
        try:
            await owner.execute(
                "alter schema holdfast owner to keeper;"
                "do $$ declare what text; begin"
                "  for what in select format('table holdfast.%I', relname) from pg_class"
                "      where relnamespace = 'holdfast'::regnamespace and relkind in ('r', 'p', 'v')"
                "    union all select format('type holdfast.%I', typname) from pg_type"
                "      where typnamespace = 'holdfast'::regnamespace and typtype = 'e'"
                "    union all select format('function %s', oid::regprocedure) from pg_proc"
                "      where pronamespace = 'holdfast'::regnamespace"
                "  loop execute format('alter %s owner to keeper', what); end loop; end $$;"
                f"alter role keeper in database {empty_database.name} set search_path = public"
            )
            as_owner = empty_database.owner_url + "&options=-c%20role%3Dkeeper"
            assert len(await migrate(as_owner, [ENGINE, replace(library, migrations=library.migrations[:2])])) == 3
        finally:
            await owner.execute("reassign owned by keeper to holdfast; drop owned by keeper; drop role keeper")


async def test_another_process_at_work_is_waited_for_and_then_named(empty_database: Database) -> None:
    async with empty_database.connect_owner() as other, other.transaction():
        await other.execute(f"select pg_advisory_xact_lock({LOCK})")
        with pytest.raises(MigrationBusy, match="Another process"):
            await migrate(empty_database.owner_url, patience_seconds=0.1)
    assert await migrate(empty_database.owner_url)


@pytest.mark.parametrize("name", ["0003_gap", "0001_twice", "2_short", "0002-dash", "words"])
def test_a_folder_that_is_no_sequence_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(MigrationFolderInvalid, match=name):
        write_package(tmp_path, {"0001_first": "select 1", name: "select 1"}, {})


async def test_packages_that_were_renamed_keep_their_names_in_the_ledger(empty_database: Database) -> None:
    await migrate(empty_database.owner_url)
    names = set(empty_database.ask_owner("select array_agg(distinct room) from holdfast.migration"))
    assert names >= {"kernel", "questions"}
    assert names.isdisjoint({"engine", "approvals"})
