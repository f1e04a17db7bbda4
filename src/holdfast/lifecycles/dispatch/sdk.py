"""`hf.dag(...)`: a graph of tasks. Its functions stay plain functions; a run is one task that gathers them.

A node takes what it is named after: a parameter called like another node is that node's result, and an edge; every
other one is a parameter of the run. In which order nodes are written does not matter, so what they name is looked up
when the graph is published; a circle is reported as soon as it closes.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, overload

from pydantic import ValidationError

from holdfast.durations import parse_duration
from holdfast.engine import values
from holdfast.engine.params import (
    MORE,
    describe_parameters,
    join_parameters,
    parameters,
    present_as,
    typed_parameters,
)
from holdfast.engine.store.calls import patiently
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Duration, Json, Policy
from holdfast.errors import AppInvalid, PayloadInvalid, RequestInvalid, SchemaInvalid
from holdfast.execution.attempt import ATTEMPT
from holdfast.execution.classify import Errors
from holdfast.execution.threads import call_function
from holdfast.execution.tracing import trace_start, traceparent
from holdfast.lifecycles.dispatch.declaration import DISPATCH
from holdfast.lifecycles.dispatch.store import Dags
from holdfast.sdk.handle import Handle
from holdfast.sdk.task import AsyncTask, check_task, is_again, read_tags

if TYPE_CHECKING:
    from holdfast.sdk.client import Holdfast

F = TypeVar("F", bound=Callable[..., Any])
Mode = Literal["replace", "extends"]
Cutover = Literal["auto", "manual"]
Writes = str | Sequence[str] | Mapping[str, Mode]
After = str | Iterable[str] | Mapping[str, Policy]

longest_name = 100
WELL = ("done", "partial")


@dataclass(frozen=True)
class Node:
    """A function and how it is run. `after` are the nodes that it names besides its parameters."""

    name: str
    function: Callable[..., Any]
    after: Mapping[str, Policy]
    on_failure: Policy
    queue: str | None
    retries: int | None
    timeout: timedelta | None
    priority: int


class Start:
    """A graph with options, to be started: those that `opts` takes."""

    def __init__(self, dag: "Dag", **options: Any) -> None:
        self.dag = dag
        self.options = options

    def start(self, **params: Any) -> Handle[dict[str, int]]:
        """Make a run and return at once. Raises a RequestInvalid, and then nothing was made."""
        with trace_start(self.dag.name):
            return self.dag.app.call(self._begin(self._encode(params)))

    async def astart(self, **params: Any) -> Handle[dict[str, int]]:
        """The same in async code."""
        with trace_start(self.dag.name):
            return await self.dag.app.acall(self._begin(self._encode(params)))

    def _encode(self, values_of: Mapping[str, Any]) -> dict[str, Json]:
        """The parameters as JSON. Raises TypeError as a call would, or PayloadInvalid."""
        params = self.dag.params()
        signature = inspect.Signature(sorted(params.values(), key=lambda one: one.kind))
        given = dict(signature.bind(**values_of).arguments)
        given |= given.pop("_more", {})
        for name, one in given.items():
            given[name] = values.dump(one)
            if name not in params:
                continue
            try:
                values.load_at(name, given[name], params[name].annotation)
            except ValidationError as error:
                raise PayloadInvalid(
                    f"{self.dag.name}: {values.describe(error)}.",
                    fix="Pass what the annotations of its nodes ask for.",
                ) from error
        return given

    async def _begin(self, params: Mapping[str, Json]) -> Handle[dict[str, int]]:
        dag, options = self.dag, {"key": None, "tags": (), **self.options, "trace": traceparent()}
        options["tags"] = read_tags(options["tags"])
        backend = await dag.app.open_backend()
        if isinstance(backend, Store):
            run, _ = await Dags.over(backend).start(dag.name, params, **options)
            return Handle(dag.app, run, dict[str, int])
        from holdfast.remote.client_backend import RemoteClient  # imported only where HTTP is used

        assert isinstance(backend, RemoteClient)  # noqa: S101
        owner, priority = options.pop("owner", ""), options.pop("priority", None)
        if owner or priority is not None:
            raise RequestInvalid(
                f"{dag.name}: over HTTP a run belongs to the owner of the key, and has no priority of its own.",
                fix="Leave out owner and priority, or set HOLDFAST_URL.",
            )
        run = await backend.start_dag(dag.name, params, **options)
        return Handle(dag.app, run, dict[str, int])


class Dag(Start):
    """A graph of an application, to be started without options. Made by `Holdfast.dag`.

    `nightly.start(day="2026-11-18")` makes a run, which is given by name what its nodes take; its result says how
    many of them ended how.
    """

    def __init__(
        self, app: "Holdfast", name: str, title: str, writes: Writes, cutover: Cutover, retries: int | None,
        timeout: timedelta | None, queue: str | None, priority: int, errors: Errors,
    ) -> None:  # fmt: skip
        if not isinstance(name, str) or not 1 <= len(name) <= longest_name:
            raise AppInvalid(f"{name!r} is not the name of a graph.", fix='Give it one: hf.dag("nightly").')
        if cutover not in get_args(Cutover):
            raise AppInvalid(f"{name}: cutover={cutover!r}.", fix='It is "auto", or "manual": a person decides.')
        super().__init__(self)
        self.app = app
        self.name = name
        self.title = title
        self.writes = modes(name, writes)
        self.cutover = cutover
        self.retries = retries
        self.timeout = timeout
        self.queue = queue
        self.priority = priority
        self.errors: Errors = dict(errors)
        self.nodes: dict[str, Node] = {}

    def __repr__(self) -> str:
        return f"<dag {self.name}: {', '.join(self.nodes) or 'no nodes yet'}>"

    @overload
    def task(self, function: F, /) -> F: ...
    @overload
    def task(
        self, given: str | None = None, /, *, name: str | None = None, after: After = (), on_failure: Policy = "cancel",
        retries: int | None = None, timeout: Duration | None = None, queue: str | None = None,
        priority: int | None = None,
    ) -> Callable[[F], F]: ...  # fmt: skip

    def task(
        self,
        given: Any = None,
        /,
        *,
        name: str | None = None,
        after: After = (),
        on_failure: Policy = "cancel",
        retries: int | None = None,
        timeout: Duration | None = None,
        queue: str | None = None,
        priority: int | None = None,
    ) -> Any:
        """Make a function a node; it stays a plain function too. Raises AppInvalid.

        name: otherwise than its function. after: nodes that it comes after besides those that its parameters name: a
        name, several, or {name: policy}. on_failure: the policy of all others: "cancel", "skip", or "ignore", with
        which it runs all the same, and gets None for one that ended badly. retries, timeout, queue, priority: otherwise
        than the graph's.
        """
        scope = sys._getframe(1).f_locals

        def make(function: F) -> F:
            limit = self.timeout if timeout is None else parse_duration(timeout)
            tries = self.retries if retries is None else retries
            place = self.priority if priority is None else priority
            own = (given if isinstance(given, str) else name) or str(getattr(function, "__name__", ""))
            check_task(own, function, {}, retries=tries, limit=limit, priority=place, errors=None)
            values.read_hints(function, scope)
            named = [after] if isinstance(after, str) else after
            policies = dict(named) if isinstance(named, Mapping) else dict.fromkeys(named, on_failure)
            self._add(Node(own, function, policies, on_failure, queue or self.queue, tries, limit, place))
            for node in self.nodes.values():
                if node.name == own or own in parameters(node.function):
                    self._register(node)
            return function

        return make(given) if callable(given) else make

    # Starting

    def opts(
        self, *, key: str | None = None, tags: Sequence[str] = (), owner: str = "", priority: int | None = None
    ) -> Start:
        """A run with options: the same key gives the same run; tags and priority are those of all its nodes."""
        return Start(self, key=key, tags=tags, owner=owner, priority=priority)

    # Running

    def published(self) -> dict[str, Any]:
        """The graph as the database keeps it. Raises AppInvalid."""
        if not self.nodes:
            raise self._wrong("it has no nodes.", "Add some: @dag.task")
        edges = []
        for node in self.nodes.values():
            for name, policy in self.upstream(node).items():
                if name not in self.nodes:
                    raise self._wrong(
                        f"{node.name} comes after {name!r}, which is not a node.",
                        f"Its nodes are: {', '.join(self.nodes)}.",
                    )
                edges.append({"from": name, "to": node.name, "on_failure": policy})
        return {
            "name": self.name, "title": self.title, "writes": dict(self.writes), "cutover": self.cutover,
            "nodes": [self._describe(one) for one in self.nodes.values()], "edges": edges,
            "params": describe_parameters(self.params()),
        }  # fmt: skip

    def params(self) -> dict[str, inspect.Parameter]:
        """What a run takes: the parameters of all nodes that name no node. Two may share one that means the same."""
        return join_parameters(
            f"Graph {self.name}", [(node.name, self._own_params(node)) for node in self.nodes.values()]
        )

    def upstream(self, node: Node) -> dict[str, Policy]:
        """What a node comes after, by name, and what follows from a bad end of each."""
        named = [one for one in parameters(node.function) if one in self.nodes and one != node.name]
        return {**dict.fromkeys(named, node.on_failure), **node.after}

    def _own_params(self, node: Node) -> dict[str, inspect.Parameter]:
        """Those parameters of a node that are the run's."""
        return {name: one for name, one in typed_parameters(node.function).items() if name not in self.nodes}

    def _describe(self, node: Node) -> dict[str, Json]:
        own = self._own_params(node)
        return {
            "name": node.name, "task": f"{self.name}.{node.name}", "queue": node.queue, "priority": node.priority,
            "params": [MORE if one.kind is one.VAR_KEYWORD else name for name, one in own.items()],
            "max_attempts": None if node.retries is None else node.retries + 1,
        }  # fmt: skip

    def _add(self, node: Node) -> None:
        """Another node, before or behind those that are there; the same function again takes its own place."""
        self._check(node)
        before = dict(self.nodes)
        self.nodes[node.name] = node
        try:
            # Any circle goes through this node, which comes first here and so in the circle that is found.
            TopologicalSorter({one.name: self.upstream(one) for one in (node, *self.nodes.values())}).prepare()
            self.params()
        except CycleError as error:
            self.nodes = before
            circle = " -> ".join(error.args[1])
            raise self._wrong(f"its nodes wait for each other: {circle}.", "Take an edge away.") from None
        except AppInvalid:
            self.nodes = before
            raise

    def _check(self, node: Node) -> None:
        """Raise AppInvalid. A name that is taken stays with the same function, defined again in a notebook."""
        name, known = node.name, self.nodes.get(node.name)
        if known and not is_again(known.function, node.function):
            raise self._wrong(f"two nodes cannot both be called {name}.", "Give one name=...")
        if not known and f"{self.name}.{name}" in self.app.tasks:
            raise AppInvalid(f"There is a task {self.name}.{name} already.", fix="Rename it, or the node.")
        if not 1 <= len(name) <= longest_name or not name.isidentifier():
            raise self._wrong(
                f"{name!r} is not the name of a node.", "Write @dag.task above a function, or give it name=..."
            )
        for one in parameters(node.function).values():
            if one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL):
                raise self._wrong(f"{name} takes {one} by its place.", "A node is called by names.")
        if name in parameters(node.function) or name in node.after:
            raise self._wrong(f"{name} comes after itself.", "Name another node, or rename the parameter.")
        for policy in (node.on_failure, *node.after.values()):
            if policy not in get_args(Policy):
                raise self._wrong(f"{name}: {policy!r} is not a policy.", "It is cancel, skip or ignore.")

    def _wrong(self, problem: str, fix: str) -> AppInvalid:
        return AppInvalid(f"Graph {self.name}: {problem}", fix=fix)

    def _register(self, node: Node) -> None:
        """The task that workers run, known to the application: it takes what is the run's by now."""
        name = f"{self.name}.{node.name}"
        wanted = [one for one in self.upstream(node) if one in parameters(node.function)]

        async def run(**given: Any) -> Any:
            return await call_function(node.function, (), {**given, **await self._results_of(wanted, node.function)})

        returns, doc = values.returned_by(node.function), node.function.__doc__
        self.app.tasks[name] = AsyncTask(
            self.app, present_as(run, name, self._own_params(node).values(), returns, doc), name=name, queue=node.queue,
            retries=node.retries, timeout=node.timeout, priority=node.priority, lifecycle=DISPATCH.name,
            errors=self.errors,
        )  # fmt: skip

    async def _results_of(self, nodes: Sequence[str], function: Callable[..., Any]) -> dict[str, Any]:
        """What these nodes returned, as the function takes it; None for one that ended badly and is ignored.

        Outside of a worker there is nothing. Raises SchemaInvalid for a result that does not fit.
        """
        attempt = ATTEMPT.get()
        if attempt is None or not nodes:
            return {}
        ended = {one.name: one for one in await patiently(lambda: attempt.backend.held_upstream(attempt.lease))}
        kinds = values.hints(function)
        results: dict[str, Any] = {}
        for name in nodes:
            one = ended.get(f"{self.name}.{name}")
            if one is None or one.outcome not in WELL:
                results[name] = None
                continue
            try:
                results[name] = values.load_at(name, one.result, kinds.get(name, Any))
            except ValidationError as error:
                raise SchemaInvalid(
                    f"What {name} returned does not fit the parameter {name}: {values.describe(error)}.",
                    code="upstream-result",
                ) from error
        return results


def modes(dag: str, writes: Writes) -> dict[str, Mode]:
    """The datasets, and of each whether it is replaced or extended. Raises AppInvalid."""
    if isinstance(writes, str):
        return {writes: "replace"}
    found = dict(writes) if isinstance(writes, Mapping) else dict.fromkeys(writes, "replace")
    for name, mode in found.items():
        if not isinstance(name, str) or mode not in get_args(Mode):
            raise AppInvalid(f"{dag}: writes={writes!r}.", fix='Name datasets: "prices", or {"prices": "extends"}.')
    return found  # type: ignore[return-value]
