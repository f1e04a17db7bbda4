"""Owners and operators: each makes one call and compares the answer with what the model foresaw."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from holdfast.engine.task import Policy, Submission
from holdfast.errors import DependencyInvalid, KeyConflict, MoveRefused, StepUnknown, TaskExpired, VerbUnknown
from tests.machine.model import Call, leads
from tests.machine.seen import Row
from tests.machine.stage import MANY, Stage


class Owners(Stage):
    """Who submits, acts, cancels and retries."""

    def submit_dispatch(self, task: Submission, after: Sequence[int], policy: Policy, parent: int | None) -> None:
        seen = self.model.seen
        upstream = list(dict.fromkeys(self.pick(self.tasks(), which) for which in after if self.model.lives))
        above = self.pick(list(seen.live)[-MANY:], parent) if seen.live and parent is not None else None
        gathers = above is not None and seen.machine(above).name == "ingest"
        cyclic = above is not None and gathers and bool(set(upstream) & seen.leads_to(above))
        task = replace(task, after=upstream, on_failure=policy, parent=above)
        if cyclic:
            self.refused(DependencyInvalid, self.store.submit, task)
            self.tally["cycle refused"] += 1
        else:
            self.submit_plain(task)

    def submit_ingest(self, items: Sequence[Submission], siblings_wait: bool) -> None:
        """A run and its children; those that can wait, wait for the one before."""
        children = [
            replace(item, parent=0, after=[place] if siblings_wait and place and item.lifecycle == "dispatch" else ())
            for place, item in enumerate(items)
        ]
        self.submit_plain(Submission("run", lifecycle="ingest"), *children)

    def submit_with_key(self, key: str, payload: int) -> None:
        task = Submission("a", payload=payload, key=key)
        if key not in self.keyed:
            (made,) = self.submit_plain(task)
            self.keyed[key] = (made, payload)
        elif self.keyed[key][1] == payload:
            (again,) = self.do(self.store.submit, task)
            assert (again.id, again.created) == (self.keyed[key][0], False)
            self.changed_nothing()
            self.tally["key repeated"] += 1
        else:
            self.refused(KeyConflict, self.store.submit, task)
            self.tally["key conflicts"] += 1

    def submit_keyed_run(self, key: str, child_key: str | None) -> None:
        """A run and its child, again and again: neither is made twice, and a new child is made for the old run."""
        tasks = [Submission("run", lifecycle="ingest", key=key)]
        tasks.append(Submission("a", lifecycle="ingest_item", parent=0, key=child_key))
        body = int(child_key is None)  # a child without a key is part of what its parent is
        run, run_body = self.keyed.get(key, (None, body))
        child, _ = self.keyed.get(child_key or "", (None, 0))
        known = run is not None and (child is not None or child_key is None)
        if run_body != body:
            self.refused(KeyConflict, self.store.submit, *tasks)
            return
        if not known and (run in self.model.seen.done or child):
            self.refused(DependencyInvalid, self.store.submit, *tasks)
            return
        made = self.do(self.store.submit, *tasks)
        assert [one.created for one in made] == [run is None, not known]
        if known:
            assert [one.id for one in made] == [run, child]
            self.changed_nothing()
            self.tally["key repeated"] += 1
            return
        self.observe(Call())
        assert run in (None, made[0].id)
        assert self.model.seen.edges[made[1].id, made[0].id]["policy"] == "gather"
        self.keyed |= {one: (task.id, body) for one, task in zip((key, child_key), made, strict=True) if one}

    def act_on(self, task: UUID, verb: str | None) -> None:
        life, row = self.model.lives[task], self.model.seen.row(task)
        verbs = {
            move.verb for state in life.machine.states if state.actor == "owner" for move in state.moves
        } - {"cancel"}  # fmt: skip
        verb = verb or {"UPLOADING": "process"}.get(life.state, "upload_urls")
        target = leads(life.machine, life.state, verb)
        if row["actor"] == "owner" and row["deadline"] <= self.model.seen.now:
            with pytest.raises(TaskExpired):
                self.do(self.store.act, task, verb)
            self.observe(Call(acted=task))
            assert task in self.model.seen.done
            self.tally["act expired"] += 1
        elif row["actor"] == "owner" and target and verb in verbs:
            assert self.do(self.store.act, task, verb) == target
            self.observe(Call(acted=task))
        else:
            known = verb in verbs or row["actor"] == "nobody"
            self.refused(MoveRefused if known else VerbUnknown, self.store.act, task, verb)
            self.tally["act refused"] += 1

    def cancel_task(self, task: UUID) -> None:
        seen = self.model.seen
        effect = self.do(self.store.cancel, task)
        if task in seen.done:
            assert effect == "too_late"
            self.changed_nothing()
            self.tally["cancelled too late"] += 1
        elif self.is_over_without_a_sweep(seen.live[task]):
            assert effect == "too_late"
            self.observe(Call())
            assert self.model.seen.done[task]["verb"] == "limit"
        elif self.model.lives[task].lease:
            assert effect == "requested"
            again = self.model.lives[task].asked_to_cancel
            self.observe(Call())
            assert self.model.seen.live[task]["cancel_requested"]
            assert not again or seen == self.model.seen
        else:
            assert effect == "cancelled"
            self.observe(Call())
            assert task in self.model.seen.done, f"{task} is said to be cancelled, and goes on"
            assert self.model.seen.done[task]["outcome"] == "cancelled"

    def is_over_without_a_sweep(self, row: Row) -> bool:
        """Its limit has passed and ends it, and nobody holds it."""
        limit = self.model.lives[row["id"]].machine[row["state"]].limit
        past = row["deadline"] is not None and row["deadline"] <= self.model.seen.now
        return past and row["lease_token"] is None and limit is not None and limit.to is not None

    def retry_task(self, task: UUID, step: str | None) -> None:
        life = self.model.lives[task]
        if task in self.model.seen.live or life.machine.name == "ingest":  # which is nothing without what it gathers
            self.refused(MoveRefused, self.store.retry, task, step)
            return
        if step and step not in {name for name, _ in life.log}:
            self.refused(StepUnknown, self.store.retry, task, step)
            return
        new = self.do(self.store.retry, task, step)
        kept = life.completed_before(step)
        self.observe(Call(inherited=frozenset(kept)))
        rows = {name: row for (owner, name), row in self.model.seen.steps.items() if owner == new}
        assert rows.keys() == kept.keys()
        assert all(row["done"] for row in rows.values())
        order = sorted(rows, key=lambda name: (rows[name]["at"], name))
        self.model.lives[new].inherit({name: kept[name] for name in order})
        assert self.window.retry_of(new) == task
        self.tally["retried"] += 1
