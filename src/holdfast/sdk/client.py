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
from typing import Any, ParamSpec, Protocol, TypeVar, overload
from uuid import UUID

from holdfast.durations import parse_duration
from holdfast.engine import values
from holdfast.engine.backend import ClientBackend
from holdfast.engine.lifecycle.model import Lifecycle
from holdfast.engine.store import encode
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Duration, Ended, Submission
from holdfast.errors import AppInvalid
from holdfast.execution.tracing import trace_start, traceparent
from holdfast.lifecycles import declare_all
from holdfast.lifecycles.analysis.declaration import ANALYSIS
from holdfast.lifecycles.analysis.handlers import handler
from holdfast.lifecycles.analysis.tools import Tool
from holdfast.lifecycles.batch.provider import Provider
from holdfast.lifecycles.batch.sdk import Batch
from holdfast.lifecycles.dispatch.sdk import Cutover, Dag, Writes
from holdfast.lifecycles.pipeline.sdk import Pipeline
from holdfast.remote.places import objects_of
from holdfast.schedules.store import Missed
from holdfast.sdk import enqueue
from holdfast.sdk.cron import Cron, Target
from holdfast.sdk.dataset import Dataset
from holdfast.sdk.handle import Handle
from holdfast.sdk.session import IMPORTING, LoopThread, Session, called_while_imported, no_database
from holdfast.sdk.task import AsyncTask, Errors, PlainTask, Prepared, Task, TaskMaker, check_task
from holdfast.settings import Settings, read_settings

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

default_queue = "default"


class Mounted(Protocol):
    """What `hf.asgi()` gives: an ASGI application that opens the database, and closes it."""

    async def __call__(self, scope: Any, receive: Any, send: Any, /) -> None: ...
    async def open(self) -> object: ...
    async def close(self) -> None: ...


class Holdfast:
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
        self.dags: dict[str, Dag] = {}
        self.crons: dict[str, Cron] = {}
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._mounted: list[Mounted] = []
        APPS.add(self)

    @property
    def settings(self) -> Settings:
        if OVERRIDES:
            return OVERRIDES[-1]
        settings = self._settings or read_settings(url=self._url)
        home = self._folder / settings.home  # of where it was made: a change of the folder keeps the database
        return replace(settings, home=home, url=self._url or settings.url)

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
        self.tasks[tool.id].isolated = True
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

    def dag(
        self, name: str, *, writes: Writes = (), cutover: Cutover = "auto", title: str = "", retries: int | None = None,
        timeout: Duration | None = None, queue: str | None = None, priority: int = 0, errors: Errors | None = None,
    ) -> Dag:  # fmt: skip
        """A graph of tasks; its nodes are added with `@dag.task`. Raises AppInvalid.

        writes: the datasets of which a run makes a new generation: a name, several, or {"prices": "extends"} for one
        that begins with what is there. It shows when the whole run has completed; with cutover="manual", when a person
        says so. retries, timeout, queue and priority hold for each node that says nothing else.
        """
        limit = None if timeout is None else parse_duration(timeout)
        made = Dag(self, name, title, writes, cutover, retries, limit, queue, priority, errors or {})
        for task in [one for one in self.tasks if name in self.dags and one.startswith(f"{name}.")]:
            del self.tasks[task]
        self.dags[name] = made
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

    def cron(
        self, cron: str, target: Target, /, *args: Any, name: str | None = None, timezone: str = "UTC",
        missed: Missed = "latest", at: str | None = None, **kwargs: Any,
    ) -> Cron:  # fmt: skip
        """Let the clock start a task: `hf.cron("0 2 * * *", send_report, 42, timezone="Europe/Berlin")`.

        target: a task, also with options, a pipeline or a graph; then its arguments. name: what people call the
        schedule; the target's by default. missed: what follows when no worker was there at a due time: one run for the
        `latest` of them, one for `all` (up to a thousand), or `skip`. at: the parameter that gets the due time. Raises
        AppInvalid.
        """
        if not isinstance(target, Prepared | Dag):
            raise AppInvalid(f"{target!r} cannot be started.", fix="Pass a function marked with @hf.task.")
        caller = sys._getframe(1)
        name = name or (target.task.name if isinstance(target, Prepared) else target.name)
        made = Cron(name, cron, timezone, target, args, kwargs, missed, at, (caller.f_code, caller.f_lineno))
        known = self.crons.get(made.name)
        if known and not known.is_again(made):
            raise AppInvalid(
                f"Two schedules cannot both be called {made.name!r}.", fix="Give one another name: name=..."
            )
        self.crons[made.name] = made
        return made

    # Bundled applications

    def documents(self, kind: str = "documents") -> None:
        """Offer to ingest documents (`POST /ingest/runs`): workers of this application do. Raises AppInvalid."""
        self._offer("documents", kind)

    def newsroom(self, name: str = "newsroom") -> Pipeline:
        """Offer the newsroom: feeds are read, sorted, softened and summed up in a brief. Raises AppInvalid."""
        newsroom: Pipeline = self._offer("newsroom", name)
        return newsroom

    def nightly(self, name: str = "nightly") -> Dag:
        """Offer the nightly graph: a harbour's papers become two datasets, published together. Raises AppInvalid."""
        nightly: Dag = self._offer("nightly", name)
        return nightly

    def providers(self) -> None:
        """Offer batches with all providers that come with Holdfast (`POST /batch/tasks`). Raises AppInvalid."""
        self._offer("providers")

    def _offer(self, bundled: str, *names: str) -> Any:
        """Bundled applications lie above the SDK: each is looked up by name, and imported when it is asked for."""
        return importlib.import_module(f"holdfast.apps.{bundled}").offer(self, *names)

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
                self._prepare(submission)
                return Handle(self, enqueue.submit(on, submission), task.returns)
            return Handle(self, self.call(self._submit(submission)), task.returns)

    async def astart(self, task: Task[P, R], submission: Submission, on: Any = None) -> Handle[R]:
        """The same in async code."""
        with trace_start(task.name):
            submission = replace(submission, trace=traceparent())
            if on is not None:
                await asyncio.to_thread(self._prepare, submission)
                return Handle(self, await enqueue.asubmit(on, submission), task.returns)
            return Handle(self, await self.acall(self._submit(submission)), task.returns)

    def submit(self, submissions: Iterable[Submission]) -> list[Handle[Any]]:
        """Make many tasks in one statement, all or none: `hf.submit(send.submission(n) for n in orders)`."""
        return self.call(self._submit_all(list(submissions)))

    async def asubmit(self, submissions: Iterable[Submission]) -> list[Handle[Any]]:
        """The same in async code."""
        return await self.acall(self._submit_all(list(submissions)))

    def handle(self, task_id: UUID | str) -> Handle[Any]:
        """A handle on any task. Raises RequestInvalid for what is not an id."""
        return Handle(self, encode.task_id(task_id))

    async def _submit(self, submission: Submission) -> UUID:
        return (await self._submit_all([submission]))[0].id

    async def _submit_all(self, submissions: Sequence[Submission]) -> list[Handle[Any]]:
        session = await self._open()
        await session.make_queues({one.queue for one in submissions if one.queue in self._known_queues()})
        return [Handle(self, one.id) for one in await session.backend.submit(*submissions) if one.id]

    def _known_queues(self) -> set[str | None]:
        return {task.queue for task in self.tasks.values()}

    def _prepare(self, submission: Submission) -> None:
        """The caller's transaction meets a schema and a queue that are there already. Raises AppInvalid."""
        if self.settings.is_remote:
            raise no_database()

        async def prepare() -> None:
            session = await self._open()
            await session.make_queues({submission.queue} & self._known_queues())

        if submission.queue or submission.lifecycle in self.lifecycles:
            self.call(prepare())

    async def wait_for_end(self, task_id: UUID, timeout: float | None = None) -> Ended:  # noqa: ASYNC109
        """How a task ended; to be run by `call` or `acall`. Raises TaskNotFound or TimeoutError."""
        try:
            return await (await self._open()).wait_for_end(task_id, timeout)
        except TimeoutError as error:
            if not OVERRIDES:
                raise
            raise TimeoutError(
                f"{error} In a test nothing runs by itself: call holdfast.run or holdfast.drain."
            ) from None

    # The database

    @property
    def is_open(self) -> bool:
        return self._session is not None

    @property
    def has_waiters(self) -> bool:
        """Whether something here waits for a task to end."""
        return bool(self._session and self._session.waiting)

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
        # The API is a layer above this one: it is looked up by name, when it is asked for.
        mounted: Mounted = importlib.import_module("holdfast.api.mounted").Mounted(self)
        self._mounted.append(mounted)
        return mounted

    async def declare(self, store: Store) -> None:
        """Write down the lifecycles that this application uses, and what else it has of its own."""
        await declare_all(store, self.lifecycles.values(), self.published())

    def published(self) -> dict[str, list[Any]]:
        """How its tools, pipelines, batches, graphs and schedules are declared. Raises AppInvalid."""
        own: dict[str, dict[str, Any]] = {
            "tools": self.tools, "pipelines": self.pipelines, "batches": self.batches, "dags": self.dags,
        }  # fmt: skip
        declared = {kind: [one.published() for one in all_of.values()] for kind, all_of in own.items()}
        queues = self._known_queues()
        return {**declared, "schedules": [one.published(queues) for one in self.crons.values()]}

    async def open_store(self) -> Store:
        """The store; to be used in the SDK's own thread, in what `call` or `acall` run. Raises RequestInvalid."""
        return (await self._open()).store

    async def open_backend(self) -> ClientBackend:
        """The store, or the server; to be used as `open_store` is."""
        return (await self._open()).backend

    def query(self, ask: Callable[[ClientBackend], Awaitable[T]]) -> T:
        """The answer of the store, or of the server: `hf.query(lambda backend: backend.read(task_id))`."""
        return self.call(self._ask(ask))

    async def aquery(self, ask: Callable[[ClientBackend], Awaitable[T]]) -> T:
        """The same in async code."""
        return await self.acall(self._ask(ask))

    async def _ask(self, ask: Callable[[ClientBackend], Awaitable[T]]) -> T:
        return await ask(await self.open_backend())

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread(work).call(work)

    async def acall(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._thread(work).acall(work)

    def _thread(self, work: Coroutine[Any, Any, Any]) -> LoopThread:
        """The thread to do it in. Raises AppInvalid while a worker imports the module that asks."""
        if IMPORTING:
            work.close()
            raise called_while_imported()
        with self._lock:
            if self._session is None:
                self._session = Session()
            return self._session.thread

    async def _open(self) -> Session:
        session = self._session
        assert session is not None  # noqa: S101 - we run in its thread
        settings = self.settings
        await session.open(settings, self.declare, OPEN_STORES.get(settings.url or ""))
        return session

    def close(self) -> None:
        """Give the connections back. The next use opens it again."""
        with self._lock:
            session, self._session = self._session, None
        if session:
            session.close()


APPS: "weakref.WeakSet[Holdfast]" = weakref.WeakSet()
INHERITED: list[Session | None] = []
"""In a forked child: the sessions of its parent, never collected here, which would end what the parent still uses."""
OVERRIDES: list[Settings] = []
OPEN_STORES: dict[str, Store] = {}
"""For tests: stores that are open already, by the address of their database."""


@contextlib.contextmanager
def override_settings(settings: Settings) -> Iterator[None]:
    """For tests: until the block ends every application here uses these settings, whatever its own are."""
    OVERRIDES.append(settings)  # before the rest: a thread may open an application again at once
    close_all()
    try:
        yield
    finally:
        OVERRIDES.pop()
        close_all()


@atexit.register
def close_all() -> None:
    for app in list(APPS):
        app.close()


def forget_all() -> None:
    """In a forked child the threads and connections are the parent's: an application that is used there opens again."""
    for app in list(APPS):
        INHERITED.append(app._session)
        app._lock = threading.Lock()
        app._session = None
    OPEN_STORES.clear()


os.register_at_fork(after_in_child=forget_all)
