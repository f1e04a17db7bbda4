"""Tables as Parquet files where objects live: written by one task, read by others, put into datasets by `output`.

The key of a file holds the lease that wrote it, so an attempt that has lost its lease overwrites nothing. Polars is
imported when a table is first read or written.
"""

import asyncio
import inspect
import re
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from holdfast.distribution import install_hint
from holdfast.errors import Fatal, ObjectMissing, SchemaInvalid, StepInvalid
from holdfast.execution.attempt import ATTEMPT
from holdfast.execution.threads import in_thread
from holdfast.objects.scratch import scratch
from holdfast.remote.places import objects_of
from holdfast.settings import Settings, read_settings

if TYPE_CHECKING:
    import polars

P = ParamSpec("P")
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


class WithSync(Generic[P, T]):
    """An async function that plain code calls as `.sync`."""

    def __init__(self, function: Callable[P, Coroutine[Any, Any, T]]) -> None:
        self._function = function
        self.__doc__, self.__signature__ = function.__doc__, inspect.signature(function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return self._function(*args, **kwargs)

    def sync(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """The same in plain code: in the loop of the attempt, or outside of a task in one of its own."""
        work, attempt = self._function(*args, **kwargs), ATTEMPT.get()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return attempt.call_from_thread(work) if attempt else asyncio.run(work)
        work.close()
        raise StepInvalid(
            f"{self._function.__name__}.sync was called in async code.", fix="Leave out .sync, and await it."
        )


@WithSync
async def write_table(frame: "polars.DataFrame", name: str = "table") -> Table:
    """Keep a polars frame as Parquet. The table, to be returned, passed on, or given to `output`.

    Two tables of one task have two names: letters, digits, dots and dashes. Raises StepInvalid outside of a task.
    """
    attempt = ATTEMPT.get()
    if attempt is None:
        raise StepInvalid("write_table was called outside of a task.", fix="Call it in a task that a worker runs.")
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


@WithSync
async def read_table(
    table: Table | str | Iterable[Table | str], *, settings: Settings | None = None
) -> "polars.DataFrame":
    """The polars frame of a table, or of several below each other.

    Raises SchemaInvalid for anything else, Fatal for a table that is gone. Outside of a task it reads where the
    environment says that objects are.
    """
    try:
        import polars
    except ImportError as error:
        raise Fatal(f"This worker cannot read tables: {install_hint('tables')}.", code="not-installed") from error
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
