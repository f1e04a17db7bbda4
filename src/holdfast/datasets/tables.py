"""Tables as Parquet files where objects live: written by one task, read by others, put into datasets by `output`.

The key of a file holds the lease that wrote it, so an attempt that has lost its lease overwrites nothing. Polars is
imported when a table is first read or written.
"""

import asyncio
import re
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.distribution import install_hint
from holdfast.errors import Fatal, ObjectMissing, SchemaInvalid, StepInvalid
from holdfast.execution.attempt import ATTEMPT, Attempt
from holdfast.execution.threads import in_thread
from holdfast.objects.scratch import scratch
from holdfast.remote.places import objects_of
from holdfast.settings import Settings, read_settings

if TYPE_CHECKING:
    import polars

T = TypeVar("T")

OBJECT = "object:"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
CONTENT_TYPE = "application/vnd.apache.parquet"


@dataclass(frozen=True)
class Table:
    """A table that was written: where it is, how large, and its columns with their types."""

    uri: str
    rows: int
    bytes: int
    schema: list[tuple[str, str]]


class Writing:
    """`await write_table(frame)`: keep a polars frame as Parquet, and learn where."""

    async def __call__(self, frame: "polars.DataFrame", name: str = "table") -> Table:
        """The table, to be returned, passed on, or given to `output`. Raises StepInvalid outside of a task.

        Two tables of one task have two names: letters, digits, dots and dashes.
        """
        attempt = current_attempt("write_table")
        if not NAME.fullmatch(name):
            raise StepInvalid(f"{name!r} cannot be the name of a table.", fix="Write a short one, such as prices.")
        objects, lease = objects_of(attempt.settings), attempt.lease
        key = f"tables/{lease.task_id}/{lease.token}/{name}.parquet"
        with scratch() as folder:
            path = folder / "table.parquet"
            await in_thread(frame.write_parquet, path)
            found = await objects.put(key, path, content_type=CONTENT_TYPE)
        schema = [(column, str(kind)) for column, kind in frame.schema.items()]
        return Table(f"{OBJECT}{key}", frame.height, found.bytes, schema)

    def sync(self, frame: "polars.DataFrame", name: str = "table") -> Table:
        """The same in a task that is a plain `def`."""
        attempt = current_attempt("write_table.sync")
        return run_in_loop_of(self(frame, name), attempt)


class Reading:
    """`await read_table(table)`: the polars frame that was written."""

    async def __call__(
        self, table: Table | str | Iterable[Table | str], *, settings: Settings | None = None
    ) -> "polars.DataFrame":
        """A table, or several below each other. Raises SchemaInvalid for anything else, Fatal for one that is gone.

        Outside of a task it reads where the environment says that objects are.
        """
        polars = import_polars()
        attempt = ATTEMPT.get()
        given = settings or (attempt.settings if attempt else read_settings())
        parts = [table] if isinstance(table, (Table, str)) else list(table)
        if not parts:
            raise SchemaInvalid("There is no table to read.", code="table")
        with scratch() as folder:
            paths = []
            for number, part in enumerate(parts):
                uri = part if isinstance(part, str) else part.uri
                if not uri.startswith(OBJECT):
                    raise SchemaInvalid(f"{uri!r} is not a table that a task has written.", code="table")
                paths.append(folder / f"{number}.parquet")
                try:
                    await objects_of(given).fetch(uri.removeprefix(OBJECT), paths[-1])
                except ObjectMissing as error:
                    raise Fatal(f"The table {uri} is gone.", code="table-gone") from error
            try:
                return await in_thread(lambda: polars.concat([polars.read_parquet(path) for path in paths]))
            except polars.exceptions.PolarsError as error:
                raise SchemaInvalid(f"The table cannot be read: {error}", code="table") from error

    def sync(
        self, table: Table | str | Iterable[Table | str], *, settings: Settings | None = None
    ) -> "polars.DataFrame":
        """The same in plain code, in a task or outside of one."""
        attempt = ATTEMPT.get()
        reading = self(table, settings=settings)
        return run_in_loop_of(reading, attempt) if attempt else asyncio.run(reading)


write_table = Writing()
read_table = Reading()


def import_polars() -> Any:
    """Polars. Raises Fatal where it is missing."""
    try:
        import polars
    except ImportError as error:
        raise Fatal(f"This worker cannot read tables: {install_hint('tables')}.", code="not-installed") from error
    return polars


def current_attempt(name: str) -> Attempt:
    attempt = ATTEMPT.get()
    if attempt is None:
        raise StepInvalid(f"{name} was called outside of a task.", fix="Call it in a task that a worker runs.")
    return attempt


def run_in_loop_of(work: Coroutine[Any, Any, T], attempt: Attempt) -> T:
    """What comes of it, in the loop of the attempt, asked from the thread of a plain function. Raises StepInvalid."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return attempt.call_from_thread(work)
    work.close()
    raise StepInvalid("This task is async.", fix="Leave out .sync, and await it.")
