"""How values are written for the database and read back: parallel arrays, JSON as text, errors by SQLSTATE.

Records as JSON, for a server or another process, have the names of their fields, so that one more on either side does
no harm.
"""

import functools
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar, get_args, get_type_hints
from uuid import UUID

import asyncpg

from holdfast import errors
from holdfast.engine.task import (
    JSON,
    Cancelled,
    Checkpoint,
    Completion,
    Done,
    Failed,
    Json,
    Later,
    Lease,
    Moved,
    Output,
    Partial,
    Proof,
    Settlement,
    Submission,
)
from holdfast.errors import (
    DatabaseForbidden,
    DatabaseUnreachable,
    HoldfastError,
    MoveRefused,
    PayloadInvalid,
    RequestInvalid,
    SchemaMissing,
    TaskBusy,
)

T = TypeVar("T")
DECODER = json.JSONDecoder()

longest_message = 20_000
longest_budget = 200

BY_SQLSTATE = {
    kind.sqlstate: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, HoldfastError) and kind.sqlstate and "sqlstate" in vars(kind)
}


def dump(value: Json) -> str | None:
    """JSON that Postgres takes. None stays null. Raises PayloadInvalid."""
    if value is None:
        return None
    try:
        return json.dumps(value, allow_nan=False)
    except (RecursionError, TypeError, ValueError) as error:
        raise PayloadInvalid.of(error) from error


def load(text: str | None) -> Json:
    return None if text is None else json.loads(text)


def text(value: str | None) -> str | None:
    """A string that Postgres takes. Raises RequestInvalid or PayloadInvalid."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise RequestInvalid(f"{value!r} is not a string.", fix="Pass text.")
    if "\0" in value or not (value.isascii() or all(not "\ud800" <= sign <= "\udfff" for sign in value)):
        raise PayloadInvalid("It holds a character that is not one (NUL or half of a pair).", fix="Leave it out.")
    return value


def arguments(filters: object) -> list[Any]:
    """The fields of a filter in their order, as the functions take them. Raises RequestInvalid or PayloadInvalid."""
    return [text(value) if isinstance(value, str) else value for value in vars(filters).values()]


def readable(message: str) -> str:
    """The text of an error as it can be kept: a failure must be settled, whatever its message holds."""
    return sound(str(message))[:longest_message]


def sound(text: str) -> str:
    """A text without what Postgres cannot keep: NUL, and half pairs of surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def number(value: float | Decimal) -> Decimal:
    """A number that Postgres takes exactly. Raises RequestInvalid."""
    try:
        return Decimal(str(value))
    except (InvalidOperation, ValueError) as error:
        raise RequestInvalid("That is not a number.", fix="Pass an int, a float or a Decimal.") from error


def whole(value: int | None) -> int | None:
    """A whole number. Raises RequestInvalid, where the driver would cut a fraction off."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise RequestInvalid(f"{value!r} is not a whole number.", fix="Pass an int.")
    return value


def task_id(value: UUID | str) -> UUID:
    """An id. Raises RequestInvalid for anything else."""
    try:
        return value if isinstance(value, UUID) else UUID(value)
    except (ValueError, AttributeError, TypeError) as error:
        raise RequestInvalid(
            f"{value!r} is not the id of a task.", fix="Ids look like 01b8dac5-b400-730f-8c80-71bbed710aed."
        ) from error


def optional_id(value: UUID | str | None) -> UUID | None:
    """An id, if there is one. Raises RequestInvalid for anything else."""
    return None if value is None else task_id(value)


def submissions(tasks: Sequence[Submission]) -> tuple[Any, ...]:
    """The arguments of holdfast.submit_many."""
    edges = [(place, *edge) for place, task in enumerate(tasks, 1) for edge in waits(task)]
    parents = [task.parent for task in tasks]
    return (
        [text(task.lifecycle) for task in tasks],
        [text(task.name) for task in tasks],
        [dump({} if task.payload is None else task.payload) for task in tasks],
        fill(text(task.queue) for task in tasks),
        fill(whole(task.priority) for task in tasks),
        fill(text(task.key) for task in tasks),
        fill(task.delay for task in tasks),
        fill(task.run_at for task in tasks),
        fill(whole(task.max_attempts) for task in tasks),
        [text(task.owner) for task in tasks],
        *(_ids_and_places(parents) if any(parent is not None for parent in parents) else (None, None)),
        fill(text(task.limit_key) for task in tasks),
        fill(whole(task.limit_to) for task in tasks),
        fill(task.time_limit for task in tasks),
        [place for place, _, _ in edges] or None,
        *(_ids_and_places([other for _, other, _ in edges]) if edges else (None, None)),
        [policy for _, _, policy in edges] or None,
        fill(dump(list(task.tags)) if task.tags else None for task in tasks),
        fill(text(task.trace) for task in tasks),
    )


def waits(task: Submission) -> list[tuple[UUID | int, str]]:
    """What a task waits for, and for each what follows from a bad end. Raises RequestInvalid."""
    if isinstance(task.after, Mapping):
        return list(task.after.items())
    if isinstance(task.after, str) or not isinstance(task.after, Sequence):
        raise RequestInvalid(f"after={task.after!r} is not a list of tasks.", fix="Pass a list of ids or places.")
    return [(other, task.on_failure) for other in task.after]


def fill(column: Iterable[T]) -> list[T] | None:
    """A column; null if nothing stands in it, which costs neither side anything."""
    found = list(column)
    return found if any(one is not None for one in found) else None


def _ids_and_places(given: Sequence[UUID | int | str | None]) -> tuple[list[UUID | None], list[int | None]]:
    """Tasks that exist, and tasks by their place in this call (counted from 0 in Python, from 1 in SQL)."""
    places = [one + 1 if isinstance(one, int) else None for one in given]
    ids = [None if one is None or isinstance(one, int) else task_id(one) for one in given]
    return ids, places


def proof(lease: Proof) -> tuple[UUID, int, UUID]:
    return lease.task_id, lease.attempt, lease.token


def proofs(leases: Sequence[Proof]) -> tuple[list[UUID], list[int], list[UUID]]:
    return [one.task_id for one in leases], [one.attempt for one in leases], [one.token for one in leases]


def checkpoints(given: Sequence[Checkpoint]) -> tuple[Any, ...]:
    """The arguments of holdfast.checkpoint."""
    return (
        *proofs([one.lease for one in given]),
        [text(one.step) for one in given],
        [dump(one.result) for one in given],
        [one.to for one in given],
        fill(dump(one.usage) for one in given),
    )


def settlements(given: Sequence[Settlement]) -> tuple[Any, ...]:
    """The arguments of holdfast.settle: outcome, to, delay, due, category, step and body behind the proofs."""
    kinds, *others = zip(*(columns(outcome) for _, outcome in given), strict=True) if given else [()] * 7
    return (*proofs([lease for lease, _ in given]), kinds, *map(fill, others))


def completions(given: Sequence[Completion]) -> tuple[Any, ...]:
    """The arguments of holdfast.complete: what settle takes but `to` and `due`, then the events."""
    *proven, kind, _, delay, _, category, step, body = settlements([(one.proof, one.outcome) for one in given])
    events = [(one.proof.task_id, *event) for one in given for event in one.events]
    tasks, kinds, steps, data = zip(*events, strict=True) if events else ((), (), (), ())
    return (*proven, kind, category, step, delay, body, tasks, kinds, steps, [dump(one) for one in data])


def deliveries(given: Sequence[Completion]) -> tuple[Any, ...]:
    """The arguments of holdfast.deliver: what complete takes, then the outputs."""
    outputs = [
        (one.proof.task_id, output(made))
        for one in given if isinstance(one.outcome, Done)
        for made in one.outcome.outputs
    ]  # fmt: skip
    bare = [
        replace(one, outcome=Done(one.outcome.result)) if isinstance(one.outcome, Done) else one for one in given
    ]  # fmt: skip
    return (*completions(bare), [task for task, _ in outputs], [dump(made) for _, made in outputs])


def output(made: Output) -> dict[str, Json]:
    """An output as JSON, without what it does not say."""
    return {name: value for name, value in vars(made).items() if value is not None}


def columns(outcome: object) -> tuple[Any, ...]:
    """An outcome as outcome, to, delay, due, category, step and body. Raises RequestInvalid."""
    match outcome:
        case Done(result, outputs):
            if outputs:
                raise RequestInvalid("Outputs are published with the end of their task.", fix="Use store.deliver(...).")
            return "done", None, None, None, None, None, dump(result)
        case Partial(result):
            return "partial", None, None, None, None, None, dump(result)
        case Moved(to, body, delay):
            return "moved", to, delay, None, None, None, dump(body)
        case Later(delay, at, kind, message, steps):
            why: dict[str, Json] = {"kind": kind} if kind else {}
            why |= {"message": readable(message)} if message else {}
            why |= {"steps": list(steps)} if steps else {}
            return "later", None, delay, at, None, None, dump(why or None)
        case Failed(category, message, code, step, delay, at, budget):
            error = {"message": readable(message)} | ({"code": readable(code)} if code else {})
            error |= {"budget": readable(budget)[:longest_budget]} if budget else {}
            return "failed", None, delay, at, category, text(step), dump(error)
        case Cancelled(reason):
            return "cancelled", None, None, None, None, None, dump({"reason": reason} if reason else None)
    raise RequestInvalid(f"{outcome!r} is not an outcome.", fix="Use Done, Partial, Moved, Later, Failed or Cancelled.")


def leases(rows: Sequence[asyncpg.Record]) -> list[Lease]:
    """Rows as this release knows them. Written into the objects themselves: setting each field of a frozen class by its
    name takes several times as long, and a worker reads tens of thousands in a second."""
    names = tuple(rows[0].keys()) if rows else ()
    found = []
    for row in rows:
        fields = dict(zip(names, row, strict=True))
        fields["payload"] = DECODER.raw_decode(fields["payload"])[0]
        lease = object.__new__(Lease)
        object.__setattr__(lease, "__dict__", fields)
        found.append(lease)
    return found


def dump_lease(lease: Lease) -> dict[str, Any]:
    """A lease as JSON carries it; `from_json` reads it."""
    found = dict(vars(lease))
    found["task_id"], found["token"] = lease.task_id.hex, lease.token.hex
    for name in ("expires_at", "due_at", "deadline"):
        found[name] = found[name] and found[name].isoformat()
    return found


def from_row(kind: type[T], row: asyncpg.Record) -> T:
    """A row as this release knows it: a newer one may have added columns. JSON comes as text."""
    known = fields_of(kind)  # type: ignore[arg-type]
    return kind(**{name: load(row[name]) if is_json else row[name] for name, is_json, _ in known if name in row})


def from_json(kind: type[T], found: Mapping[str, Any]) -> T:
    """A record that came as JSON, with its ids and moments as such; what this release does not know is left out."""
    known = fields_of(kind)  # type: ignore[arg-type]
    given = {name: found[name] for name, _, _ in known if name in found}
    return kind(**given | {name: read(given[name]) for name, _, read in known if read and given.get(name) is not None})


def refusals(kind: type[T], found: str) -> list[T]:
    """What was refused of many, each with the code of its error."""
    return [from_json(kind, {"code": code_of(one["sqlstate"]), **one}) for one in load(found)]


@functools.cache
def fields_of(kind: Hashable) -> list[tuple[str, bool, Callable[[str], Any] | None]]:
    """The fields of a record: its name, whether a row has it as JSON, and what reads it out of JSON."""
    found = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        reader = next((READERS[one] for one in (hint, *get_args(hint)) if one in READERS), None)
        found.append((name, JSON in getattr(hint, "__metadata__", ()), reader))
    return found


READERS: dict[object, Callable[[str], Any]] = {UUID: UUID, datetime: datetime.fromisoformat}


def translate(error: asyncpg.PostgresError) -> HoldfastError:
    """What Postgres raised, as the class of its SQLSTATE. Any other error is raised as it is."""
    kind = BY_SQLSTATE.get(error.sqlstate)
    if kind:
        return kind(str(error.message), fix=error.hint or "")
    if isinstance(error, asyncpg.LockNotAvailableError):
        return TaskBusy(f"{error}.", fix="Ask again. A transaction that submits or cancels should end soon.")
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return DatabaseForbidden(f"{error}.", fix="As the owner of the schema: grant holdfast_app to <role>")
    if isinstance(error, (asyncpg.UndefinedFunctionError, asyncpg.InvalidSchemaNameError, asyncpg.UndefinedTableError)):
        return SchemaMissing(f"{error}.", fix="Run `holdfast db migrate`.")
    if isinstance(error, asyncpg.exceptions.StatementTooComplexError):
        return PayloadInvalid("It is nested too deeply.", fix="Flatten it, or put it where files live.")
    # A value that the driver or Postgres could not make sense of:
    message = str(error.detail or error)
    if isinstance(
        error, (asyncpg.exceptions.UntranslatableCharacterError, asyncpg.exceptions.InvalidTextRepresentationError)
    ):
        return PayloadInvalid(message, fix="Leave out NUL and half pairs of surrogates; write huge numbers as strings.")
    if isinstance(error, asyncpg.DataError):
        return RequestInvalid(message, fix="Check the types and the size of what you pass.")
    raise error


def code_of(sqlstate: str) -> str:
    """The code of the error that a SQLSTATE stands for; one that is not ours was raised by a lifecycle's effects."""
    return BY_SQLSTATE.get(sqlstate, MoveRefused).http_code


def unreachable(error: Exception) -> DatabaseUnreachable:
    message = str(error) or ("No answer came in time." if isinstance(error, TimeoutError) else type(error).__name__)
    return DatabaseUnreachable(message, fix="What was asked may have happened: look before you ask again.")
