"""The stage of a history: whom a call can be about, how it is made, and how its effects are watched."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done, Lease, Moved, Outcome, Submission
from holdfast.errors import HoldfastError
from tests.machine import laws
from tests.machine.bucket import Bucket
from tests.machine.journal import Entry
from tests.machine.model import Call, Model
from tests.machine.pools import LIMIT_KEYS, SECOND
from tests.machine.seen import Seen, Window, proof

One = TypeVar("One")
WORKER = "worker"
BUDGET, CAPACITY, EVERY = "budget", 3, 2 * SECOND
MANY = 40


class Stage:
    """One history: the database, the model beside it, and how a call is made and watched."""

    def __init__(self, window: Window, store: Store, call: Callable[..., Any], tally: Counter[str]) -> None:
        window.clear()
        self.window = window
        self.store = store
        self.tally = tally
        self._call = call
        self.model = Model(window.look(), tally)
        self.keyed: dict[str, tuple[UUID, int]] = {}
        self.bucket = Bucket(CAPACITY, EVERY, self.model.seen.now)
        self.written = 0
        self.operations = 0
        self.touched: set[UUID] = set()
        self.journal: list[Entry] = []
        self.do(store.set_budget, BUDGET, CAPACITY, EVERY)

    # How a call is made and watched

    def do(self, verb: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Call a verb. Each task in its answer is one operation, and a call that answers none is one too."""
        entry = Entry(self.operations, verb.__name__, given, named)
        self.journal.append(entry)
        try:
            entry.answer = self._call(functools.partial(verb, *given, **named))
        except HoldfastError as error:
            entry.answer = type(error).__name__
            raise
        finally:
            self.operations += entry.size
        return entry.answer

    def observe(self, call: Call) -> Seen:
        """Take in what the call has changed; the moment before it."""
        before, after = self.model.seen, self.window.look()
        self.touched |= after.touched
        self.journal[-1].events = after.events
        self.model.observe(after, call)
        self.tally["somebody waits for a place"] += any(
            row["parked"] == "limit" and row["due_at"] <= before.now for row in self.model.seen.live.values()
        )
        return before

    def advance(self, by: timedelta) -> None:
        self.model.wait(self.window.advance(by))

    def submit_plain(self, *tasks: Submission) -> list[UUID]:
        seen = self.model.seen
        tasks = tuple(
            replace(task, limit_to=LIMIT_KEYS[task.limit_key])
            if task.limit_key and task.limit_key not in seen.allowed
            else task
            for task in tasks
        )
        made = self.do(self.store.submit, *tasks)
        assert all(one.created for one in made)
        self.observe(Call())
        for one, task in zip(made, tasks, strict=True):
            row = self.model.seen.row(one.id)
            assert row["due_at"] == seen.now + (task.delay or timedelta())
            assert (row["name"], row["priority"], row["limit_key"]) == (
                task.name or task.lifecycle,
                task.priority,
                task.limit_key,
            )
        return [one.id for one in made]

    def changed_nothing(self) -> None:
        before = self.observe(Call())
        assert before == self.model.seen, "a refused call has changed something"

    def refused(self, error: type[HoldfastError], verb: Callable[..., Any], *given: Any, **named: Any) -> None:
        with pytest.raises(error):
            self.do(verb, *given, **named)
        self.changed_nothing()

    def check_touched(self) -> None:
        """The laws, for the tasks that have changed since they were last checked."""
        laws.check(self.model, self.touched)
        self.touched.clear()

    def check_all(self) -> None:
        """What is too dear to be looked at after every call."""
        assert self.window.look_anew() == self.model.seen, "a row has changed that no call was seen to change"
        laws.check(self.model)
        assert self._call(self.store.verify) == []
        laws.check_explained(self.model.seen, self.window.explain_all())

    # Whom a call is about

    @staticmethod
    def pick(among: Sequence[One], which: int) -> One:
        return among[which % len(among)]

    def with_owner(self) -> list[UUID]:
        return [task for task, row in self.model.seen.live.items() if row["actor"] == "owner"]

    def worth_a_retry(self) -> list[UUID]:
        """Those that have ended, and first of all those that have come to a step."""
        ended = [task for task in self.model.lives if task in self.model.seen.done]
        return [task for task in ended if self.model.lives[task].log] or ended

    def tasks(self) -> list[UUID]:
        """The youngest of all."""
        return list(self.model.lives)[-MANY:]

    def leases(self) -> list[Lease]:
        """The last that were handed out for each of the youngest tasks."""
        return [lease for task in self.tasks() for lease in self.model.lives[task].handed[-5:]]

    def held_or_handed(self) -> list[Lease]:
        """Those that count and some that do not, so that those that count are picked about as often as the others."""
        held = [life.lease for life in self.model.lives.values() if life.lease]
        return held + self.leases()[-max(10, 2 * len(held)) :]

    def current(self, task: UUID) -> Lease:
        lease = self.model.lives[task].lease
        assert lease
        return lease

    def accepted(self) -> list[tuple[Lease, Outcome]]:
        return [life.accepted[:2] for life in self.model.lives.values() if life.accepted]

    @staticmethod
    def twisted(lease: Lease, twist: int) -> Lease:
        if twist == 2:
            return replace(lease, token=UUID(int=lease.token.int ^ 1))
        return replace(lease, attempt=lease.attempt + twist)

    @staticmethod
    def once_each(leases: Iterable[Lease]) -> list[Lease]:
        """No lease twice; but a task may come twice, with a stale lease and the current one."""
        return list({(lease.task_id, proof(lease)): lease for lease in leases}.values())

    def next_state(self, lease: Lease) -> str | None:
        life = self.model.lives[lease.task_id]
        return next((move.to for move in life.machine[life.state].moves if move.verb.startswith("to:")), None)

    def forward(self, lease: Lease) -> Outcome:
        to = self.next_state(lease)
        return Moved(to) if to else Done({"ok": True})
