"""`hf.pipeline(...)`: stages in an order, one job that goes through them.

A stage takes what it is named after: a parameter called like an earlier stage is that stage's result, every other one
is a parameter of the job. So `def brief(classify: list[Topic], length: int = 3)` needs the stage `classify`, and a job
may say `length`. Names of stages count whatever their case.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast.durations import parse_duration
from holdfast.engine import values
from holdfast.engine.params import describe_parameters, join_parameters, parameters, present_as, typed_parameters
from holdfast.engine.task import Duration, Json
from holdfast.errors import AppInvalid
from holdfast.execution.classify import Errors
from holdfast.lifecycles.pipeline.declaration import PIPELINE
from holdfast.lifecycles.pipeline.handlers import run_job
from holdfast.remote.places import objects_of
from holdfast.sdk.task import AsyncTask, Prepared, check_task

if TYPE_CHECKING:
    from holdfast.sdk.client import Holdfast

F = TypeVar("F", bound=Callable[..., Any])
Report = dict[str, Any]
When = str | Callable[..., bool]

longest_name = 100


@dataclass(frozen=True)
class Stage:
    """A function, and when and how it is run."""

    name: str
    function: Callable[..., Any]
    needs: tuple[str, ...]
    when: When | None
    required: bool
    retries: int
    timeout: timedelta | None

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """What runs in it: its condition, too."""
        return [self.function, self.when] if callable(self.when) else [self.function]

    def describe(self) -> dict[str, Json]:
        """What a job keeps of it."""
        return {
            "name": self.name, "needs": list(self.needs), "required": self.required, "retries": self.retries,
            "when": "decided as it runs" if callable(self.when) else self.when,
            "timeout_seconds": self.timeout and self.timeout.total_seconds(),
        }  # fmt: skip


class Pipeline(Prepared[..., Report]):
    """A pipeline of an application. Made by `Holdfast.pipeline`.

    `newsroom.start(enable_evaluation=True)` makes a job, which is given by name what the stages take.
    """

    def __init__(
        self, app: "Holdfast", name: str, title: str, limit: timedelta | None, retries: int, timeout: timedelta | None,
        queue: str | None, priority: int, errors: Errors,
    ) -> None:  # fmt: skip
        self.app = app
        self.name = name
        self.title = title
        self.limit = limit
        self.retries = retries
        self.timeout = timeout
        self.queue = queue or PIPELINE.queue
        self.priority = priority
        self.errors: Errors = dict(errors)
        self.stages: list[Stage] = []
        check_task(name, self._run, app.tasks, retries=retries, limit=limit, priority=priority, errors=errors)
        super().__init__(self._register(), time_limit=limit)

    def __repr__(self) -> str:
        return f"<pipeline {self.name}: {', '.join(one.name for one in self.stages) or 'no stages yet'}>"

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

        def make(function: F) -> F:
            limit = self.timeout if timeout is None else parse_duration(timeout)
            tries = self.retries if retries is None else retries
            name = given if isinstance(given, str) else str(getattr(function, "__name__", ""))
            check_task(name, function, {}, retries=tries, limit=limit, priority=0, errors=None)
            is_required = not self.stages if required is None else required
            stage = Stage(name, function, (), when, is_required, tries, limit)
            for one in stage.functions:
                values.read_hints(one, scope)
            self._check(stage)
            self._add(replace(stage, needs=self._needs_of(stage, needs)))
            return function

        return make(given) if callable(given) else make

    def find(self, name: str) -> Stage | None:
        """The stage of this name, whatever its case."""
        return next((one for one in self.stages if one.name.lower() == name.lower()), None)

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
        return self.task.opts(
            key=key, delay=delay, priority=priority, tags=tags, owner=owner, on=on,
            time_limit=self.limit if limit is None else limit,
        )  # fmt: skip

    # Running

    def published(self) -> dict[str, Any]:
        """The pipeline as the database keeps it. Raises AppInvalid."""
        if not self.stages:
            raise AppInvalid(f"The pipeline {self.name} has no stages.", fix="Add some: @pipeline.stage")
        return {
            "name": self.name, "title": self.title, "stages": [one.describe() for one in self.stages],
            "params": describe_parameters(self.params()), "queue": self.queue, "max_attempts": self._tries(),
            "limit_seconds": self.limit and self.limit.total_seconds(),
        }  # fmt: skip

    def params(self) -> dict[str, inspect.Parameter]:
        """What a job takes: the parameters of all functions that name no stage, and the flags of `when`."""
        taken: list[tuple[str, dict[str, inspect.Parameter]]] = []
        for stage in self.stages:
            if isinstance(stage.when, str):
                flag = inspect.Parameter(stage.when, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)
                taken.append((stage.name, {stage.when: flag}))
            for function in stage.functions:
                own = {name: one for name, one in typed_parameters(function).items() if not self.find(name)}
                taken.append((stage.name, own))
        return join_parameters(f"Pipeline {self.name}", taken)

    def _add(self, stage: Stage) -> None:
        self.stages.append(stage)
        try:
            self.task = self._register()
        except AppInvalid:
            self.stages.pop()
            raise
        vars(self).pop("_form", None)  # what was prepared of a shorter pipeline

    def _register(self) -> AsyncTask[..., Report]:
        """The task that workers run, known to the application: it takes what the stages take by now."""

        async def run(**params: Any) -> Any:
            return await self._run()

        # What a job needs may be a setting: the database says what is missing.
        params = [
            one if one.kind is one.VAR_KEYWORD or one.default is not one.empty else one.replace(default=None)
            for one in self.params().values()
        ]
        task: AsyncTask[..., Report] = AsyncTask(
            self.app, present_as(run, self.name, params, Report), name=self.name, queue=self.queue,
            retries=self._tries() - 1, timeout=None, priority=self.priority, lifecycle=PIPELINE.name, errors={},
        )  # fmt: skip
        self.app.tasks[self.name] = task
        return task

    def _tries(self) -> int:
        return 1 + max((one.retries for one in self.stages), default=self.retries)

    async def _run(self) -> Any:
        return await run_job(self.find, lambda: objects_of(self.app.settings), self.errors)

    # Checking

    def _needs_of(self, stage: Stage, needs: Iterable[str] | str) -> tuple[str, ...]:
        """The stages that it needs: those that are asked for, and those that its parameters name and must have."""
        asked = [needs] if isinstance(needs, str) else list(needs)
        for one in asked:
            if self.find(one) is None:
                raise self._wrong(
                    f"{stage.name} needs {one!r}, and there is no such stage before it.",
                    f"Before it are: {', '.join(each.name for each in self.stages) or 'none'}.",
                )
        for function in stage.functions:
            asked += [name for name, one in parameters(function).items() if one.default is one.empty]
        return tuple(dict.fromkeys(found.name for found in map(self.find, asked) if found))

    def _check(self, stage: Stage) -> None:
        name, when = stage.name, stage.when
        if len(name) > longest_name or not name.isidentifier():
            raise self._wrong(f"{name!r} is not the name of a stage.", "Write @pipeline.stage above a function.")
        if name.lower() in {one.lower() for one in self.params()}:
            raise self._wrong(f"{name} is a parameter of an earlier stage.", "Name one of them otherwise.")
        if self.find(name):
            raise self._wrong(
                f"Two stages cannot both be called {name}.", "Name one otherwise: @pipeline.stage('name')."
            )
        for given in (each for function in stage.functions for each in parameters(function).values()):
            if given.kind in (given.POSITIONAL_ONLY, given.VAR_POSITIONAL):
                raise self._wrong(f"{name} takes {given} by its place.", "A stage is called by names.")
            if given.name.lower() == name.lower():
                raise self._wrong(f"{name} takes a parameter that is called like itself.", "Rename one of them.")
        if when is not None and not isinstance(when, str) and not callable(when):
            raise self._wrong(f"{name}: when={when!r} is not a flag.", "Name one, or pass a function that decides.")
        if isinstance(when, str) and (not when.isidentifier() or self.find(when)):
            raise self._wrong(
                f"{name}: when={when!r} is not a flag.", 'Name a flag of the job: when="enable_evaluation".'
            )

    def _wrong(self, problem: str, fix: str) -> AppInvalid:
        return AppInvalid(f"Pipeline {self.name}: {problem}", fix=fix)
