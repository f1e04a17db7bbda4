"""Whether requests can be served: the database answers, and its schema is in place."""

import asyncio
import json
from datetime import datetime
from typing import Literal

import asyncpg
from pydantic import BaseModel

from holdfast.errors import DatabaseUnreachable
from holdfast.postgres.connections import DRIVER_ERRORS

ready_timeout_seconds = 5


class Ready(BaseModel):
    """What the database answers now; for a caller without a key, only that it does."""

    status: Literal["ready"] = "ready"
    database_time: datetime | None = None
    postgres: str | None = None
    schema_version: str | None = None
    migrations: int | None = None


async def ask_database(pool: asyncpg.Pool) -> Ready:
    """Ask the database for its time and what is installed. Raises DatabaseUnreachable."""
    try:
        async with asyncio.timeout(ready_timeout_seconds):
            row = await pool.fetchrow(
                "select holdfast.now() as now, holdfast.installed() as books,"
                " current_setting('server_version') as postgres"
            )
    except DRIVER_ERRORS as error:
        raise DatabaseUnreachable(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from error
    books = json.loads(row["books"])
    return Ready(
        database_time=row["now"],
        postgres=row["postgres"],
        schema_version=books["version"],
        migrations=len(books["migrations"]),
    )
