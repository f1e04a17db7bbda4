"""Calls to a provider, made for one task: within the budget of the account, a few at the same time."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from holdfast.durations import parse_duration
from holdfast.engine.backend import WorkerBackend
from holdfast.engine.store import encode
from holdfast.engine.store.calls import asked_again_seconds, patiently
from holdfast.engine.task import Json, Lease
from holdfast.errors import BudgetUnknown, DatabaseError, Failure, HoldfastError, MoveRefused, RequestInvalid, Transient
from holdfast.lifecycles.batch.batches import Batches, JobRow, Told
from holdfast.lifecycles.batch.files import Files
from holdfast.lifecycles.batch.provider import CannotCancel, CannotTell, Job, Provider
from holdfast.objects import Objects

log = logging.getLogger("holdfast.batch")

T = TypeVar("T")

shortest_seconds = 1.0
PLACES: "WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], asyncio.Semaphore]]" = WeakKeyDictionary()


class Slow(Exception):
    """The budget of the account is spent for now."""

    def __init__(self, until: datetime) -> None:
        super().__init__(str(until))
        self.until = until


@dataclass
class Caller:
    """Who calls a provider for one batch, and tells the database what came of it."""

    provider: Provider
    batches: Batches
    kernel: WorkerBackend
    objects: Objects
    lease: Lease
    task: UUID
    """The batch: the task of the lease itself, or the one that it stops."""
    task_type: str
    wants_stop: bool = field(default=False, init=False)

    @property
    def files(self) -> Files:
        return Files(self.objects, self.task)

    @property
    def places(self) -> asyncio.Semaphore:
        """So many calls at once to an account, by all tasks that this process works on."""
        here = PLACES.setdefault(asyncio.get_running_loop(), {})
        key = (self.provider.name, self.provider.account)
        return here.setdefault(key, asyncio.Semaphore(self.provider.calls_at_once))

    @property
    def budget(self) -> str:
        return f"{self.provider.name} {self.provider.account}"[:200]

    async def spend(self, calls: int) -> int:
        """Take up to so many calls out of the budget of the account; how many. Raises Slow."""
        told = self.lease.due_at if self.lease.resumed else None
        try:
            grant = await self.kernel.spend(self.budget, calls, told=told)
        except BudgetUnknown:
            return calls
        except RequestInvalid:  # more than it ever holds
            if calls == 1:
                raise
            return await self.spend(calls // 2)
        if not grant.granted:
            if calls > 1:
                return await self.spend(1)
            assert grant.retry_at is not None  # noqa: S101
            raise Slow(grant.retry_at)
        return calls

    async def block_budget(self, until: datetime) -> None:
        """The provider wants to be left alone: nobody calls this account before."""
        await self.kernel.block_budget(self.budget, until)

    def job(self, row: JobRow) -> Job:
        """A job as the provider is told of it."""

        async def remember(memo: Json) -> None:
            await self.tell({"job": row.number, "verb": "remember", "memo": memo})

        return Job(
            row.token, self.task_type, row.model, row.account, row.external_id, row.intended_at, row.memo, remember,
            self.objects, f"{self.files.place}/job-{row.number}",
        )  # fmt: skip

    async def tell(self, *told: Told) -> dict[int, JobRow]:
        """Say what happened to jobs, however long the database is away; how they stand now. Raises LeaseLost.

        After a lost connection nobody knows whether it was heard. Said twice it is refused, and that is as good.
        """
        repeated = False
        while True:
            try:
                self.wants_stop, rows = await self.batches.tell(self.lease, self.task, *cleaned(list(told)))
                return rows
            except MoveRefused:
                if not repeated:
                    raise
                batch = await patiently(lambda: self.batches.open(self.task))
                return {job.number: job for job in batch.jobs} if batch else {}
            except DatabaseError:
                repeated = True
                await asyncio.sleep(asked_again_seconds)

    async def call(self, what: Callable[[], Awaitable[T]]) -> T:
        """What a provider answers. Raises a Failure; what nobody has put into a category is Transient, and logged."""
        async with self.places:
            return await self.ask(what)

    async def ask(self, what: Callable[[], Awaitable[T]]) -> T:
        """The same, for who has a place."""
        try:
            return await what()
        except Exception as error:
            raise failure_of(error) from error

    async def all(self, calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """All of these at the same time; if one breaks, none is left behind."""
        running = [asyncio.ensure_future(call) for call in calls]
        try:
            return list(await asyncio.gather(*running))
        finally:
            for one in running:
                one.cancel()


def failure_of(error: Exception) -> Exception:
    """What an exception of a provider stands for; its own words for what it cannot do are left as they are."""
    if isinstance(error, Failure | CannotCancel | CannotTell | Slow):
        return error
    if isinstance(error, HoldfastError):
        return Transient(str(error), code=type(error).__name__)
    log.warning("a provider raised", exc_info=error)
    return Transient(f"{type(error).__name__}: {error}", code=type(error).__name__)


def seconds_of(error: Failure, otherwise: timedelta) -> float:
    """How long to wait after a failure."""
    if error.retry_after is None:
        return otherwise.total_seconds()
    try:
        return max(parse_duration(error.retry_after).total_seconds(), shortest_seconds)
    except HoldfastError:
        return otherwise.total_seconds()


def cleaned(value: Any) -> Any:
    """What a provider said, as it can be kept: no NUL, no half pair of surrogates, no number that is none."""
    if isinstance(value, str):
        return value if value.isascii() and "\0" not in value else encode.sound(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {cleaned(key): cleaned(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float) else encode.sound(str(value))
