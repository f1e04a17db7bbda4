"""What time brings, and the end of every history: nothing may be left that cannot end."""

from datetime import datetime, timedelta
from uuid import UUID

from tests.machine import laws
from tests.machine.model import Call
from tests.machine.owners import Owners
from tests.machine.pools import ALL_QUEUES, NAMES, SECOND
from tests.machine.stage import BUDGET
from tests.machine.workers import Workers


class Clockwork(Owners, Workers):
    """Who sweeps, waits, pauses and limits."""

    def sweep_once(self, n: int) -> None:
        self.do(self.store.sweep, n)
        self.observe(Call(swept=True))
        if n > len(self.model.lives):
            laws.check_swept(self.model.seen)

    def pause(self, queue: str, paused: bool) -> None:
        self.do(self.store.pause_queue if paused else self.store.resume_queue, queue)
        self.observe(Call())
        assert (queue in self.model.seen.paused) == paused

    def limit(self, key: str, allowed: int) -> None:
        self.do(self.store.limit_concurrency, key, allowed)
        self.observe(Call())
        assert self.model.seen.allowed[key] == allowed
        assert key not in self.model.seen.starving

    def greet(self, names: list[str] | None, slots: int) -> None:
        """A worker says what it can run: of what was set aside because nobody knew it, as much comes back as it can
        run, of each name in each queue."""
        self.do(self.store.hello, "greeter", label="", queues=ALL_QUEUES, names=names, slots=slots)
        before = self.observe(Call())
        for queue in ALL_QUEUES:
            for name in names if names is not None else [None]:
                waited, waiting = (
                    sum(row["parked"] == "unknown" and row["queue"] == queue and name in (None, row["name"])
                        for row in seen.live.values())
                    for seen in (before, self.model.seen)
                )  # fmt: skip
                assert waiting == max(0, waited - slots), (
                    f"{name} in {queue}: {waited} were set aside, {waiting} still are"
                )

    def block_spending(self, lasting: timedelta) -> None:
        until = self.model.seen.now + lasting
        self.do(self.store.block_budget, BUDGET, until)
        self.bucket.block(until)

    def spend_some(self, amount: float) -> None:
        """Whoever asks gets what is there, neither more nor less, and else learns when to come back."""
        now = self.model.seen.now
        grant = self.do(self.store.spend, BUDGET, amount)
        assert grant.granted == self.bucket.spend(amount, now), f"{amount} of {self.bucket} at {now}"
        assert grant.granted or grant.retry_at > now
        self.tally["budget granted" if grant.granted else "budget refused"] += 1

    def until_leases_end(self) -> timedelta:
        """Until the first worker that is silent from now on has lost what it holds."""
        ends = [life.until for life in self.model.lives.values() if life.lease and life.until]
        return max(min(ends) - self.model.seen.now, timedelta()) + SECOND / 1000

    def ends(self) -> list[tuple[UUID, datetime]]:
        """The tasks whose limit or wait ends at some time to come, and when."""
        seen = self.model.seen
        found = [(task, row[column]) for task, row in seen.live.items() for column in ("deadline", "due_at")]
        return [(task, at) for task, at in found if at and at > seen.now]

    def _until_something_happens(self) -> timedelta:
        seen = self.model.seen
        times = [row["due_at"] for row in seen.live.values() if row["due_at"] > seen.now]
        times += [life.until for life in self.model.lives.values() if life.lease and life.until]
        return max(min(times, default=seen.now) - seen.now, timedelta()) + SECOND / 1000

    def drain(self) -> None:
        """From wherever it is, every task comes to its end: its worker goes on, or is lost and another one does."""
        for queue in ALL_QUEUES:
            self.pause(queue, False)
        self.greet(NAMES, 1000)
        self.tally["left to drain"] += bool(self.model.seen.live)
        for _ in range(40 + 8 * len(self.model.seen.live)):
            self.sweep_once(10_000)
            for task in self.with_owner():
                self.act_on(task, None)
            self.claim_from(ALL_QUEUES, 1000, 10 * SECOND, None)
            soon = self.model.seen.now + 10 * SECOND
            held = [
                life.lease for life in self.model.lives.values() if life.lease and life.until and life.until >= soon
            ]
            self.settle_all([(lease, self.forward(lease)) for lease in held])
            if not self.model.seen.live:
                break
            self.advance(self._until_something_happens())
        assert not self.model.seen.live, f"stuck: {self.model.seen.live}"
        laws.check(self.model)
