"""A task made in the caller's own transaction: it commits or vanishes with the caller's rows.

Every driver calls the same SQL function. Which driver it is, the connection's class shows, so none of them has to be
installed.
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import asyncpg
import asyncpg.pool

from holdfast.engine.store import encode
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Submission
from holdfast.errors import RequestInvalid, SchemaMissing

COLUMNS = {
    "task": "text", "payload": "jsonb", "lifecycle": "text", "queue": "text", "priority": "int", "key": "text",
    "delay": "interval", "run_at": "timestamptz", "max_attempts": "int", "owner": "text", "after": "uuid[]",
    "limit_key": "text", "limit_to": "int", "time_limit": "interval", "tags": "text[]",
    "trace": "text", "policies": "text[]",
}  # fmt: skip


def submit(on: Any, submission: Submission) -> UUID:
    """Make the task on a psycopg connection, a SQLAlchemy Session or Connection. Raises RequestInvalid."""
    if is_async(on):
        raise RequestInvalid(f"{type(on).__name__} is async.", fix="Use `await task.opts(on=...).astart(...)`.")
    arguments = sql_arguments(submission)
    with translate_errors():
        match module_of(on):
            case "sqlalchemy" if hasattr(on, "execute"):
                return as_uuid(on.execute(sqlalchemy_text(), arguments).scalar_one())
            case "psycopg" | "psycopg2" if hasattr(on, "cursor"):
                with tuple_cursor(on) as cursor:
                    cursor.execute(statement(lambda name: f"%({name})s"), arguments)
                    return as_uuid(cursor.fetchone()[0])
    raise unknown_connection(on)


async def asubmit(on: Any, submission: Submission) -> UUID:
    """The same on an asyncpg connection, a psycopg AsyncConnection, a SQLAlchemy AsyncSession or AsyncConnection."""
    if isinstance(on, (asyncpg.Connection, asyncpg.pool.PoolConnectionProxy)):
        (made,) = await Store(on).submit(submission)
        return as_uuid(made.id)
    if not is_async(on):
        return submit(on, submission)
    arguments = sql_arguments(submission)
    with translate_errors():
        match module_of(on):
            case "sqlalchemy" if hasattr(on, "execute"):
                return as_uuid((await on.execute(sqlalchemy_text(), arguments)).scalar_one())
            case "psycopg" if hasattr(on, "cursor"):
                async with tuple_cursor(on) as cursor:
                    await cursor.execute(statement(lambda name: f"%({name})s"), arguments)
                    return as_uuid((await cursor.fetchone())[0])
    raise unknown_connection(on)


def statement(placeholder: Any) -> str:
    return "select holdfast.submit({}) as id".format(
        ", ".join(f"{name} => cast({placeholder(name)} as {kind})" for name, kind in COLUMNS.items())
    )


def sqlalchemy_text() -> Any:
    from sqlalchemy import text

    return text(statement(lambda name: f":{name}"))


def sql_arguments(task: Submission) -> dict[str, Any]:
    """The arguments of the SQL function. Raises PayloadInvalid."""
    waits = encode.waits(task)
    return {
        "task": encode.text(task.name), "payload": encode.dump({} if task.payload is None else task.payload),
        "lifecycle": task.lifecycle, "queue": encode.text(task.queue), "priority": encode.whole(task.priority),
        "key": encode.text(task.key), "delay": task.delay, "run_at": task.run_at,
        "max_attempts": encode.whole(task.max_attempts), "owner": encode.text(task.owner),
        "after": [str(other) for other, _ in waits], "policies": [policy for _, policy in waits] or None,
        "limit_key": encode.text(task.limit_key), "limit_to": encode.whole(task.limit_to),
        "time_limit": task.time_limit,
        "tags": list(task.tags) or None, "trace": task.trace,
    }  # fmt: skip


def module_of(on: Any) -> str:
    """The library that a connection, or what it derives from, comes from."""
    for kind in type(on).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in ("asyncpg", "psycopg", "psycopg2", "sqlalchemy"):
            return str(name)
    return ""


def is_async(on: Any) -> bool:
    return module_of(on) == "asyncpg" or any(kind.__name__.startswith("Async") for kind in type(on).__mro__)


def tuple_cursor(on: Any) -> Any:
    """A cursor whose rows are tuples, whatever this connection makes of its own."""
    if module_of(on) == "psycopg":
        from psycopg.rows import tuple_row

        return on.cursor(row_factory=tuple_row)
    from psycopg2.extensions import cursor

    return on.cursor(cursor_factory=cursor)


def as_uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(str(value))


@contextlib.contextmanager
def translate_errors() -> Iterator[None]:
    """Raise what Postgres raises as the class of its SQLSTATE; any other error is raised as it is."""
    try:
        yield
    except Exception as error:
        raised = getattr(error, "orig", None) or error
        if code(raised.__cause__):  # SQLAlchemy's wrapping of asyncpg's error, which knows more
            raised = raised.__cause__
        if code(raised) in ("3F000", "42883"):
            raise SchemaMissing(f"{raised}.", fix="Run `holdfast db migrate` on this database.") from error
        kind = encode.BY_SQLSTATE.get(code(raised) or "")
        if kind is None:
            raise
        diagnosis = getattr(raised, "diag", None)
        message = getattr(diagnosis, "message_primary", None) or getattr(raised, "message", None) or str(raised)
        hint = getattr(diagnosis, "message_hint", None) or getattr(raised, "hint", None) or ""
        raise kind(str(message), fix=hint) from error


def code(error: Any) -> str | None:
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


def unknown_connection(on: Any) -> RequestInvalid:
    return RequestInvalid(
        f"{type(on).__module__}.{type(on).__name__} is not a connection that is known here.",
        fix="Pass the connection that holds your transaction, of psycopg, asyncpg or SQLAlchemy: no pool, no engine."
        " With any other, call holdfast.submit(...) in SQL.",
    )
