"""Bring a database's schema up to date: first the migrations, then all functions.

*Migrations* hold data: numbered files, applied once each in their order, never edited afterwards (their sha256 is
kept). Each runs in a transaction of its own. A file whose first line is `-- no transaction` holds one statement that
Postgres runs outside of one (`create index concurrently`) and that may be repeated: a crash between it and its record
repeats it.

*Functions* hold rules: every release brings all of them, `create or replace`, in one transaction; those it no longer
has are dropped. A process of an older release leaves the functions of a newer one alone, so that a rolling deploy does
not turn them back.

Any number of processes may start at once. The one that changes the schema holds a lock that lives in its transaction;
the others poll for it and hold nothing while they wait (one who waits inside a statement holds a snapshot, on which
`create index concurrently` waits in turn: a deadlock). It is no lock of the session, so it works through a pooler.
"""

import asyncio
import contextlib
import hashlib
import json
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg
from packaging.version import Version

from holdfast import __version__
from holdfast.backoff import jitter
from holdfast.errors import (
    MigrationBusy,
    MigrationChanged,
    MigrationFailed,
    MigrationFolderInvalid,
    MigrationForbidden,
)
from holdfast.postgres.connections import DRIVER_ERRORS, open_connection

LOCK = 0x686F6C6466617374  # "holdfast"

# What the ledger calls these packages, and its own column: other releases read and write the same ledger.
IN_THE_LEDGER = {"engine": "kernel", "approvals": "questions", "attention": "waiting"}
LEDGER = """
create schema if not exists holdfast;
create table if not exists holdfast.migration (
  room text not null,
  number int not null,
  name text not null,
  sha256 text not null,
  applied_at timestamptz not null default now(),
  primary key (room, number)
);
create table if not exists holdfast.release (
  single bool primary key default true check (single),
  version text not null,
  sha256 text not null,
  functions text[] not null,
  applied_at timestamptz not null default now()
);
"""


@dataclass(frozen=True)
class Migration:
    """One numbered file."""

    package: str
    number: int
    name: str
    sql: str

    @property
    def name_in_ledger(self) -> str:
        return IN_THE_LEDGER.get(self.package, self.package)

    @property
    def key(self) -> str:
        return f"{self.name_in_ledger}/{self.number}"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


@dataclass(frozen=True)
class Package:
    """The SQL of one package of the house: its migrations in order, its functions by file."""

    name: str
    migrations: tuple[Migration, ...]
    functions: Mapping[str, str]


@dataclass(frozen=True)
class Installed:
    """What a database has: the sha256 of each migration by its key, and the release its functions are of."""

    migrations: Mapping[str, str]
    version: str | None
    functions: str | None


def read_package(name: str, folder: Path) -> Package:
    """The package in `folder`: `migrations/0001_name.sql` ... and `sql/*.sql`. Raises MigrationFolderInvalid."""
    migrations = []
    for expected, path in enumerate(sorted((folder / "migrations").glob("*.sql")), start=1):
        found = re.fullmatch(r"(\d{4})_(\w+)", path.stem)
        if not found or int(found[1]) != expected:
            raise MigrationFolderInvalid(f"{path}: expected {expected:04}_name.sql here.")
        migrations.append(Migration(name, expected, path.stem, path.read_text()))
    functions = {path.stem: path.read_text() for path in sorted((folder / "sql").glob("*.sql"))}
    return Package(name, tuple(migrations), functions)


HOLDFAST = Path(__file__).parents[1]
ENGINE = read_package("engine", HOLDFAST / "engine")
FOLDERS = [at.parent for pattern in ("*", "lifecycles/*") for at in sorted(HOLDFAST.glob(f"{pattern}/sql"))]
# All packages that have SQL of their own: the engine, its neighbours, the lifecycles. None of them is imported.
PACKAGES = (ENGINE, *(read_package(folder.name, folder) for folder in FOLDERS if folder.name != ENGINE.name))


async def migrate(url: str, packages: Sequence[Package] = PACKAGES, *, patience_seconds: float = 300) -> list[str]:
    """Apply what is missing and return its names. Each step is whole or not at all.

    Raises a MigrationError; the steps before the failing one stay applied.
    """
    applied: list[str] = []
    deadline = time.monotonic() + patience_seconds
    async with open_connection(url) as connection:
        with name_the_failure("schema"):
            steps = await pending(connection, packages)
            while steps:
                try:
                    async with schema_lock(connection, deadline):
                        steps = plan(await read_ledger(connection), packages)
                        if steps:
                            await apply(connection, url, steps[0], packages)
                            applied.append(name_of(steps[0]))
                except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
                    await pause(deadline, "A table it must change is in use by long transactions.")
    return applied


async def pending(connection: asyncpg.Connection, packages: Sequence[Package] = PACKAGES) -> list[Migration | None]:
    """What `migrate` would do, asked without any lock and as any role. None stands for the functions."""
    if await connection.fetchval("select to_regprocedure('holdfast.installed()') is null"):
        return plan(Installed({}, None, None), packages)
    ledger = json.loads(await connection.fetchval("select holdfast.installed()"))
    return plan(Installed(ledger["migrations"], ledger["version"], ledger["functions"]), packages)


def plan(installed: Installed, packages: Sequence[Package]) -> list[Migration | None]:
    """The steps that are missing, in order; None stands for the functions. Raises MigrationChanged."""
    known = [migration for package in packages for migration in package.migrations]
    for migration in known:
        if installed.migrations.get(migration.key, migration.sha256) != migration.sha256:
            raise MigrationChanged(
                f"{migration.package}/{migration.name}.sql is not the file that this database was migrated with.",
                fix="Put the file back as it was and write what you want to change as a new migration.",
            )
    steps: list[Migration | None] = [step for step in known if step.key not in installed.migrations]
    ahead = installed.migrations.keys() - {step.key for step in known}
    newer = installed.version is not None and Version(installed.version) > Version(__version__)
    if installed.functions != digest(packages) and not ahead and not newer:
        steps.append(None)
    return steps


def digest(packages: Sequence[Package]) -> str:
    whole = json.dumps([[package.name, dict(package.functions)] for package in packages])
    return hashlib.sha256(whole.encode()).hexdigest()


async def read_ledger(connection: asyncpg.Connection) -> Installed:
    """What the ledger of migrations says; it is created if there is none."""
    if await connection.fetchval("select to_regclass('holdfast.release') is null"):
        await connection.execute(LEDGER)
    rows = await connection.fetch("select room || '/' || number as key, sha256 from holdfast.migration")
    release = await connection.fetchrow("select version, sha256 from holdfast.release")
    return Installed({row["key"]: row["sha256"] for row in rows}, *(release or (None, None)))


async def apply(connection: asyncpg.Connection, url: str, step: Migration | None, packages: Sequence[Package]) -> None:
    """Run one step and write it into the ledger, in the transaction of `connection`."""
    if step is None:
        await replace_functions(connection, packages)
        return
    with name_the_failure(name_of(step), step.sql):
        if step.sql.startswith("-- no transaction"):
            await apply_outside(connection, url, step)
        else:
            await connection.execute(step.sql)
    await connection.execute(
        "insert into holdfast.migration (room, number, name, sha256) values ($1, $2, $3, $4)",
        step.name_in_ledger, step.number, step.name, step.sha256,
    )  # fmt: skip


async def apply_outside(connection: asyncpg.Connection, url: str, step: Migration) -> None:
    """Run a statement that cannot run in a transaction, while `connection` keeps the lock in its own."""
    # What `connection` asked before may be an open portal with a snapshot, and the statement would wait for it.
    await connection.execute("close all")
    async with open_connection(url) as outside:
        # A `create index concurrently` that was cut off leaves an index that `if not exists` would take for a good one.
        broken = await outside.fetch(
            "select format('%I.%I', s.nspname, c.relname) as name from pg_index i"
            " join pg_class c on c.oid = i.indexrelid join pg_namespace s on s.oid = c.relnamespace"
            " where not i.indisvalid and s.nspname = 'holdfast' and c.relname !~ '_cc(new|old)\\d*$'"
        )
        for index in broken:
            await outside.execute(f"drop index concurrently if exists {index['name']}")
        await outside.execute(step.sql)


async def replace_functions(connection: asyncpg.Connection, packages: Sequence[Package]) -> None:
    """Create or replace every function, drop those that are gone, and let applications call what is for them.

    That is what runs with the rights of the owner (`security definer`) and is not a trigger: the verbs.
    """
    await connection.execute("set local check_function_bodies = off")  # files may call what a later file defines
    for package in packages:
        for name, sql in package.functions.items():
            with name_the_failure(f"{package.name}/sql/{name}", sql):
                await create_functions(connection, sql)
    # What this transaction made, or a savepoint in it, is not older than it: no list to keep in step with the files.
    mine = await connection.fetch(
        "select oid::regprocedure::text as signature, prosecdef and prorettype <> 'trigger'::regtype as is_verb"
        " from pg_proc"
        " where pronamespace = 'holdfast'::regnamespace and age(xmin) <= age(pg_current_xact_id()::xid)"
    )
    signatures = sorted(row["signature"] for row in mine)
    before = await connection.fetchval("select functions from holdfast.release") or []
    for signature in sorted(set(before) - set(signatures)):
        await connection.execute(f"drop function if exists {signature}")
    for change, functions in (
        ("revoke all on function {} from public", signatures),
        ("grant execute on function {} to holdfast_app", [row["signature"] for row in mine if row["is_verb"]]),
    ):
        if functions:
            await connection.execute(change.format(", ".join(functions)))
    await connection.execute(
        "insert into holdfast.release (version, sha256, functions) values ($1, $2, $3) on conflict (single) do update"
        " set version = excluded.version, sha256 = excluded.sha256, functions = excluded.functions, applied_at = now()",
        __version__, digest(packages), signatures,
    )  # fmt: skip


async def create_functions(connection: asyncpg.Connection, sql: str) -> None:
    """Run a file of functions. What `create or replace` cannot replace, since its parameters have other names or its
    result other columns, is dropped first; Postgres names it."""
    while True:
        try:
            async with connection.transaction():
                await connection.execute(sql)
            return
        except asyncpg.InvalidFunctionDefinitionError as error:
            former = re.search(r"DROP FUNCTION (holdfast\..+\))", error.hint or "")
            if former is None:
                raise
            await connection.execute(f"drop function {former[1]}")


@contextlib.asynccontextmanager
async def schema_lock(connection: asyncpg.Connection, deadline: float) -> AsyncIterator[None]:
    """A transaction that alone may change the schema. Waits for no table longer than a second."""
    while True:
        transaction = connection.transaction()
        await transaction.start()
        if await connection.fetchval("select pg_try_advisory_xact_lock($1)", LOCK):
            break
        await transaction.rollback()
        await pause(deadline, "Another process is changing it.")
    try:
        # No schema on the path: names in the files are whole, and signatures are written whole.
        await connection.execute("set local lock_timeout = '1s'; set local search_path = pg_catalog, pg_temp")
        yield
    except BaseException:
        if not connection.is_closed():
            await transaction.rollback()
        raise
    await transaction.commit()


async def pause(deadline: float, why: str) -> None:
    if time.monotonic() > deadline:
        raise MigrationBusy(
            why, fix="Look into pg_stat_activity for who holds it, then run `holdfast db migrate` again."
        )
    await asyncio.sleep(jitter(0.1, 0.5))


@contextlib.contextmanager
def name_the_failure(what: str, sql: str = "") -> Iterator[None]:
    """Name what failed, with the line in which Postgres found the mistake."""
    try:
        yield
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
        raise
    except asyncpg.InsufficientPrivilegeError as error:
        raise MigrationForbidden(
            f"{what}: {error}.",
            fix="Run `holdfast db migrate` once with HOLDFAST_URL set to a role that may create schemas and roles, "
            "then grant holdfast_app to the role of the application.",
        ) from error
    except DRIVER_ERRORS as error:
        position = getattr(error, "position", None)
        line = f", line {sql.count(chr(10), 0, int(position)) + 1}" if sql and position else ""
        raise MigrationFailed(
            f"{what}{line}: {str(error) or type(error).__name__}",
            fix="What was applied before stays; mend it and run again.",
        ) from error


def name_of(step: Migration | None) -> str:
    return f"{step.package}/{step.name}" if step else "functions"
