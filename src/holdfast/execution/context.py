"""What a task can call while it runs: step, progress, usage, output, spend, cancelled.

They are ambient: a handler takes its own arguments and nothing else, and the attempt it belongs to is found in the
context. Outside of an attempt, where a handler is called as the plain function it is, a step just runs and nothing is
kept; so a handler can be tried by calling it. A thread that a handler starts itself does not know the attempt: while
one runs in this process, a step called in such a thread (neither the main one nor one with a loop of attempts) raises.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterable
from decimal import Decimal
from typing import Any, ParamSpec, TypeVar, cast, overload

from opentelemetry import trace

from holdfast.engine import values
from holdfast.engine.publication import Mode, read_output
from holdfast.engine.store.calls import Calls
from holdfast.engine.task import Json, Lease
from holdfast.errors import BudgetUnknown, RateLimited, StepInvalid
from holdfast.execution.attempt import ATTEMPT, ATTEMPT_THREADS, STEP_USAGE, Attempt
from holdfast.execution.threads import call_function

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
C = TypeVar("C", bound=Calls)

tracer = trace.get_tracer("holdfast")
longest_note = 500


class Steps:
    """`await step("fetched", fetch, url)`: run it once and keep its result, or bring back the kept one."""

    @overload
    def __call__(
        self, name: str, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...

    @overload
    def __call__(
        self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...

    def __call__(
        self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        """The result of `function(*args, **kwargs)`, which may be sync (it runs in a thread) or async.

        It comes back as its JSON reads: as the types that the function's return annotation names, else as plain lists
        and dictionaries. So it is the same in the first run and after a crash. Raises StepInvalid.
        """
        attempt = find_attempt(name, function)
        if attempt is None:
            return call_function(function, args, kwargs)
        if not attempt.is_in_loop():
            raise StepInvalid(f"{name!r}: this task is not async.", fix=f"Write step.sync({name!r}, ...), no await.")
        return attempt.track_await(name, run_step, attempt, name, function, args, kwargs)

    def sync(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The same in a task that is a plain `def`. Raises StepInvalid."""
        attempt = find_attempt(name, function)
        if attempt is None:
            return function(*args, **kwargs)
        if attempt.is_in_loop():
            raise StepInvalid(f"{name!r}: this task is async.", fix=f"Write await step({name!r}, ...).")
        if inspect.iscoroutinefunction(function):
            raise StepInvalid(f"{name!r} is async, and its task is not.", fix="Make the task `async def`.")
        known, result = attempt.call_from_thread(attempt.find_step(name))
        if not known:
            with attempt.track_step(name) as usage:
                with tracer.start_as_current_span(f"step {name}"):
                    value = function(*args, **kwargs)
                encoded = encode_result(name, function, value)
                result = attempt.call_from_thread(attempt.save_step(name, encoded, usage))
        return cast(R, decode_result(name, function, result))

    @overload
    def map(
        self, name: str, function: Callable[[T], Coroutine[Any, Any, R]], items: Iterable[T], *, at_once: int = 10
    ) -> Coroutine[Any, Any, list[R]]: ...

    @overload
    def map(
        self, name: str, function: Callable[[T], R], items: Iterable[T], *, at_once: int = 10
    ) -> Coroutine[Any, Any, list[R]]: ...

    def map(
        self, name: str, function: Callable[[T], Any], items: Iterable[T], *, at_once: int = 10
    ) -> Coroutine[Any, Any, list[Any]]:
        """`function` over all items, each a step of its own (`name[0]`, `name[1]`, ...), so many at once.

        The results come in the order of the items, which must be the same in every attempt. After a failure none is
        begun any more; those under way end, and are kept, before it is raised.
        """
        attempt = find_attempt(name, function)
        if at_once < 1:
            raise StepInvalid(f"at_once={at_once} would never begin.", fix="Give 1 or more.")
        if attempt is None:
            return self._map(name, function, items, at_once)
        return attempt.track_await(name, self._map, name, function, items, at_once)

    async def _map(self, name: str, function: Callable[[T], Any], items: Iterable[T], at_once: int) -> list[Any]:
        slots = asyncio.Semaphore(at_once)
        failed: list[BaseException] = []

        async def one(index: int, item: T) -> Any:
            async with slots:
                if failed:
                    return None
                try:
                    return await self(f"{name}[{index}]", function, item)
                except BaseException as error:
                    failed.append(error)
                    raise

        results = await asyncio.gather(*(one(*each) for each in enumerate(items)), return_exceptions=True)
        if failed:
            raise failed[0]
        return results


async def run_step(attempt: Attempt, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run a step and keep its result, or bring back the kept one."""
    known, result = await attempt.find_step(name)
    if not known:
        with attempt.track_step(name) as usage:
            with tracer.start_as_current_span(f"step {name}"):
                value = await call_function(function, args, kwargs)
            result = await attempt.save_step(name, encode_result(name, function, value), usage)
    return decode_result(name, function, result)


step = Steps()


def progress(done: float, total: float | None = None, *, note: str | None = None) -> None:
    """Report how far the task is. Visible to others within a heartbeat; only the newest counts."""
    attempt = ATTEMPT.get()
    if attempt:
        if attempt.part and total:
            number, parts = attempt.part
            done, total = number + min(max(done / total, 0), 1), parts
        attempt.report_progress(done=done, total=total, note=note[:longest_note] if note else None)


def usage(
    model: str, *, tokens_in: int = 0, tokens_out: int = 0, cost_cents: float | Decimal | None = None, **more: Json
) -> None:
    """Write down what was spent. Inside a step it is kept with the step, once, however often the task is resumed.

    Without `cost_cents` the tokens cost what the table of prices says at that moment; 0 is free. A Decimal is kept to
    its last digit. Raises StepInvalid for a cost that is not a number.
    """
    attempt = ATTEMPT.get()
    if attempt is None:
        return
    entry: dict[str, Json] = {"model": model, "tokens_in": tokens_in, "tokens_out": tokens_out}
    if cost_cents is not None:
        entry["cost_cents"] = values.exact(cost_cents)
    usage_of_step = STEP_USAGE.get()
    (attempt.usage if usage_of_step is None else usage_of_step).append({**entry, **more})


def output(dataset: str, what: object, *, key: str | None = None, mode: Mode = "replace") -> None:
    """Publish this in a dataset when the task is done: an address, rows as dictionaries, or a table.

    replace: the dataset's entry of this key, by default the task's name, becomes this one. append: it is added, unless
    the key, by default the task's id, is there already. It is not visible before the task is done, and what an
    attempt wrote that has lost its lease never is. Raises StepInvalid, and PayloadTooLarge for rows beyond 256 KiB.
    """
    made = read_output(dataset, what, key, mode)
    attempt = ATTEMPT.get()
    if attempt is None:
        return
    if STEP_USAGE.get() is not None:
        raise StepInvalid(
            f"output({dataset!r}, ...) is called in a step, which is not run again once it is done.",
            fix="Return it from the step, and call output with it afterwards.",
        )
    default = attempt.lease.name if mode == "replace" else None
    if any((one.dataset, one.key or default) == (dataset, key or default) for one in attempt.outputs):
        raise StepInvalid(
            f"Two outputs go to {dataset!r} under the same key.", fix="Give each a key: output(..., key='monday')."
        )
    attempt.outputs.append(made)


async def spend(budget: str, amount: float = 1) -> None:
    """Take a share of what all callers of a provider have together, before it is called.

    Where none is left this raises RateLimited: the task waits until there is some, and takes no slot meanwhile. A
    budget that is not set and that no provider has limited lets everything through.
    """
    attempt = ATTEMPT.get()
    if attempt is None:
        return
    lease = attempt.lease
    try:
        grant = await attempt.backend.spend(budget, amount, retry_at=lease.due_at if lease.resumed else None)
    except BudgetUnknown:
        return
    if not grant.granted:
        raise RateLimited(f"The budget {budget} is spent for now.", code="budget", retry_at=grant.retry_at)


def cancelled() -> bool:
    """Whether this task is asked to stop: for long loops in plain functions."""
    attempt = ATTEMPT.get()
    return attempt is not None and attempt.cancelled


def current() -> Lease:
    """The lease that this code runs under: the task's id, state, attempt. Raises StepInvalid outside of a task."""
    attempt = ATTEMPT.get()
    if attempt is None:
        raise StepInvalid("No task is running here.", fix="Call current() in a task that a worker runs.")
    return attempt.lease


def get_service(service: type[C]) -> C:
    """A lifecycle's store, over the backend of the worker that runs this code. Raises StepInvalid outside of a task."""
    current()
    return cast(Attempt, ATTEMPT.get()).backend.service(service)


def find_attempt(name: object, function: object) -> Attempt | None:
    """The attempt that calls a step; None outside of a task. Raises StepInvalid for a call that cannot be meant."""
    if not isinstance(name, str) or not callable(function):
        raise StepInvalid(
            f"{getattr(name, '__name__', name)!r} is not a name, or what follows it is not a function.",
            fix='Write step("fetched", fetch, url): a name, the function, its arguments.',
        )
    attempt = ATTEMPT.get()
    here = threading.current_thread()
    if (
        attempt is None
        and ATTEMPT_THREADS
        and here.ident not in ATTEMPT_THREADS
        and here is not threading.main_thread()
    ):
        raise StepInvalid(
            f"{name!r} is called in a thread that does not know its task, so it would not be kept.",
            fix="Use step.map, or give the thread its context: pool.submit(contextvars.copy_context().run, function).",
        )
    return attempt


def encode_result(name: str, function: Callable[..., Any], value: object) -> Json:
    """A step's result as JSON, checked before it is kept: it must be readable as its type. Raises SchemaInvalid."""
    return values.fit(f"Step {name!r}", value, values.returned_by(function))


def decode_result(name: str, function: Callable[..., Any], result: Json) -> Any:
    """A step's result as its function returns it. Raises SchemaInvalid if that has changed since."""
    return values.read_back(f"Step {name!r}", result, values.returned_by(function))
