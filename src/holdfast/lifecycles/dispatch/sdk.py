"""`hf.dag(...)`: a graph of tasks. Its functions stay plain functions; a run is one task that gathers them."""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, overload
from uuid import UUID

from pydantic import ValidationError

from holdfast.durations import parse_duration
from holdfast.engine import values
from holdfast.engine.backend import ClientBackend
from holdfast.engine.params import MORE, joined, parameters, published
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Duration, Json, Policy
from holdfast.errors import AppInvalid, PayloadInvalid, RequestInvalid
from holdfast.execution.classify import Errors
from holdfast.execution.tracing import trace_start, traceparent
from holdfast.lifecycles.dispatch.declaration import DISPATCH
from holdfast.lifecycles.dispatch.handlers import run_node
from holdfast.lifecycles.dispatch.store import Dags
from holdfast.sdk.handle import Handle
from holdfast.sdk.task import AsyncTask, check_task, is_again, words

if TYPE_CHECKING:
    from holdfast.sdk.client import Holdfast


longest_name = 100
After = str | Iterable[str] | Mapping[str, Policy]


@dataclass(frozen=True)
class Node:
    """A function and how it is run. `after` are the nodes that it names besides its parameters."""

    name: str
    function: Callable[..., Any]
    after: Mapping[str, Policy]
    on_failure: Policy
    queue: str | None
    max_attempts: int | None
    priority: int


class Nodes:
    """The nodes of one graph. Raises AppInvalid for what could not be run."""

    def __init__(self, dag: str) -> None:
        self.dag = dag
        self.nodes: dict[str, Node] = {}

    def add(self, node: Node) -> None:
        """Another node, before or behind those that are there; the same function again takes its own place."""
        self._check(node)
        before = self.nodes.get(node.name)
        self.nodes[node.name] = node
        try:
            if circle := self._circle(node.name):
                raise self._wrong(f"its nodes wait for each other: {' -> '.join(circle)}.", "Take an edge away.")
            self.params()
        except AppInvalid:
            if before:
                self.nodes[node.name] = before
            else:
                del self.nodes[node.name]
            raise

    def upstream(self, node: Node) -> dict[str, Policy]:
        """What a node comes after, by name, and what follows from a bad end of each."""
        named = [one for one in parameters(node.function) if one in self.nodes and one != node.name]
        return {**dict.fromkeys(named, node.on_failure), **node.after}

    def own_params(self, node: Node) -> dict[str, inspect.Parameter]:
        """Those parameters of a node that are the run's."""
        kinds = values.hints(node.function)
        return {
            name: one.replace(annotation=kinds.get(name, Any))
            for name, one in parameters(node.function).items()
            if name not in self.nodes
        }

    def params(self) -> dict[str, inspect.Parameter]:
        """What a run is told: the parameters of all nodes that name no node. Two may share one that means the same."""
        found: dict[str, inspect.Parameter] = {}
        for node in self.nodes.values():
            for name, one in self.own_params(node).items():
                if one.kind is one.VAR_KEYWORD:
                    found.setdefault(MORE, one.replace(name="_more"))
                    continue
                both = joined(found.get(name), one.replace(kind=one.KEYWORD_ONLY))
                if both is None:
                    raise self._wrong(
                        f"{node.name} takes {one}, and another node {found[name]}.",
                        "Let both say the same, or rename one.",
                    )
                found[name] = both
        return found

    def signature(self) -> inspect.Signature:
        """How a run is started."""
        return inspect.Signature(sorted(self.params().values(), key=lambda one: one.kind))

    def published(self) -> dict[str, Json]:
        """The nodes, edges and parameters, as the database is told of them."""
        if not self.nodes:
            raise self._wrong("it has no nodes.", "Add some: @dag.task")
        edges = []
        for node in self.nodes.values():
            for name, policy in self.upstream(node).items():
                if name not in self.nodes:
                    raise self._wrong(
                        f"{node.name} comes after {name!r}, which is no node.",
                        f"Its nodes are: {', '.join(self.nodes)}.",
                    )
                edges.append({"from": name, "to": node.name, "on_failure": policy})
        return {
            "nodes": [self._told(one) for one in self.nodes.values()],
            "edges": edges,
            "params": published(self.params()),
        }

    def _told(self, node: Node) -> dict[str, Json]:
        own = self.own_params(node)
        return {
            "name": node.name,
            "task": f"{self.dag}.{node.name}",
            "params": [MORE if one.kind is one.VAR_KEYWORD else name for name, one in own.items()],
            "queue": node.queue,
            "max_attempts": node.max_attempts,
            "priority": node.priority,
        }

    def _circle(self, start: str) -> list[str] | None:
        """The way from a node back to itself, if there is one: each comes before the next."""
        ways = {start: [start]}
        left = [start]
        while left:
            at = left.pop()
            for name in self.upstream(self.nodes[at]):
                if name == start:
                    return [start, *ways[at]]
                if name in self.nodes and name not in ways:
                    ways[name] = [name, *ways[at]]
                    left.append(name)
        return None

    def _check(self, node: Node) -> None:
        name = node.name
        if not 1 <= len(name) <= longest_name or not name.isidentifier():
            raise self._wrong(
                f"{name!r} is no name of a node.", "Write @dag.task above a function, or give it name=..."
            )
        for one in parameters(node.function).values():
            if one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL):
                raise self._wrong(f"{name} takes {one} by its place.", "A node is called by names.")
        if name in parameters(node.function) or name in node.after:
            raise self._wrong(f"{name} comes after itself.", "Name another node, or rename the parameter.")
        for policy in (node.on_failure, *node.after.values()):
            if policy not in get_args(Policy):
                raise self._wrong(f"{name}: {policy!r} is no policy.", "It is cancel, skip or ignore.")

    def _wrong(self, problem: str, fix: str) -> AppInvalid:
        return AppInvalid(f"Graph {self.dag}: {problem}", fix=fix)


def named(after: After, policy: Policy) -> dict[str, Policy]:
    """What `after` names: one node, several, or each with a policy of its own."""
    if isinstance(after, Mapping):
        return dict(after)
    return dict.fromkeys([after] if isinstance(after, str) else after, policy)


F = TypeVar("F", bound=Callable[..., Any])
Mode = Literal["replace", "extends"]
Cutover = Literal["auto", "manual"]
Writes = str | Sequence[str] | Mapping[str, Mode]


@dataclass(frozen=True)
class Start:
    """How one run of a graph is started."""

    dag: "Dag"
    key: str | None = None
    tags: Sequence[str] = ()
    owner: str = ""
    priority: int | None = None

    def start(self, **params: Any) -> Handle[dict[str, int]]:
        """Make a run and return at once. Raises a RequestInvalid, and then nothing was made."""
        with trace_start(self.dag.name):
            return self.dag.app.call(self._made(self._given(params)))

    async def astart(self, **params: Any) -> Handle[dict[str, int]]:
        """The same in async code."""
        with trace_start(self.dag.name):
            return await self.dag.app.acall(self._made(self._given(params)))

    def _given(self, params: Mapping[str, Any]) -> dict[str, Json]:
        """The parameters as JSON. Raises TypeError as a call would, or PayloadInvalid."""
        given = dict(self.dag.nodes.signature().bind(**params).arguments)
        given |= given.pop("_more", {})
        for name, one in given.items():
            given[name] = values.dump(one)
            known = self.dag.nodes.params().get(name)
            if known:
                try:
                    values.load_at(name, given[name], known.annotation)
                except ValidationError as error:
                    raise PayloadInvalid(
                        f"{self.dag.name}: {values.described(error)}.",
                        fix="Pass what the annotations of its nodes ask for.",
                    ) from error
        return given

    async def _made(self, params: Mapping[str, Json]) -> Handle[dict[str, int]]:
        trace, tags = traceparent(), words(self.tags)

        async def begin(answers: ClientBackend) -> UUID:
            if isinstance(answers, Store):
                run, _ = await Dags.over(answers).start(
                    self.dag.name, params, owner=self.owner, key=self.key, tags=tags, priority=self.priority,
                    trace=trace,
                )  # fmt: skip
                return run
            from holdfast.remote.client_backend import RemoteClient  # only who speaks HTTP pays for what it imports

            assert isinstance(answers, RemoteClient)  # noqa: S101
            if self.owner or self.priority is not None:
                raise RequestInvalid(
                    f"{self.dag.name}: over HTTP a run belongs to whoever has the key, and has no priority of its own.",
                    fix="Leave out owner and priority, or set HOLDFAST_URL.",
                )
            return await answers.start_dag(self.dag.name, params, key=self.key, tags=tags, trace=trace)

        return Handle(self.dag.app, await self.dag.app.asked(begin), dict[str, int])


class Dag:
    """A graph of an application. Made by `Holdfast.dag`.

    `nightly.start(day="2026-11-18")` makes a run, which is told by name what its nodes take; its result tells how many
    of them ended how.
    """

    is_dag = True

    def __init__(
        self, app: "Holdfast", name: str, title: str, writes: Writes, cutover: Cutover, retries: int | None,
        timeout: timedelta | None, queue: str | None, priority: int, errors: Errors,
    ) -> None:  # fmt: skip
        if not isinstance(name, str) or not 1 <= len(name) <= longest_name:
            raise AppInvalid(f"{name!r} is no name of a graph.", fix='Give it one: hf.dag("nightly").')
        if cutover not in get_args(Cutover):
            raise AppInvalid(f"{name}: cutover={cutover!r}.", fix='It is "auto", or "manual": a person decides.')
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
        self.nodes = Nodes(name)
        self._limits: dict[str, timedelta | None] = {}

    def __repr__(self) -> str:
        return f"<dag {self.name}: {', '.join(self.nodes.nodes) or 'no nodes yet'}>"

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
        called = given if isinstance(given, str) else name

        def make(function: F) -> F:
            limit = self.timeout if timeout is None else parse_duration(timeout)
            tries = self.retries if retries is None else retries
            place = self.priority if priority is None else priority
            own = called or str(getattr(function, "__name__", ""))
            check_task(own, function, {}, retries=tries, limit=limit, priority=place, errors=None)
            self._check_free(own, function)
            values.read_hints(function, scope)
            attempts = None if tries is None else tries + 1
            self.nodes.add(
                Node(own, function, named(after, on_failure), on_failure, queue or self.queue, attempts, place)
            )
            self._limits[own] = limit
            for node in self.nodes.nodes.values():
                if node.name == own or own in parameters(node.function):
                    self._register(node)
            return function

        return make(given) if callable(given) else make

    # Starting

    def opts(
        self, *, key: str | None = None, tags: Sequence[str] = (), owner: str = "", priority: int | None = None
    ) -> Start:
        """A run with options: the same key gives the same run; tags and priority are those of all its nodes."""
        return Start(self, key, tags, owner, priority)

    def start(self, **params: Any) -> Handle[dict[str, int]]:
        """Make a run and return at once. Raises a RequestInvalid, and then nothing was made."""
        return Start(self).start(**params)

    async def astart(self, **params: Any) -> Handle[dict[str, int]]:
        """The same in async code."""
        return await Start(self).astart(**params)

    # Running

    def published(self) -> dict[str, Any]:
        """What the database is told of it. Raises AppInvalid."""
        told = {"name": self.name, "title": self.title, "writes": dict(self.writes), "cutover": self.cutover}
        return told | self.nodes.published()

    def _check_free(self, name: str, function: Callable[..., Any]) -> None:
        """Raise AppInvalid for a name that another function has. The same one defined anew, in a notebook, is none."""
        known = self.nodes.nodes.get(name)
        if known and not is_again(known.function, function):
            raise AppInvalid(f"Graph {self.name}: two nodes cannot both be called {name}.", fix="Give one name=...")
        if not known and f"{self.name}.{name}" in self.app.tasks:
            raise AppInvalid(f"There is a task {self.name}.{name} already.", fix="Rename it, or the node.")

    def _register(self, node: Node) -> None:
        """The task that workers run, known to the application: it takes what is the run's by now."""
        called = f"{self.name}.{node.name}"
        own = self.nodes.own_params(node)
        takes = parameters(node.function)
        upstream = {one: one in takes for one in self.nodes.upstream(node)}

        async def run(**given: Any) -> Any:
            return await run_node(self.name, node.function, upstream, given)

        places = sorted(
            (one.replace(kind=max(one.kind, one.KEYWORD_ONLY)) for one in own.values()), key=lambda one: one.kind
        )
        vars(run).update(
            __signature__=inspect.Signature(places),
            __name__=node.name,
            __qualname__=called,
            __doc__=node.function.__doc__,
        )
        kinds = {name: one.annotation for name, one in own.items()}
        run.__annotations__ = {**kinds, "return": values.returned_by(node.function)}
        retries = None if node.max_attempts is None else node.max_attempts - 1
        self.app.tasks[called] = AsyncTask(
            self.app, run, name=called, queue=node.queue, retries=retries, timeout=self._limits[node.name],
            priority=node.priority, lifecycle=DISPATCH.name, errors=self.errors,
        )  # fmt: skip


class Graphs:
    """What an application has of graphs."""

    dags: dict[str, Dag]

    def dag(
        self, name: str, *, writes: Writes = (), cutover: Cutover = "auto", title: str = "", retries: int | None = None,
        timeout: Duration | None = None, queue: str | None = None, priority: int = 0, errors: Errors | None = None,
    ) -> Dag:  # fmt: skip
        """A graph of tasks; its nodes are added with `@dag.task`. Raises AppInvalid.

        writes: the datasets of which a run makes a new generation: a name, several, or {"prices": "extends"} for one
        that begins with what is there. It shows when the whole run has completed; with cutover="manual", when a person
        says so. retries, timeout, queue and priority hold for each node that says nothing else.
        """
        app: Any = self
        limit = None if timeout is None else parse_duration(timeout)
        made = Dag(app, name, title, writes, cutover, retries, limit, queue, priority, errors or {})
        for task in [one for one in app.tasks if name in self.dags and one.startswith(f"{name}.")]:
            del app.tasks[task]
        self.dags[name] = made
        return made


def modes(dag: str, writes: Writes) -> dict[str, Mode]:
    """The datasets, and of each whether it is replaced or extended. Raises AppInvalid."""
    if isinstance(writes, str):
        return {writes: "replace"}
    found = dict(writes) if isinstance(writes, Mapping) else dict.fromkeys(writes, "replace")
    for name, mode in found.items():
        if not isinstance(name, str) or mode not in get_args(Mode):
            raise AppInvalid(f"{dag}: writes={writes!r}.", fix='Name datasets: "prices", or {"prices": "extends"}.')
    return found  # type: ignore[return-value]
