"""Turns: results out, tasks in, in one call, while the tasks at hand run on.

A result is settled at once when no call is under way, together with the claim for what takes its place. Under load,
results gather while a call runs, and the next call takes them all. So at most `slots` results are ever on their way,
and none waits longer than a call takes. (`batch=1` sends each by itself.)

A worker that finds nothing says that it will sleep, looks once more, and then sleeps until it is woken, until something
falls due, or until it is time to look for itself.

A runner never holds one task twice. One that comes again while an earlier lease of it is still here (its time limit
passed, or the answer to its settling is late) goes back for a moment, and what still runs of it is stopped. Nor does it
begin what it was given too long ago: an answer that was held up on its way brings leases that may be over.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from holdfast.backoff import CHANCE
from holdfast.engine.backend import WorkerBackend
from holdfast.engine.task import Completion, Done, Later, Lease, Outcome, Proof, Settlement
from holdfast.errors import DatabaseError, MoveRefused, TaskBusy
from holdfast.execution.classify import replace_refused, replace_unsendable
from holdfast.wakeups import Wakeups
from holdfast.worker.claim_cursor import ClaimCursor
from holdfast.worker.config import Plan

log = logging.getLogger("holdfast.worker")

longest_pause_seconds = 1.0
tries_at_most = 3
busy_seconds = 0.5
again_after = timedelta(seconds=1)
begin_within = 2 / 3
"""Of a lease. What is begun later would have to stop before the next heartbeat could keep it."""

Result = tuple[Proof, Outcome, int]
"""A lease, how it ended, and how often that could not be settled."""


class ClaimLoop:
    """The settling and claiming of one runner."""

    def __init__(
        self,
        store: WorkerBackend,
        plan: Plan,
        worker: str,
        names: Sequence[str],
        wakeups: Wakeups,
        *,
        begin: Callable[[list[Lease], float], None],
        ended: Callable[[list[UUID]], None],
        stop: Callable[[UUID], None],
        is_kept: Callable[[], bool],
    ) -> None:
        self._store = store
        self._plan = plan
        self._worker = worker
        self._names = list(names)
        self._wakeups = wakeups
        self._begin = begin
        self._ended = ended
        self._stop = stop
        self._is_kept = is_kept
        self.held: dict[UUID, Proof] = {}
        wakeups.follow(self.held)
        self.leaving = False
        self._results: deque[Result] = deque()
        self._calls: set[asyncio.Task[None]] = set()
        self._deliveries: set[asyncio.Task[None]] = set()
        self._claims = 0
        self._is_plenty = False
        self._front = ClaimCursor()
        self._reserved = 0
        self._hungry = True
        self._registered = False
        self._unsure = False
        self._away = False
        self._backoff = 0.0
        self._due: float | None = None
        self._due_known = False
        self._sleep_seconds = plan.poll_seconds
        self._asleep = asyncio.Event()
        self._nudge = asyncio.Event()

    def settle(self, proof: Proof, outcome: Outcome) -> None:
        """Send this result with the next turn; one with outputs by itself."""
        if isinstance(outcome, Done) and outcome.outputs:
            self._send(self._deliver((proof, outcome, 0)), self._deliveries)
            return
        self._results.append((proof, outcome, 0))
        self._nudge.set()

    def drop(self, proof: Proof) -> None:
        """Forget a lease that is lost."""
        self._let_go([proof])

    def nudge(self) -> None:
        """Something has changed: see whether there is a call to make."""
        self._nudge.set()

    def leave(self) -> None:
        """Claim nothing more."""
        self.leaving = True
        self._nudge.set()

    async def run(self) -> None:
        """Until it leaves and nothing is held any more."""
        rest = asyncio.create_task(self._rest())
        try:
            while not (self.leaving and not self.held and not self._calls):
                self._nudge.clear()
                while self._launch():
                    pass
                await self._nudge.wait()
        finally:
            rest.cancel()
            calls = *self._calls, *self._deliveries
            for call in calls:
                call.cancel()
            await asyncio.gather(rest, *calls, return_exceptions=True)

    def _launch(self) -> bool:
        """Begin a call, if there is one to make now."""
        if self._away or len(self._calls) >= self._plan.calls or (self._unsure and self._calls):
            return False
        batch = self._plan.batch
        ready = min(len(self._results), batch)
        if self._calls and ready < min(batch, self._plan.slots) / 2 and not (ready == 0 and self._wants()):
            return False
        results = self._take(ready)
        n = min(self._plan.slots - len(self.held) - self._reserved + ready, batch) if self._wants() else 0
        if self._unsure:  # settle first: what is let go of there and was claimed again in vain is then handed back too
            n = 0
        if n <= 0 and not results and not self._unsure:
            return False
        n = max(n, 0)
        self._reserved += n
        self._claims += n > 0
        self._send(self._turn(results, n), self._calls)
        return True

    def _send(self, turn: Coroutine[Any, Any, None], among: set[asyncio.Task[None]]) -> None:
        def landed(call: asyncio.Task[None]) -> None:
            among.discard(call)
            self._nudge.set()

        call = asyncio.create_task(turn)
        among.add(call)
        call.add_done_callback(landed)

    def _take(self, n: int) -> list[Result]:
        """The oldest results, one for each task: answers are told apart by the task."""
        taken: dict[UUID, Result] = {}
        left: list[Result] = []
        for _ in range(n):
            one = self._results.popleft()
            if one[0].task_id in taken:
                left.append(one)
            else:
                taken[one[0].task_id] = one
        self._results.extendleft(reversed(left))
        return list(taken.values())

    def _wants(self) -> bool:
        free = self._plan.slots - len(self.held) - self._reserved + len(self._results)
        may_claim = self._hungry and (self._is_plenty or not self._claims)
        return may_claim and not self.leaving and free > 0 and self._is_kept()

    async def _turn(self, results: list[Result], n: int) -> None:
        """One call. What it could not send is sent again."""
        sent = time.monotonic()
        since = self._front.since() if n else None
        batch: list[Settlement] = [(proof, outcome) for proof, outcome, _ in results]
        try:
            if self._unsure and not results:
                await self._store.release_leases(self._worker, self.held)
                self._unsure = False
            refused, leases = await self._call(batch, n, since)
        except TaskBusy:
            self._finish_claim(n)
            self._settle_apart(results, n)
            return
        except DatabaseError as error:
            self._results.extendleft(reversed(results))
            self._unsure = self._unsure or n > 0  # tasks may have been claimed whose names never arrived
            self._finish_claim(n)
            self._wait_a_moment(error)
            return
        except Exception as error:
            self._unsure = self._unsure or n > 0
            self._finish_claim(n)
            self._take_apart(results, n, error)
            return
        self._backoff = 0.0
        self._settled(results, refused)
        self._is_plenty = len(leases) == n
        self._front.saw(leases, n)
        if leases and time.monotonic() > sent + self._plan.lease_seconds * begin_within:
            self._unsure = True  # their leases may be over, and they somebody else's: as if they had never arrived
            leases = [lease for lease in leases if lease.task_id in self.held]
        fresh = [lease for lease in leases if lease.task_id not in self.held]
        self.held.update((lease.task_id, lease) for lease in fresh)
        self._finish_claim(n)
        for again in leases if len(fresh) < len(leases) else ():
            if self.held[again.task_id] is not again:
                self._stop(again.task_id)
                self._results.append((again, Later(again_after, kind="released"), 0))
        if leases:
            self._registered = False
            self._begin(fresh, sent)
        if n and not self._is_plenty and since is None:
            await self._found_little()

    async def _deliver(self, one: Result) -> None:
        """A result with its outputs. It may wait for others who publish in the same dataset: nobody waits with it."""
        proof, outcome, _ = one
        try:
            (settled,) = await self._store.deliver(Completion(proof, outcome))
        except DatabaseError as error:
            log.warning("outputs not published yet", extra={"task_id": str(proof.task_id), "error": str(error)})
            asyncio.get_running_loop().call_later(
                busy_seconds * CHANCE.uniform(0.5, 1.5),
                lambda: self._send(self._deliver(one), self._deliveries),
            )
        except MoveRefused:
            self._settled([one], {proof.task_id: "refused"})
        except Exception as error:
            self._take_apart([one], 0, error)
        else:
            self._settled([one], {} if settled.status in ("ok", "repeat") else {proof.task_id: settled.status})

    async def _call(
        self, batch: list[Settlement], n: int, since: tuple[datetime, UUID] | None
    ) -> tuple[dict[UUID, str], list[Lease]]:
        plan = self._plan
        return await self._store.turn(
            batch, plan.queues, n, lasting=plan.lease, worker=self._worker, names=self._names, since=since
        )  # fmt: skip

    def _finish_claim(self, n: int) -> None:
        self._reserved -= n
        self._claims -= n > 0

    async def _found_little(self) -> None:
        """There was less than was asked for: say so, look once more, then sleep."""
        if not self._registered or not self._due_known:
            try:
                due = await self._store.idle(self._worker)
            except Exception as error:
                self._hungry = False
                self._wait_a_moment(error)
                return
            self._due = time.monotonic() + due.total_seconds() if due is not None else None
            self._due_known = True
            if not self._registered:
                self._registered = True
                return
        self._hungry = False
        self._sleep_seconds = self._plan.poll_seconds * CHANCE.uniform(0.7, 1.0)
        if self._due is not None:
            self._sleep_seconds = min(self._sleep_seconds, max(self._due - time.monotonic(), 0.001))
        self._due_known = False
        self._asleep.set()

    async def _rest(self) -> None:
        while True:
            await self._asleep.wait()
            await self._wakeups.wait(self._sleep_seconds)
            self._asleep.clear()
            self._hungry = True
            self._nudge.set()

    def _settled(self, results: list[Result], refused: dict[UUID, str]) -> None:
        """Let go of what is settled; what the lifecycle does not allow is settled as a failure instead."""
        over: list[Proof] = []
        for proof, outcome, tries in results:
            status = refused.get(proof.task_id)
            if status is None:
                over.append(proof)
                continue
            if other := replace_refused(outcome, status):
                self._results.append((proof, other, tries))
                continue
            log.warning(
                "result refused", extra={"task_id": str(proof.task_id), "attempt": proof.attempt, "status": status}
            )
            over.append(proof)
        self._let_go(over)

    def _take_apart(self, results: list[Result], n: int, error: Exception) -> None:
        """Something in this call cannot be sent. Alone it is known which one, and then it fails instead."""
        if n or not results:
            self._wait_a_moment(error)
        if len(results) > 1 or n:
            self._each_alone(results)
            return
        for proof, _, tries in results:
            if tries >= tries_at_most:
                log.error("result given up", extra={"task_id": str(proof.task_id), "error": str(error)})
                self._let_go([proof])
            else:
                log.warning("settling failed", extra={"task_id": str(proof.task_id), "error": str(error)})
                self._results.append((proof, replace_unsendable(error), tries + 1))

    def _settle_apart(self, results: list[Result], n: int) -> None:
        """Somebody holds the row of one of them, perhaps for long: the others do not wait for it."""
        if len(results) > 1 or n:
            self._each_alone(results)
            return

        def again() -> None:
            self._results.extend(results)
            self._nudge.set()

        asyncio.get_running_loop().call_later(busy_seconds * CHANCE.uniform(0.5, 1.5), again)

    def _each_alone(self, results: list[Result]) -> None:
        for one in results:
            self._send(self._turn([one], 0), self._calls)

    def _wait_a_moment(self, error: Exception) -> None:
        """The database is away: try again soon, ever more slowly, and not all workers at once."""
        if self._away:
            return
        if not self._backoff:
            log.warning("no turn was possible; trying again", extra={"error": str(error)})
        self._away = True
        self._backoff = min(max(self._backoff * 2, 0.05), longest_pause_seconds)

        def go_on() -> None:
            self._away, self._hungry = False, True
            self._nudge.set()

        asyncio.get_running_loop().call_later(self._backoff * CHANCE.uniform(0.5, 1.0), go_on)

    def _let_go(self, proofs: list[Proof]) -> None:
        """Forget these leases; not a newer one of the same task."""
        over = [one.task_id for one in proofs if one.task_id in self.held and self.held[one.task_id].token == one.token]
        for task_id in over:
            del self.held[task_id]
        if over:
            self._ended(over)
        self._nudge.set()
