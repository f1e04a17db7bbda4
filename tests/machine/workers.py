"""Workers: those that hold their leases, and those that only think so."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from holdfast.engine.task import Checkpoint, Failed, Lease, Outcome, Settled
from tests.machine.model import Call, leads
from tests.machine.seen import proof
from tests.machine.stage import WORKER, Stage


class Workers(Stage):
    """Who claims, beats, keeps and settles."""

    def claim_from(self, queues: Sequence[str], n: int, lasting: timedelta, names: Sequence[str] | None) -> None:
        """The first queue first, in it the most urgent, of these the longest due; what is not known is set aside."""
        seen = self.model.seen
        ready = [row for row in seen.live.values() if seen.claimable(row) and row["queue"] in queues]
        ready.sort(key=lambda row: (queues.index(row["queue"]), -row["priority"], row["due_at"], row["id"]))
        leases = self.do(self.store.claim, queues, n, lasting=lasting, worker=WORKER, names=names)
        self._claimed(leases, lasting)
        taken = {lease.task_id for lease in leases}
        unknown = {row["id"] for row in ready if self.model.seen.live[row["id"]]["parked"] == "unknown"}
        known = [row["id"] for row in ready if names is None or row["name"] in names]
        first = [task for task in known if task in taken]
        assert first == known[: len(first)], "something more urgent was passed over"
        assert leases or not known, "what nobody here knows has hidden what lies behind it"
        assert all(names is None or lease.name in names for lease in leases)
        assert not any(names is None or seen.live[task]["name"] in names for task in unknown)
        self.tally["set aside as unknown"] += len(unknown)
        self.tally["a paused queue was passed over"] += any(
            replace(seen, paused=frozenset()).claimable(row) and row["queue"] in seen.paused & set(queues)
            for row in seen.live.values()
        )

    def claim_all(self, tasks: Sequence[UUID], lasting: timedelta) -> None:
        seen = self.model.seen
        leases = self.do(self.store.claim_these, tasks, lasting=lasting, worker=WORKER)
        ready = {task for task in tasks if task in seen.live and seen.claimable(seen.live[task])}
        assert {lease.task_id for lease in leases} == ready
        self._claimed(leases, lasting)

    def _claimed(self, leases: Sequence[Lease], lasting: timedelta) -> None:
        self.observe(Call(claimed=leases))
        for lease in leases:
            row = self.model.seen.live[lease.task_id]
            assert (lease.state, lease.attempt, lease.name) == (row["state"], row["attempt"], row["name"])
            assert lease.expires_at == self.model.seen.now + lasting

    def beat_all(self, given: Sequence[Lease], lasting: timedelta) -> None:
        leases = self.once_each(given)
        held = {lease.task_id: lease for lease in leases if self.model.lives[lease.task_id].holds(lease)}
        answer = self.do(self.store.heartbeat, leases, lasting=lasting)
        before = self.observe(Call())
        seen = self.model.seen
        assert answer.keys() == held.keys()
        assert replace(seen, beats=before.beats) == before, "a heartbeat changed more than itself"
        assert {task for task in seen.beats if seen.beats[task] != before.beats.get(task)} <= held.keys()
        for task, lease in held.items():
            assert answer[task].expires_at == seen.now + lasting
            assert answer[task].cancel_requested == self.model.lives[task].asked_to_cancel
            self.model.lives[task].until = max(lease.expires_at, answer[task].expires_at)
        self.tally["stale heartbeat refused"] += len(leases) > len(held)

    def lose_all(self, given: Sequence[Lease]) -> None:
        """A worker that was seen to die has lost what it held, as if its leases had ended."""
        leases = self.once_each(given)
        held = {lease.task_id for lease in leases if self.model.lives[lease.task_id].holds(lease)}
        number = self.do(self.store.mark_lost, leases)
        self.observe(Call(lost=held))
        assert number == len(held)
        assert not any(self.model.lives[task].lease for task in held)
        self.tally["seen to die"] += len(held)

    def hand_back_but(self, kept: Sequence[UUID]) -> None:
        """Everything that this worker holds goes back at no cost, but for these."""
        before = self.model.seen
        back = {task for task in before.held() if task not in kept}
        verbs = {task: "cancel" if self.model.lives[task].asked_to_cancel else "later" for task in back}
        number = self.do(self.store.release_leases, WORKER, kept)
        self.observe(Call(settled=verbs))
        assert number == len(back)
        for task, verb in verbs.items():
            assert self.model.lives[task].lease is None
            now = self.model.seen.live.get(task)  # with a parent that was cancelled just now its children end as well
            assert verb == "cancel" or now is None or now["due_at"] == before.live[task]["due_at"]
        self.tally["handed back"] += len(back)

    def keep(self, lease: Lease, step: str | None, to: str | None) -> None:
        """A checkpoint: the first result of a step counts, a declared move keeps the lease."""
        life = self.model.lives[lease.task_id]
        self.written += 1
        known = {state.name for state in life.machine.states}
        target = leads(life.machine, life.state, f"to:{to}") if to else None
        legal = to in (None, life.state) or target in life.machine.leasable
        first = step is None or step not in life.steps
        result = self.written if step else None
        (answer,) = self.do(self.store.checkpoint, Checkpoint(lease, step, result, to))
        if not life.holds(lease):
            assert answer.status == "lost"
            self.tally["stale checkpoint refused"] += 1
        elif not legal:
            assert answer.status == ("undeclared" if to in known else "unknown_state")
        else:
            assert answer.status == ("ok" if first else "stored")
            if step:
                assert answer.result == life.write(step, self.written, self.model.seen.now)
            self.tally["step stored before"] += not first
            moved = {lease.task_id} if to and to != life.state else set()
            self.observe(Call(kept=moved))
            assert self.model.seen.live[lease.task_id]["lease_token"] == lease.token
            return
        self.changed_nothing()

    def settle_all(
        self, given: Sequence[tuple[Lease, Outcome]], then: tuple[Sequence[str], int, timedelta] | None = None
    ) -> None:
        """Settle; and claim in the same call, if `then` says from where, how many, and for how long."""
        outcomes = {(lease.task_id, proof(lease)): outcome for lease, outcome in given}
        pairs = [
            (lease, outcomes[lease.task_id, proof(lease)]) for lease in self.once_each(lease for lease, _ in given)
        ]
        foreseen = [(lease, outcome, *self.model.foresee(lease, outcome)) for lease, outcome in pairs]
        was = {lease.task_id: self.model.lives[lease.task_id].state for lease, _ in pairs}
        claimed: list[Lease] = []
        if then:
            queues, n, lasting = then
            refused, claimed = self.do(self.store.settle_and_claim, pairs, queues, n, lasting=lasting, worker=WORKER)
            expected = [(lease.task_id, status) for lease, _, status, _ in foreseen if status not in ("ok", "repeat")]
            assert refused.keys() == dict(expected).keys()
            assert set(refused.items()) <= set(expected)
            assert all(lease.queue in queues for lease in claimed)
            assert len(claimed) <= n
        else:
            answers = self.do(self.store.settle, *pairs)
            assert Counter((lease.task_id, status) for lease, _, status, _ in foreseen) == Counter(
                (answer.task_id, answer.status) for answer in answers
            )
        verbs = {lease.task_id: verb for lease, _, _, verb in foreseen if verb}
        before = self.observe(Call(claimed=claimed, settled=verbs))
        assert verbs or claimed or then or before == self.model.seen, "a refused settlement has changed something"
        if then:  # of what went well a turn tells nothing
            answers = [self._as_seen(lease.task_id, status) for lease, _, status, _ in foreseen]
        answered: dict[tuple[UUID, str], Settled] = {(answer.task_id, answer.status): answer for answer in answers}
        turned = {lease.task_id for lease in claimed}
        for lease, outcome, status, verb in foreseen:
            self._settled(lease, outcome, verb, was[lease.task_id], answered[lease.task_id, status], turned)

    def _as_seen(self, task: UUID, status: Any) -> Settled:
        row = self.model.seen.row(task)
        return Settled(task, status, row["state"], row["version"], row["attempt"], None)

    def _settled(
        self, lease: Lease, outcome: Outcome, verb: str | None, was: str, answer: Settled, turned: set[UUID]
    ) -> None:
        life, row = self.model.lives[lease.task_id], self.model.seen.row(lease.task_id)
        reached = (answer.state, answer.version, answer.attempt)
        if verb:
            if lease.task_id not in turned:
                assert reached == (row["state"], row["version"], row["attempt"])
            self.model.accept(lease, outcome, verb, was, answer)
            self.tally["failed for good"] += verb == "fail"
            self.tally["told to slow down"] += isinstance(outcome, Failed) and verb == "later"
        elif answer.status == "repeat":
            assert life.accepted
            assert reached == (life.accepted[2].state, life.accepted[2].version, life.accepted[2].attempt)
            self.tally["accepted settlement repeated"] += 1
        elif answer.status == "lost":
            ended = life.accepted is not None and proof(life.accepted[0]) == proof(lease)
            self.tally["another settlement of an ended task refused" if ended else "stale settlement refused"] += 1
        else:
            self.tally["undeclared settlement refused"] += 1
