"""`Holdfast`: an application's tasks, and the way to the database they live in."""

import asyncio
import atexit
import contextlib
import importlib
import inspect
import os
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, overload
from uuid import UUID

from holdfast.durations import parse_duration
from holdfast.engine import values
from holdfast.engine.backend import ClientBackend
from holdfast.engine.lifecycle.model import Lifecycle
from holdfast.engine.store import encode
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Duration, Ended, Submission
from holdfast.execution.tracing import trace_start, traceparent
from holdfast.lifecycles import declare_all
from holdfast.lifecycles.analysis.declaration import ANALYSIS
from holdfast.lifecycles.analysis.handlers import handler
from holdfast.lifecycles.analysis.tools import Tool
from holdfast.lifecycles.batch.provider import Provider
from holdfast.lifecycles.dispatch.sdk import Graphs
from holdfast.lifecycles.pipeline.sdk import Pipeline
from holdfast.remote.places import objects_of
from holdfast.sdk import enqueue
from holdfast.sdk.background import Background
from holdfast.sdk.batch import Batch
from holdfast.sdk.bundled import Shipped
from holdfast.sdk.cron import Crons
from holdfast.sdk.dataset import Dataset
from holdfast.sdk.handle import Handle
from holdfast.sdk.loading import LOADING, called_while_loading
from holdfast.sdk.session import Opened, no_database
from holdfast.sdk.shapes import Mounted, TaskMaker
from holdfast.sdk.task import AsyncTask, Errors, PlainTask, Task, check_task
from holdfast.settings import Settings, read_settings

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

default_queue = "default"


class Holdfast(Graphs, Crons, Shipped):
    """An application: its tasks by name, and the database. Opened when it is first used, from any thread or loop."""

    def __init__(self, url: str | None = None, *, settings: Settings | None = None) -> None:
        """`url`: a `postgresql://` address.

        Without it, HOLDFAST_URL; without that, the server at HOLDFAST_API; without any, the Postgres in ./.holdfast.
        """
        self._url = url
        self._settings = settings
        self._folder = Path().absolute()
        self.tasks: dict[str, Task[..., Any]] = {}
        self.lifecycles: dict[str, Lifecycle] = {}
        self.tools: dict[str, Tool] = {}
        self.pipelines: dict[str, Pipeline] = {}
        self.batches: dict[str, Batch] = {}
        self.dags = {}
        self._lock = threading.Lock()
        self._opened: Opened | None = None
        self._mounted: list[Mounted] = []
        EVERY.add(self)

    @property
    def settings(self) -> Settings:
        if TOLD:
            return TOLD[-1]
        settings = self._settings or read_settings(url=self._url)
        home = self._folder / settings.home  # of where it was made: whoever changes the folder keeps the database
        return settings.model_copy(update={"home": home} | ({"url": self._url} if self._url else {}))

    # Tasks

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def task(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...
    @overload
    def task(
        self, /, *, name: str | None = None, queue: str | None = None, retries: int | None = None,
        timeout: Duration | None = None, priority: int = 0, lifecycle: Lifecycle | str = "dispatch",
        errors: Errors | None = None,
    ) -> TaskMaker: ...  # fmt: skip

    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        retries: int | None = None,
        timeout: Duration | None = None,
        priority: int = 0,
        lifecycle: Lifecycle | str = "dispatch",
        errors: Errors | None = None,
    ) -> Any:
        """Make a task of a function, which stays a plain function too.

        name: under which workers know it; the function's by default. queue: where it waits. retries: how often a
        failure is tried again. timeout: how long one attempt may run. errors: which category an exception of others
        stands for, as {httpx2.ConnectError: Transient}. Raises AppInvalid.
        """

        scope = sys._getframe(1).f_locals

        def make(function: Callable[..., Any]) -> Task[..., Any]:
            called = str(name or getattr(function, "__name__", ""))
            limit = None if timeout is None else parse_duration(timeout)
            check_task(called, function, self.tasks, retries=retries, limit=limit, priority=priority, errors=errors)
            values.read_hints(function, scope)
            kind = AsyncTask if inspect.iscoroutinefunction(function) else PlainTask
            machine = self.lifecycle(lifecycle) if isinstance(lifecycle, Lifecycle) else None
            task: Task[..., Any] = kind(
                self,
                function,
                name=called,
                queue=queue,
                retries=retries,
                timeout=limit,
                priority=priority,
                lifecycle=machine.name if machine else str(lifecycle),
                errors=errors or {},
            )
            self.tasks[called] = task
            return task

        return make if function is None else make(function)

    def lifecycle(self, lifecycle: Lifecycle | str, **declaration: Any) -> Lifecycle:
        """A lifecycle of your own, declared in the database when it is opened. Raises DeclarationInvalid."""
        one = lifecycle if isinstance(lifecycle, Lifecycle) else Lifecycle(lifecycle, **declaration)
        self.lifecycles[one.name] = one
        return one

    def tool(self, tool: Tool) -> Tool:
        """Offer a tool to users (`POST /tasks`): workers of this application run its agents. Raises AppInvalid."""
        run = handler(tool, lambda: objects_of(self.settings))
        self.task(name=tool.id, lifecycle=ANALYSIS.name, queue=ANALYSIS.queue)(run)
        self.tasks[tool.id].apart = True
        self.tools[tool.id] = tool
        return tool

    def pipeline(
        self, name: str, *, title: str = "", limit: Duration | None = None, retries: int = 2,
        timeout: Duration | None = None, queue: str | None = None, priority: int = 0, errors: Errors | None = None,
    ) -> Pipeline:  # fmt: skip
        """A pipeline; its stages are added with `@pipeline.stage`. Raises AppInvalid.

        limit: how long a job may run, two hours by default. retries and timeout hold for each stage that says nothing
        else. errors: which category an exception of others stands for.
        """
        times = [None if one is None else parse_duration(one) for one in (limit, timeout)]
        made = Pipeline(self, name, title, times[0], retries, times[1], queue, priority, errors or {})
        self.pipelines[name] = made
        return made

    def batch(
        self, task_type: str, provider: Provider, *, poll_every: Duration | None = None, limit: Duration | None = None,
        queue: str | None = None,
    ) -> Batch:  # fmt: skip
        """A kind of task that a provider does: `hf.batch("transcription", MyProvider())`. Raises AppInvalid.

        poll_every: how often its jobs are asked about, otherwise than the provider says. limit: how long a batch may be
        in progress.
        """
        times = [None if one is None else parse_duration(one) for one in (poll_every, limit)]
        made = Batch(self, task_type, provider, times[0], times[1], queue)
        self.batches[made.name] = made
        return made

    def dataset(self, name: str) -> Dataset:
        """A dataset, to be read: `hf.dataset("prices").read()`."""
        return Dataset(self, name)

    @property
    def queues(self) -> list[str]:
        """Where its tasks wait."""
        own = {task.queue or self._queue_of(task.lifecycle) for task in self.tasks.values()}
        return sorted(own) or [default_queue]

    def _queue_of(self, lifecycle: str) -> str:
        own = self.lifecycles.get(lifecycle)
        return (own.queue or own.name) if own else default_queue

    # Starting

    def start(self, task: Task[P, R], submission: Submission, on: Any = None) -> Handle[R]:
        """Make a task, in the transaction of `on` if it is given. Raises a RequestInvalid."""
        with trace_start(task.name):
            submission = replace(submission, trace=traceparent())
            if on is not None:
                self._be_ready(submission)
                return Handle(self, enqueue.submit(on, submission), task.returns)
            return Handle(self, self.call(self._submit(submission)), task.returns)

    async def astart(self, task: Task[P, R], submission: Submission, on: Any = None) -> Handle[R]:
        """The same in async code."""
        with trace_start(task.name):
            submission = replace(submission, trace=traceparent())
            if on is not None:
                await asyncio.to_thread(self._be_ready, submission)
                return Handle(self, await enqueue.asubmit(on, submission), task.returns)
            return Handle(self, await self.acall(self._submit(submission)), task.returns)

    def submit(self, submissions: Iterable[Submission]) -> list[Handle[Any]]:
        """Make many tasks in one statement, all or none: `hf.submit(send.submission(n) for n in orders)`."""
        made = list(submissions)
        return [self.handle(task_id) for task_id in self.call(self._submit_all(made))]

    async def asubmit(self, submissions: Iterable[Submission]) -> list[Handle[Any]]:
        """The same in async code."""
        made = list(submissions)
        return [self.handle(task_id) for task_id in await self.acall(self._submit_all(made))]

    def handle(self, task_id: UUID | str) -> Handle[Any]:
        """A handle on any task. Raises RequestInvalid for what is no id."""
        return Handle(self, encode.task_id(task_id))

    async def _submit(self, submission: Submission) -> UUID:
        return (await self._submit_all([submission]))[0]

    async def _submit_all(self, submissions: Sequence[Submission]) -> list[UUID]:
        opened = await self._open()
        await opened.make_queues({one.queue for one in submissions if one.queue in self._known_queues()})
        return [one.id for one in await opened.answers.submit(*submissions) if one.id]

    def _known_queues(self) -> set[str | None]:
        return {task.queue for task in self.tasks.values()}

    def _be_ready(self, submission: Submission) -> None:
        """The caller's transaction meets a schema and a queue that are there already. Raises AppInvalid."""
        if self.settings.is_remote:
            raise no_database()

        async def ready() -> None:
            opened = await self._open()
            await opened.make_queues({submission.queue} & self._known_queues())

        if submission.queue or submission.lifecycle in self.lifecycles:
            self.call(ready())

    async def ended(self, task_id: UUID, timeout: float | None = None) -> Ended:  # noqa: ASYNC109
        try:
            return await (await self._open()).ended(task_id, timeout)
        except TimeoutError as error:
            if not TOLD:
                raise
            raise TimeoutError(
                f"{error} In a test nothing runs by itself: call holdfast.run or holdfast.drain."
            ) from None

    # The database

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    @property
    def awaits(self) -> bool:
        """Whether somebody here waits for the end of a task."""
        return self._opened is not None and bool(self._opened.waiting)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncIterator[None]:
        """Open now, close at the end: `FastAPI(lifespan=hf.lifespan)`."""
        await self.acall(self._open())
        try:
            for mounted in self._mounted:
                await mounted.open()
            yield
        finally:
            for mounted in self._mounted:
                await mounted.close()
            await asyncio.to_thread(self.close)

    def asgi(self) -> "Mounted":
        """The HTTP API and its page, for a server of yours: `app.mount("/holdfast", hf.asgi())`. It asks for keys."""
        # The API is a room above this one: it is looked up by name, and only by who wants it.
        mounted: Mounted = importlib.import_module("holdfast.api.mounted").Mounted(self)
        self._mounted.append(mounted)
        return mounted

    async def declare(self, store: Store) -> None:
        """Write down the lifecycles that this application uses, and what else it has of its own."""
        await declare_all(store, self.lifecycles.values(), self.published())

    def published(self) -> dict[str, list[Any]]:
        """What the database is told of its tools, pipelines, batches, graphs and schedules. Raises AppInvalid."""
        own: dict[str, dict[str, Any]] = {
            "tools": self.tools, "pipelines": self.pipelines, "batches": self.batches, "dags": self.dags,
        }  # fmt: skip
        told = {kind: [one.published() for one in all_of.values()] for kind, all_of in own.items()}
        return {**told, "schedules": self.published_crons()}

    async def store_of(self, question: Callable[[Store], Awaitable[T]]) -> T:
        """The answer of the store; to be run in the SDK's own thread, by `call` or `acall`. Raises RequestInvalid."""
        return await question((await self._open()).store)

    async def asked(self, question: Callable[[ClientBackend], Awaitable[T]]) -> T:
        """The answer of the store, or of the server; to be run as `store_of` is."""
        return await question((await self._open()).answers)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._background(work).call(work)

    async def acall(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._background(work).acall(work)

    def _background(self, work: Coroutine[Any, Any, Any]) -> Background:
        """The thread to do it in. Raises AppInvalid while a worker imports the module that asks."""
        if LOADING:
            work.close()
            raise called_while_loading()
        with self._lock:
            if self._opened is None:
                self._opened = Opened()
            return self._opened.background

    async def _open(self) -> "Opened":
        opened = self._opened
        assert opened is not None  # noqa: S101 - we run in its thread
        settings = self.settings
        await opened.open(settings, self.declare, OPEN.get(settings.url or ""))
        return opened

    def close(self) -> None:
        """Give the connections back. The next use opens anew."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened:
            opened.close()


EVERY: "weakref.WeakSet[Holdfast]" = weakref.WeakSet()
FORKED: "list[Opened | None]" = []
TOLD: list[Settings] = []
OPEN: dict[str, Store] = {}
"""For tests: stores that are open already, by the address of their database."""


@contextlib.contextmanager
def all_pointed_at(settings: Settings) -> Iterator[None]:
    """For tests: until the block ends every application here uses this database, whatever it was told."""
    TOLD.append(settings)  # before the rest: a thread may open an application again at once
    close_all()
    try:
        yield
    finally:
        TOLD.pop()
        close_all()


@atexit.register
def close_all() -> None:
    for app in list(EVERY):
        app.close()


def forget_all() -> None:
    """In a forked child the threads and connections are the parent's: whoever is used there opens anew."""
    for app in list(EVERY):
        FORKED.append(app._opened)  # never collected here, which would end what the parent still uses
        app._lock = threading.Lock()
        app._opened = None
    OPEN.clear()


os.register_at_fork(after_in_child=forget_all)
