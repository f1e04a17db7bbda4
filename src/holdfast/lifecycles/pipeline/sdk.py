"""`hf.pipeline(...)`: stages in an order, one job that goes through them."""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast.durations import parse_duration
from holdfast.engine import values
from holdfast.engine.params import MORE, joined, parameters, published
from holdfast.engine.task import Duration, Json
from holdfast.errors import AppInvalid
from holdfast.execution.classify import Errors
from holdfast.execution.context import current
from holdfast.lifecycles.pipeline.declaration import PIPELINE
from holdfast.lifecycles.pipeline.handlers import run_job
from holdfast.remote.places import objects_of
from holdfast.sdk.task import AsyncTask, Options, Prepared, check_task

if TYPE_CHECKING:
    from holdfast.sdk.client import Holdfast


longest_name = 100

When = str | Callable[..., bool]


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

    def published(self) -> dict[str, Json]:
        """What a job keeps of it."""
        flag = self.when if isinstance(self.when, str) else None
        return {
            "name": self.name,
            "needs": list(self.needs),
            "when": flag or ("decided as it runs" if self.when else None),
            "required": self.required,
            "retries": self.retries,
            "timeout_seconds": self.timeout and self.timeout.total_seconds(),
        }


class Stages:
    """The stages of one pipeline. Raises AppInvalid for what could not be run."""

    def __init__(self, pipeline: str) -> None:
        self.pipeline = pipeline
        self.stages: list[Stage] = []

    def find(self, name: str) -> Stage | None:
        """The stage of this name, whatever its case."""
        return next((one for one in self.stages if one.name.lower() == name.lower()), None)

    def add(
        self,
        function: Callable[..., Any],
        name: str,
        *,
        needs: Iterable[str] | str,
        when: When | None,
        required: bool | None,
        retries: int,
        timeout: timedelta | None,
    ) -> Stage:
        """Another stage, after those that are there. The first one is required unless it says otherwise."""
        self._check_function(name, function, when)
        asked = [needs] if isinstance(needs, str) else list(needs)
        for one in asked:
            if self.find(one) is None:
                raise self._wrong(
                    f"{name} needs {one!r}, and there is no such stage before it.",
                    f"Before it are: {', '.join(each.name for each in self.stages) or 'none'}.",
                )
        for each in (function, when):
            if callable(each):
                asked += [one for one, given in parameters(each).items() if given.default is given.empty]
        found = [stage.name for stage in map(self.find, asked) if stage]
        stage = Stage(
            name, function, tuple(dict.fromkeys(found)), when,
            not self.stages if required is None else required, retries, timeout,
        )  # fmt: skip
        self.stages.append(stage)
        try:
            self.params()
        except AppInvalid:
            self.stages.pop()
            raise
        return stage

    def params(self) -> dict[str, inspect.Parameter]:
        """What a job may be told: the parameters of all functions that name no stage, and the flags of `when`."""
        found: dict[str, inspect.Parameter] = {}
        for stage in self.stages:
            if isinstance(stage.when, str):
                self._join(found, flag(stage.when), stage)
            for function in (stage.function, stage.when if callable(stage.when) else None):
                if function is None:
                    continue
                for name, given in parameters(function).items():
                    if given.kind is given.VAR_KEYWORD:
                        found.setdefault(MORE, given.replace(name="_more"))
                    elif not self.find(name):
                        kind = values.hints(function).get(name, Any)
                        self._join(found, given.replace(kind=given.KEYWORD_ONLY, annotation=kind), stage)
        return found

    def signature(self) -> inspect.Signature:
        """How a job is started. What it must be told may be a setting: the database says what is missing."""
        found = sorted(self.params().values(), key=lambda one: one.kind)
        return inspect.Signature(
            [
                one if one.kind is one.VAR_KEYWORD or one.default is not one.empty else one.replace(default=None)
                for one in found
            ]
        )

    def published(self) -> tuple[list[Json], dict[str, Json]]:
        """The stages and the parameters, as the database is told of them."""
        return [stage.published() for stage in self.stages], published(self.params())

    def _join(self, found: dict[str, inspect.Parameter], one: inspect.Parameter, stage: Stage) -> None:
        """Two stages may take the same parameter if they mean the same by it."""
        both = joined(found.get(one.name), one)
        if both is None:
            raise self._wrong(
                f"{stage.name} takes {one}, and an earlier stage {found[one.name]}.",
                "Let both say the same, or rename one.",
            )
        found[one.name] = both

    def _check_function(self, name: str, function: Callable[..., Any], when: When | None) -> None:
        if not callable(function) or not 1 <= len(name) <= longest_name or not name.isidentifier():
            raise self._wrong(f"{name!r} is no name of a stage.", "Write @pipeline.stage above a function.")
        if name.lower() in {one.lower() for one in self.params()}:
            raise self._wrong(f"{name} is a parameter of an earlier stage.", "Name one of them otherwise.")
        if self.find(name):
            raise self._wrong(
                f"Two stages cannot both be called {name}.", "Name one otherwise: @pipeline.stage('name')."
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise self._wrong(f"{name} yields, and a stage returns once.", "Return a list.")
        for one in (function, when):
            for given in parameters(one).values() if callable(one) else ():
                if given.kind in (given.POSITIONAL_ONLY, given.VAR_POSITIONAL):
                    raise self._wrong(f"{name} takes {given} by its place.", "A stage is called by names.")
                if given.name.lower() == name.lower():
                    raise self._wrong(f"{name} takes a parameter that is called like itself.", "Rename one of them.")
        if when is not None and not isinstance(when, str) and not callable(when):
            raise self._wrong(f"{name}: when={when!r} is no flag.", "Name one, or pass a function that decides.")
        if isinstance(when, str) and (not when.isidentifier() or self.find(when)):
            raise self._wrong(f"{name}: when={when!r} is no flag.", 'Name a flag of the job: when="enable_evaluation".')

    def _wrong(self, problem: str, fix: str) -> AppInvalid:
        return AppInvalid(f"Pipeline {self.pipeline}: {problem}", fix=fix)


def flag(name: str) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)


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
