"""The nodes of a graph, as they are declared: plain functions, and what each of them comes after.

A node takes what it is named after: a parameter called like another node is that node's result, and an edge; every
other one is a parameter of the run. In which order nodes are written does not matter, so what they name is looked up
when the graph is published; a circle is told as soon as it closes.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from holdfast.engine import values
from holdfast.engine.params import MORE, joined, parameters, published
from holdfast.engine.task import Json, Policy
from holdfast.errors import AppInvalid

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
