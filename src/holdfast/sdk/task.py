"""A function that can also be run durably. Called, it is the plain function it was; started, it becomes a task."""

import functools
import inspect
import json
import operator
import reprlib
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, Protocol, TypeVar, cast, get_args, overload
from uuid import UUID

from pydantic import ValidationError

from holdfast.durations import parse_duration
from holdfast.engine import values
from holdfast.engine.store import encode
from holdfast.engine.task import Duration, Json, Outcome, Policy, Submission
from holdfast.errors import AppInvalid, Failure, PayloadInvalid, RequestInvalid
from holdfast.execution.classify import Errors as Errors
from holdfast.execution.tracing import traceparent
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.sdk.client import Holdfast
    from holdfast.sdk.handle import Handle

    Waited = Handle[Any] | UUID | str
    After = Sequence[Waited] | Mapping[Waited, Policy]

P = ParamSpec("P")
R = TypeVar("R")

OUTCOMES = get_args(Outcome)


class Prepared(Generic[P, R]):
    """A task with options, to be started: those that `opts` takes. One that is left out is as a `Submission` has it."""

    def __init__(self, task: "Task[P, R]", **options: Any) -> None:
        self.app = task.app
        self.task = task
        self.options = options

    def start(self, *args: P.args, **kwargs: P.kwargs) -> "Handle[R]":
        """Make the task and return at once. Raises a RequestInvalid, and then nothing was made."""
        return self.app.start(self.task, self.submission(*args, **kwargs), self.options.get("on"))

    async def astart(self, *args: P.args, **kwargs: P.kwargs) -> "Handle[R]":
        """The same in async code."""
        return await self.app.astart(self.task, self.submission(*args, **kwargs), self.options.get("on"))

    def submission(self, *args: P.args, **kwargs: P.kwargs) -> Submission:
        """The task as it would be made; `Holdfast.submit` makes many at once. Raises PayloadInvalid."""
        made = object.__new__(Submission)  # a thousand of them differ in these two fields, and share the others
        vars(made).update(self._form, payload=self.task.payload(args, kwargs), trace=traceparent())
        return made

    @functools.cached_property
    def _form(self) -> dict[str, Any]:
        """What the options say. Raises RequestInvalid."""
        task, given = self.task, self.options
        times = {name: parse_duration(given[name]) for name in ("delay", "time_limit") if given.get(name) is not None}
        form = {name: value for name, value in given.items() if name != "on"} | {
            "name": task.name,
            "lifecycle": task.lifecycle,
            "queue": given.get("queue") or task.queue,
            "priority": task.priority if given.get("priority") is None else given["priority"],
            "run_at": read_moment(given.get("run_at")),
            "max_attempts": None if task.retries is None else task.retries + 1,
            "after": read_after(given.get("after", ())),
            "tags": read_tags(given.get("tags", ())),
            **times,
        }
        return vars(Submission(**form))


@dataclass(eq=False, repr=False)
class Task(Prepared[P, R]):
    """A function with a name under which workers know it, to be started without options. Made by `Holdfast.task`."""

    __name__: ClassVar[str]
    __qualname__: ClassVar[str]

    app: "Holdfast"
    function: Callable[..., Any]
    _: KW_ONLY
    name: str
    queue: str | None
    retries: int | None
    timeout: timedelta | None
    priority: int
    lifecycle: str
    errors: Errors
    isolated: bool = False
    """Whether workers run it in a process of its own, which can be ended without harm to others."""

    def __post_init__(self) -> None:
        own = dict(vars(self))
        functools.update_wrapper(cast(Callable[..., Any], self), self.function)
        vars(self).update(own)  # a function may have attributes of these names
        super().__init__(self)
        self.signature = inspect.signature(self.function)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    @property
    def settings(self) -> Settings:
        """Those of its application."""
        return self.app.settings

    def __reduce__(self) -> str:
        return self.__qualname__  # as functions do: by the name under which its module has it

    @functools.cached_property
    def returns(self) -> object:
        """What its result is read as: the return annotation, without the outcomes that stand for themselves."""
        kind = values.returned_by(self.function)
        parts = [one for one in get_args(kind) or (kind,) if one not in OUTCOMES]
        if len(parts) == len(get_args(kind) or (kind,)):
            return kind
        return functools.reduce(operator.or_, parts) if parts else Any

    def opts(
        self,
        *,
        key: str | None = None,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        tags: Sequence[str] = (),
        after: "After" = (),
        on_failure: Policy = "cancel",
        limit_key: str | None = None,
        limit_to: int | None = None,
        time_limit: Duration | None = None,
        owner: str = "",
        on: Any = None,
    ) -> "Prepared[P, R]":
        """The same task with options: `send.opts(key="inv-42", delay="5m").start(42)`.

        key: the same key gives the same task. delay, run_at: not before then. priority: 9 goes first. tags: to find it
        by. after: tasks to wait for, as a list, or as {task: policy}; on_failure is the policy of a list, and says what
        follows if one ends badly. limit_key, limit_to: so many with this key at once. on: a connection of yours, in
        whose transaction the task is made.
        """
        return Prepared(self, **{name: value for name, value in locals().items() if name != "self"})

    def payload(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Json]:
        """A call as JSON, argument by argument. Raises TypeError as the call would, or PayloadInvalid."""
        if self._is_plain and not kwargs and len(args) == len(self._reading):
            given = {name: value for (name, _, _), value in zip(self._reading, args, strict=True)}
        else:
            given = self.signature.bind(*args, **kwargs).arguments
        payload = {name: self._argument(name, value) for name, value in given.items()}
        try:
            self.arguments(payload)
        except ValidationError as error:
            raise PayloadInvalid(
                f"{self.name}: {values.describe(error)}.", fix="Pass what its annotations ask for."
            ) from error
        return payload

    def _argument(self, name: str, value: object) -> Json:
        if values.is_itself(value, type(value)):
            return cast(Json, value)
        try:
            argument = values.dump(value)
            json.dumps(argument, ensure_ascii=False).encode()
        except (PayloadInvalid, UnicodeEncodeError) as error:
            raise PayloadInvalid(
                f"{self.name}: {name}={reprlib.repr(value)}: {getattr(error, 'detail', None) or error}",
                fix="Pass what JSON can hold; put files where files live and pass their address.",
            ) from error
        return argument

    def arguments(self, payload: Json) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call that a payload stands for. Raises ValidationError for one that does not fit."""
        given = payload if type(payload) is dict else values.load(payload, dict[str, Any])
        bound = inspect.BoundArguments(self.signature, OrderedDict())
        problems: list[tuple[tuple[str], str]] = []
        for name, kind, is_needed in self._reading:
            if name in given:
                bound.arguments[name] = values.load_at(name, given[name], kind)
            elif is_needed:
                problems.append(((name,), "it is missing"))
        if len(bound.arguments) < len(given):
            unknown = [name for name in given if name not in self.signature.parameters]
            if self._more:
                more = {name: given[name] for name in unknown}
                bound.arguments[self._more] = {**bound.arguments.get(self._more, {}), **more}
            else:
                problems += [((name,), "it is not a parameter") for name in unknown]
        if problems:
            raise values.misfit(self.name, problems)
        if self._is_plain:
            return (), dict(bound.arguments)
        return bound.args, bound.kwargs

    @functools.cached_property
    def _reading(self) -> list[tuple[str, Any, bool]]:
        """How each parameter is read: its name, its type, and whether it must be there."""
        known = values.hints(self.function)
        reading: list[tuple[str, Any, bool]] = []
        for name, one in self.signature.parameters.items():
            kind = known.get(name, Any)
            if one.kind is one.VAR_POSITIONAL:
                reading.append((name, tuple[kind, ...], False))  # type: ignore[valid-type]
            elif one.kind is one.VAR_KEYWORD:
                reading.append((name, dict[str, kind], False))  # type: ignore[valid-type]
            else:
                reading.append((name, kind, one.default is one.empty))
        return reading

    @functools.cached_property
    def _more(self) -> str | None:
        """The parameter that takes whatever no other one does (`**more`)."""
        return next((name for name, one in self.signature.parameters.items() if one.kind is one.VAR_KEYWORD), None)

    @functools.cached_property
    def _is_plain(self) -> bool:
        """Whether each parameter can be passed by its name, and by its place."""
        either = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return all(one.kind is either for one in self.signature.parameters.values())


class PlainTask(Task[P, R]):
    """A task whose function is a plain `def`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Just call the function, here and now."""
        result: R = self.function(*args, **kwargs)
        return result


class AsyncTask(Task[P, R]):
    """A task whose function is `async def`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Just call the function, here and now."""
        result: Coroutine[Any, Any, R] = self.function(*args, **kwargs)
        return result


class TaskMaker(Protocol):
    """What `@hf.task(...)` gives: it makes a task of a function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...


def check_task(
    name: str, function: object, known: "Mapping[str, Task[..., Any]]", *,
    retries: int | None, limit: timedelta | None, priority: int, errors: Errors | None,
) -> None:  # fmt: skip
    """Raise AppInvalid for a task that could not be run."""
    problem, fix = "", ""
    if not callable(function):
        problem, fix = f"{function!r} is not a function.", "Write @hf.task, or @hf.task(name=..., retries=...)."
    elif not name:
        problem, fix = "A task needs a name.", "Give it one with name=..."
    elif name == "<lambda>":
        problem, fix = "A lambda has no name that workers could know it by.", "Give it one with name=..."
    elif is_unbound(function):
        problem = f"{name} is a method: its `self` would have to be kept with every task."
        fix = "Make a task of a plain function, and build the object in it."
    elif name in known and not is_again(known[name].function, function):
        problem, fix = f"Two tasks cannot both be called {name!r}.", "Give it another name with name=..."
    elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        problem, fix = f"{name} yields, and a task returns once.", "Return a list, or run each part as a step."
    elif retries is not None and (isinstance(retries, bool) or not isinstance(retries, int) or retries < 0):
        problem, fix = f"{name}: retries={retries!r}.", "Say how often to try again: 0 or more."
    elif isinstance(priority, bool) or priority not in range(10):
        problem, fix = f"{name}: priority={priority!r}.", "Give 0 to 9; 9 goes first."
    elif limit is not None and not limit:
        problem, fix = f"{name}: timeout=0 leaves it no time.", "Give a duration, or leave it out for none."
    elif not all(
        isinstance(one, type) and issubclass(one, kind)
        for pair in (errors or {}).items()
        for one, kind in zip(pair, (Exception, Failure), strict=True)
    ):
        problem, fix = f"{name}: errors={errors!r}.", "Map exceptions to categories: {ConnectionError: Transient}."
    if problem:
        raise AppInvalid(problem, fix=fix)


def is_unbound(function: object) -> bool:
    """Whether it is written in a class, and waits for the object."""
    owner = str(getattr(function, "__qualname__", "")).rpartition(".")[0]
    if not inspect.isfunction(function) or not owner or owner.endswith("<locals>"):
        return False
    return next(iter(inspect.signature(function).parameters), None) == "self"


def is_again(one: Callable[..., Any], other: object) -> bool:
    """Whether the same function is defined again, as in a notebook; two places in one file are two functions."""
    if any(getattr(one, name, one) != getattr(other, name, other) for name in ("__module__", "__qualname__")):
        return False
    first, then = (getattr(inspect.unwrap(each), "__code__", None) for each in (one, other))  # type: ignore[arg-type]
    if first is None or then is None or first.co_filename.startswith("<"):
        return True
    return bool(first.co_filename != then.co_filename or first.co_firstlineno == then.co_firstlineno)


def read_after(tasks: "After") -> list[UUID | int] | dict[UUID | int, Policy]:
    """The ids of handles, or ids as they are; with a policy for each, if they have some. Raises RequestInvalid."""
    if isinstance(tasks, str) or not isinstance(tasks, Iterable):
        raise RequestInvalid(f"after={tasks!r} is not a list.", fix="Pass a list of handles or ids.")
    ids: list[UUID | int] = [encode.task_id(one.id if hasattr(one, "id") else one) for one in tasks]
    return dict(zip(ids, tasks.values(), strict=True)) if isinstance(tasks, Mapping) else ids


def read_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags. Raises RequestInvalid for a lone string, whose letters they would be."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise RequestInvalid(f"tags={tags!r} is not a list.", fix='Pass a list: tags=["urgent"].')
    return tuple(tags)


def read_moment(at: datetime | None) -> datetime | None:
    """A time that means the same everywhere. Raises RequestInvalid."""
    if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
        raise RequestInvalid(f"run_at={at!r} names no time zone.", fix="Pass datetime.now(UTC) + ..., or use delay.")
    return at
