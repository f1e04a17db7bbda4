"""`hf.pipeline(...)`: stages in an order, one job that goes through them."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast.durations import parse_duration
from holdfast.engine import values
from holdfast.engine.task import Duration
from holdfast.errors import AppInvalid
from holdfast.execution.classify import Errors
from holdfast.execution.context import current
from holdfast.lifecycles.pipeline.declaration import PIPELINE
from holdfast.lifecycles.pipeline.running import run_job
from holdfast.lifecycles.pipeline.stages import Stages, When
from holdfast.remote.places import objects_of
from holdfast.sdk.task import AsyncTask, Options, Prepared, check_task

if TYPE_CHECKING:
    from holdfast.sdk.client import Holdfast

F = TypeVar("F", bound=Callable[..., Any])
Report = dict[str, Any]


class Pipeline(Prepared[..., Report]):
    """A pipeline of an application. Made by `Holdfast.pipeline`.

    `newsroom.start(enable_evaluation=True)` makes a job, which is told by name what the stages take.
    """

    def __init__(
        self,
        app: "Holdfast",
        name: str,
        title: str,
        limit: timedelta | None,
        retries: int,
        timeout: timedelta | None,
        queue: str | None,
        priority: int,
        errors: Errors,
    ) -> None:
        self.app = app
        self.name = name
        self.title = title
        self.limit = limit
        self.retries = retries
        self.timeout = timeout
        self.queue = queue or PIPELINE.queue
        self.priority = priority
        self.errors: Errors = dict(errors)
        self.stages = Stages(name)
        check_task(name, self._run, app.tasks, retries=retries, limit=limit, priority=priority, errors=errors)
        super().__init__(self._registered(), Options(time_limit=limit))

    def __repr__(self) -> str:
        return f"<pipeline {self.name}: {', '.join(one.name for one in self.stages.stages) or 'no stages yet'}>"

    @overload
    def stage(self, function: F, /) -> F: ...
    @overload
    def stage(
        self, name: str | None = None, /, *, needs: Iterable[str] | str = (), when: When | None = None,
        required: bool | None = None, retries: int | None = None, timeout: Duration | None = None,
    ) -> Callable[[F], F]: ...  # fmt: skip

    def stage(
        self,
        given: Any = None,
        /,
        *,
        needs: Iterable[str] | str = (),
        when: When | None = None,
        required: bool | None = None,
        retries: int | None = None,
        timeout: Duration | None = None,
    ) -> Any:
        """Make a function the next stage; it stays a plain function too. Raises AppInvalid.

        needs: stages before it without whose result it is skipped, besides those that its parameters name. when: a flag
        of the job, or a function that decides. required: if it fails the job has failed; so it is with the first stage.
        retries, timeout: otherwise than the pipeline's.
        """
        scope = sys._getframe(1).f_locals
        name = given if isinstance(given, str) else None

        def make(function: F) -> F:
            limit = self.timeout if timeout is None else parse_duration(timeout)
            tries = self.retries if retries is None else retries
            called = name or str(getattr(function, "__name__", ""))
            check_task(called, function, {}, retries=tries, limit=limit, priority=0, errors=None)
            for one in (function, when):
                if callable(one):
                    values.read_hints(one, scope)
            self.stages.add(function, called, needs=needs, when=when, required=required, retries=tries, timeout=limit)
            self.task = self._registered()
            vars(self).pop("_form", None)  # what was prepared of a shorter pipeline
            return function

        return make(given) if callable(given) else make

    # Starting

    def opts(
        self,
        *,
        key: str | None = None,
        delay: Duration | None = None,
        priority: int | None = None,
        tags: Sequence[str] = (),
        limit: Duration | None = None,
        owner: str = "",
        on: Any = None,
    ) -> Prepared[..., Report]:
        """A job with options: key, delay, priority, tags as for tasks; limit: otherwise than the pipeline's."""
        lasting = self.limit if limit is None else limit
        return self.task.opts(
            key=key, delay=delay, priority=priority, tags=tags, time_limit=lasting, owner=owner, on=on
        )  # fmt: skip

    # Running

    def published(self) -> dict[str, Any]:
        """What the database is told of it. Raises AppInvalid."""
        if not self.stages.stages:
            raise AppInvalid(f"The pipeline {self.name} has no stages.", fix="Add some: @pipeline.stage")
        stages, params = self.stages.published()
        return {
            "name": self.name, "title": self.title, "stages": stages, "params": params, "queue": self.queue,
            "max_attempts": self._tries(), "limit_seconds": self.limit and self.limit.total_seconds(),
        }  # fmt: skip

    def _registered(self) -> AsyncTask[..., Report]:
        """The task that workers run, known to the application: it takes what the stages take by now."""
        task: AsyncTask[..., Report] = AsyncTask(
            self.app, self._handler(), name=self.name, queue=self.queue, retries=self._tries() - 1, timeout=None,
            priority=self.priority, lifecycle=PIPELINE.name, errors={},
        )  # fmt: skip
        self.app.tasks[self.name] = task
        return task

    def _tries(self) -> int:
        return 1 + max((one.retries for one in self.stages.stages), default=self.retries)

    def _handler(self) -> Callable[..., Any]:
        """What runs a job, with the parameters of all stages as its own."""

        async def run(**params: Any) -> Any:
            return await self._run()

        signature = self.stages.signature()
        kinds = {name: one.annotation for name, one in signature.parameters.items()}
        vars(run).update(__signature__=signature, __name__=self.name, __qualname__=self.name)
        run.__annotations__ = {**kinds, "return": Report}
        return run

    async def _run(self) -> Any:
        payload = current().payload
        params: Mapping[str, Any] = payload if isinstance(payload, dict) else {}
        return await run_job(self.stages, lambda: objects_of(self.app.settings), self.errors, params)
