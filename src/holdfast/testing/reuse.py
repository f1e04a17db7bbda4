"""Restore a test database to what it was before the test, so that the next test can use it.

Restoring costs a fraction of a new copy (`python -m bench clone`). It is done only if nothing but rows has changed:
after a change of a table, a function, a grant or a setting the caller has to drop the database. Users' own tables are
compared and restored like ours.

Dead rows, planner statistics, transaction numbers and the order of rows on disk are not restored. So a database serves
a limited number of tests, and a test of plans takes `Ground.fresh_database`.
"""

import asyncio
from dataclasses import dataclass
from io import BytesIO
from uuid import UUID

import asyncpg

rows_restored_at_most = 2000
"""Above that a new copy is cheaper than the delete."""
sessions_end_within_ms = 200
"""A session whose client has gone is listed for a moment yet."""

CATALOGS = """
select c.relname from pg_catalog.pg_class c
where c.relnamespace = 'pg_catalog'::regnamespace and c.relkind = 'r' and not c.relisshared order by c.relname
"""

# xmin is the transaction that wrote a row: as many rows and no newer one, so nothing was created, altered or dropped.
OF_CATALOG = """(
select array[count(*), age('3'::xid) - nullif(min(age(xmin)), 2147483647)]::bigint[] from pg_catalog.{})"""

OF_DATABASE = """coalesce((
  select string_agg(s::text, ';' order by s::text) from pg_catalog.pg_db_role_setting s
  where s.setdatabase in (0, d.oid)), '')
  || row(d.datacl, d.datconnlimit, d.datallowconn, d.datistemplate, d.dattablespace, d.datdba)::text
  || coalesce((select string_agg(u.subname, ';' order by u.oid) from pg_subscription u where u.subdbid = d.oid), '')
  || coalesce(shobj_description(d.oid, 'pg_database'), '')
from pg_catalog.pg_database d where d.datname = current_database()"""

RELATIONS = """
select n.nspname as schema, c.relname as name, c.oid::regclass::text as quoted, c.relkind = 'S' as is_sequence
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'S') and c.relpersistence <> 't'
and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
order by c.oid
"""

OTHER_SESSIONS = """
select exists (
  select from pg_catalog.pg_stat_activity a
  where a.datname = current_database() and a.backend_type in ('client backend', 'parallel worker')
  and a.pid <> pg_backend_pid() and a.pid <> all ($1::int[]))
"""

RESET = """
close all; set session authorization default; reset all; unlisten *; select pg_advisory_unlock_all();
discard temp; discard sequences;
do $$ declare prepared text; begin
  for prepared in select name from pg_prepared_statements where from_sql loop
    execute format('deallocate %I', prepared);
  end loop;
end $$
"""
"""Those that the driver has prepared stay."""

AT_LOGIN = """
select coalesce(string_agg(s.name || '=' || s.setting, ';' order by s.name), '') from pg_catalog.pg_settings s
where s.source in ('database', 'user', 'database user')
"""
"""What a session was given when it began, and goes back to with RESET ALL."""

IS_OURS = "select exists (select from holdfast.test_clock where run = $1) and current_database() = $2"


@dataclass
class Relation:
    """A table with its rows, or a sequence with where it stands."""

    schema: str
    name: str
    quoted: str
    is_sequence: bool
    digest: str = ""
    rows: bytes = b""

    @property
    def digest_query(self) -> str:
        """A subquery for its digest."""
        if self.is_sequence:
            return f"(select (last_value || ',' || is_called) from {self.quoted})"
        return (
            "(select count(*) || ',' || coalesce(sum(hashtextextended((\"a row\".*)::text, 0)), 0)"
            f' from only {self.quoted} as "a row")'
        )

    async def restore(self, connection: asyncpg.Connection) -> int:
        """Returns how many rows were deleted."""
        if self.is_sequence:
            value, was_called = self.digest.split(",")
            await connection.execute(f"select setval('{self.quoted}', {value}, {was_called})")
            return 0
        done: str = await connection.execute(f"delete from only {self.quoted}")
        if not self.digest.startswith("0,"):
            await connection.copy_to_table(
                self.name, schema_name=self.schema, source=BytesIO(self.rows), format="binary"
            )
        return int(done.removeprefix("DELETE "))


@dataclass
class Snapshot:
    """What databases like one template hold before their first test."""

    relations: list[Relation]
    digests: str
    """A query for the digests of all relations."""
    fingerprint: str
    """A query for all of the schema and the settings, as one text, which is compared with that of the same database
    before its first test."""

    @classmethod
    async def of(cls, connection: asyncpg.Connection) -> "Snapshot":
        relations = [Relation(**row) for row in await connection.fetch(RELATIONS)]
        digests = f"select array[{', '.join(one.digest_query for one in relations)}]::text[]"
        for one, digest in zip(relations, await connection.fetchval(digests), strict=True):
            one.digest = digest
            if not one.is_sequence:
                rows = BytesIO()
                await connection.copy_from_table(one.name, schema_name=one.schema, output=rows, format="binary")
                one.rows = rows.getvalue()
        catalogs = [OF_CATALOG.format(row["relname"]) for row in await connection.fetch(CATALOGS)]
        return cls(relations, digests, f"select array[{', '.join(catalogs)}]::text || {OF_DATABASE}")

    async def restore(
        self, connection: asyncpg.Connection, *, run: UUID, database: str, fingerprint: str, kept: list[int]
    ) -> bool:
        """Restore the database. False if more than rows changed, or if sessions other than those kept are connected.

        Deletes nothing unless this session is in the database of that name and finds the run's mark there.
        """
        await connection.execute(RESET)
        if not await connection.fetchval(IS_OURS, run, database):
            return False
        if not await is_alone(connection, kept):
            return False
        async with connection.transaction():
            await connection.execute("set local session_replication_role = replica")
            if await connection.fetchval(self.fingerprint) != fingerprint:
                return False
            changed = await self._changed_relations(connection)
            deleted = 0
            for one in changed:
                deleted += await one.restore(connection)
                if deleted > rows_restored_at_most:
                    return False
            return not (changed and await self._changed_relations(connection))

    async def _changed_relations(self, connection: asyncpg.Connection) -> list[Relation]:
        digests = await connection.fetchval(self.digests)
        return [one for one, digest in zip(self.relations, digests, strict=True) if one.digest != digest]


async def is_alone(connection: asyncpg.Connection, kept: list[int]) -> bool:
    """Whether all other sessions have ended, if only just. The owner of one that has not could come back."""
    for _ in range(sessions_end_within_ms // 10):
        if not await connection.fetchval(OTHER_SESSIONS, kept):
            return True
        await asyncio.sleep(0.01)
    return False
