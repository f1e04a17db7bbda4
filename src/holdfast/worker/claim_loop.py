"""The claim loop: results out, tasks in, in one call, while the tasks at hand run on.

A result is settled at once when no call is under way, together with the claim for what takes its place. Under load,
results gather while a call runs, and the next call takes them all. So at most `slots` results are ever on their way,
and none waits longer than a call takes. (`batch=1` sends each by itself.)

A worker that finds nothing announces that it will sleep, looks once more, and then sleeps until it is woken, until
something falls due, or until it is time to look by itself: `Claiming` has these states.

A runner never holds one task twice. One that comes again while an earlier lease of it is still here (its time limit
passed, or the answer to its settling is late) goes back for a moment, and what still runs of it is stopped. Nor does it
start what it was given too long ago: an answer that was held up on its way brings leases that may be over.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any
from uuid import UUID

from holdfast.backoff import jitter, pause_after
from holdfast.engine.backend import WorkerBackend
from holdfast.engine.task import Completion, Done, Later, Lease, Outcome, Proof
from holdfast.errors import DatabaseError, MoveRefused, TaskBusy
from holdfast.execution.classify import replace_refused, replace_unsendable
from holdfast.wakeups import Wakeups
from holdfast.worker.config import WorkerConfig

log = logging.getLogger("holdfast.worker")

first_pause_seconds = 0.05
longest_pause_seconds = 1.0
full_scan_seconds = 0.1
tries_at_most = 3
busy_seconds = 0.5
again_after = timedelta(seconds=1)
start_within = 2 / 3
"""Of a lease. What is started later would have to stop before the next heartbeat could keep it."""

Result = tuple[Proof, Outcome, int]
"""A lease, how it ended, and how often that could not be settled."""


class Claiming(Enum):
    """Whether the loop claims."""

    SEARCHING = "with one call at a time: the last claim got less than it asked for"
    PLENTY = "with every free call: the last claim got all that it asked for"
    ANNOUNCED = "once more: the backend knows that this worker is about to sleep"
    ASLEEP = "not now: nothing was found"
    WOKEN = "once, before it sleeps again: the backend still takes it to be asleep"
    STOPPED = "never again: the worker leaves"


class ClaimCursor:
    """Where in the queue a worker's next claim begins.

    What was taken leaves its entries in the index until a vacuum may remove them, and while any session holds an old
    snapshot none may: each claim would read past everything that was taken before it. So after a claim that found as
    much as it asked for, the next one begins where that one did. Something older may come back meanwhile (given back,
    admitted, committed late), so ten times a second, and before the worker believes that there is nothing, a claim
    begins at the start.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: tuple[datetime, UUID] | None = None
        self._scanned = 0.0

    def since(self) -> tuple[datetime, UUID] | None:
        """The due time and the id to begin at; None for the start."""
        now = self._clock()
        if self._since is None or now - self._scanned >= full_scan_seconds:
            self._scanned = now
            return None
        return self._since

    def move(self, leases: Sequence[Lease], asked: int) -> None:
        """Note what a claim found, and how many it asked for."""
        if asked:
            self._since = min((lease.due_at, lease.task_id) for lease in leases) if len(leases) == asked else None


class ClaimLoop:
    """The settling and claiming of one runner."""

    def __init__(
        self,
        backend: WorkerBackend,
        config: WorkerConfig,
        worker: str,
        names: Sequence[str],
        wakeups: Wakeups,
        *,
        start: Callable[[list[Lease], float], None],
        on_ended: Callable[[list[UUID]], None],
        stop: Callable[[UUID], None],
        is_kept: Callable[[], bool],
    ) -> None:
        """start: run these leases, claimed then. stop: what still runs of a task. is_kept: whether leases are kept."""
        self._backend = backend
        self._config = config
        self._worker = worker
        self._names = list(names)
        self._wakeups = wakeups
        self._start = start
        self._on_ended = on_ended
        self._stop = stop
        self._is_kept = is_kept
        self.held: dict[UUID, Proof] = {}
        wakeups.watch_held(self.held)
        self._claiming = Claiming.SEARCHING
        self._cursor = ClaimCursor()
        self._claims = 0
        self._reserved = 0
        self._results: deque[Result] = deque()
        self._calls: set[asyncio.Task[None]] = set()
        self._deliveries: set[asyncio.Task[None]] = set()
        self._must_reconcile = False
        """Tasks may have been claimed whose leases never arrived, or came too late."""
        self._failures = 0
        self._retry: asyncio.TimerHandle | None = None
        """While the backend is away: when the next call is tried."""
        self._due: float | None = None
        self._sleep_seconds = config.poll_seconds
        self._asleep = asyncio.Event()
        self._changed = asyncio.Event()

    def settle(self, proof: Proof, outcome: Outcome) -> None:
        """Send this result with the next call; one with outputs by itself."""
        if isinstance(outcome, Done) and outcome.outputs:
            self._begin(self._deliver((proof, outcome, 0)), self._deliveries)
            return
        self._results.append((proof, outcome, 0))
        self._changed.set()

    def forget(self, proofs: Sequence[Proof]) -> None:
        """Hold these leases no more; not a newer one of the same task."""
        over = [one.task_id for one in proofs if one.task_id in self.held and self.held[one.task_id].token == one.token]
        for task_id in over:
            del self.held[task_id]
        if over:
            self._on_ended(over)
        self._changed.set()

    def wake(self) -> None:
        """Something has changed: check whether there is a call to make."""
        self._changed.set()

    def leave(self) -> None:
        """Claim nothing more."""
        self._claiming = Claiming.STOPPED
        self._changed.set()

    async def run(self) -> None:
        """Until it leaves and nothing is held any more."""
        sleeping = asyncio.create_task(self._sleep())
        try:
            while self._claiming is not Claiming.STOPPED or self.held or self._calls:
                self._changed.clear()
                while self._begin_call():
                    pass
                await self._changed.wait()
        finally:
            sleeping.cancel()
            calls = *self._calls, *self._deliveries
            for call in calls:
                call.cancel()
            await asyncio.gather(sleeping, *calls, return_exceptions=True)

    # Which call to make

    def _begin_call(self) -> bool:
        """Begin a call, if there is one to make now."""
        if self._retry or len(self._calls) >= self._config.calls or (self._must_reconcile and self._calls):
            return False
        batch = self._config.batch
        ready = min(len(self._results), batch)
        if self._calls and ready < min(batch, self._config.slots) / 2 and not (ready == 0 and self._may_claim()):
            return False
        results = self._take_results(ready)
        if self._must_reconcile:  # settle first: what is forgotten there and was claimed again in vain goes back too
            self._begin(self._settle_and_claim(results, 0) if results else self._reconcile(), self._calls)
            return True
        free = self._config.slots - len(self.held) - self._reserved + ready
        n = max(min(free, batch), 0) if self._may_claim() else 0
        if not n and not results:
            return False
        self._reserved += n
        self._claims += n > 0
        self._begin(self._settle_and_claim(results, n), self._calls)
        return True

    def _may_claim(self) -> bool:
        if self._claiming in (Claiming.STOPPED, Claiming.ASLEEP):
            return False
        if self._claims and self._claiming is not Claiming.PLENTY:
            return False
        return self._config.slots - len(self.held) - self._reserved + len(self._results) > 0 and self._is_kept()

    def _take_results(self, n: int) -> list[Result]:
        """The oldest results, one for each task: answers are matched by the task."""
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

    def _begin(self, call: Coroutine[Any, Any, None], among: set[asyncio.Task[None]]) -> None:
        def finish(done: asyncio.Task[None]) -> None:
            among.discard(done)
            self._changed.set()

        task = asyncio.create_task(call)
        among.add(task)
        task.add_done_callback(finish)

    # The calls

    async def _settle_and_claim(self, results: list[Result], n: int) -> None:
        """One call, and what its answer leads to. What it could not send is sent again."""
        try:
            await self._exchange(results, n)
        finally:
            self._claims -= n > 0

    async def _exchange(self, results: list[Result], n: int) -> None:
        sent, config, claiming = time.monotonic(), self._config, self._claiming
        since = self._cursor.since() if n else None
        try:
            refused, leases = await self._backend.settle_and_claim(
                [(proof, outcome) for proof, outcome, _ in results], config.queues, n,
                lasting=config.lease, worker=self._worker, names=self._names, since=since,
            )  # fmt: skip
        except TaskBusy:
            self._retry_busy(results, n)
            return
        except DatabaseError as error:
            self._results.extendleft(reversed(results))
            self._must_reconcile |= n > 0
            self._pause(error)
            return
        except Exception as error:
            self._must_reconcile |= n > 0
            self._replace_results(results, n, error)
            return
        finally:
            self._reserved -= n
        self._failures = 0
        self._finish_results(results, refused)
        if n:
            self._cursor.move(leases, n)
            self._note_claimed(len(leases), n)
        self._accept(leases, sent)
        if n and len(leases) < n and since is None:
            await self._fall_asleep(claiming)

    def _accept(self, leases: list[Lease], sent: float) -> None:
        """Start what was claimed, but for what may be over by now, or is still held by an earlier lease."""
        if leases and time.monotonic() > sent + self._config.lease_seconds * start_within:
            self._must_reconcile = True  # they may be another worker's by now: as if they had never arrived
            leases = [lease for lease in leases if lease.task_id in self.held]
        fresh = [lease for lease in leases if lease.task_id not in self.held]
        self.held.update((lease.task_id, lease) for lease in fresh)
        for again in leases if len(fresh) < len(leases) else ():
            if self.held[again.task_id] is not again:
                self._stop(again.task_id)
                self._results.append((again, Later(again_after, kind="released"), 0))
        if leases:
            self._start(fresh, sent)

    async def _reconcile(self) -> None:
        """Give back what the backend takes to be ours and we do not hold."""
        try:
            await self._backend.release_leases(self._worker, self.held)
            self._must_reconcile = False
            self._failures = 0
        except Exception as error:
            self._pause(error)

    async def _deliver(self, one: Result) -> None:
        """A result with its outputs. It may wait for others that publish in the same dataset: none waits with it."""
        proof, outcome, _ = one
        try:
            (settled,) = await self._backend.deliver(Completion(proof, outcome))
        except DatabaseError as error:
            log.warning("outputs not published yet", extra={"task_id": str(proof.task_id), "error": str(error)})
            asyncio.get_running_loop().call_later(
                jitter(busy_seconds, 0.5), lambda: self._begin(self._deliver(one), self._deliveries)
            )
        except MoveRefused:
            self._finish_results([one], {proof.task_id: "refused"})
        except Exception as error:
            self._replace_results([one], 0, error)
        else:
            self._finish_results([one], {} if settled.status in ("ok", "repeat") else {proof.task_id: settled.status})

    # What became of results

    def _finish_results(self, results: list[Result], refused: dict[UUID, str]) -> None:
        """Forget what is settled; what the lifecycle does not allow is settled as a failure instead."""
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
        self.forget(over)

    def _replace_results(self, results: list[Result], n: int, error: Exception) -> None:
        """Something in this call cannot be sent. Alone it is known which one, and then it fails instead."""
        if n or not results:
            self._pause(error)
        if len(results) > 1 or n:
            self._send_each_alone(results)
            return
        for proof, _, tries in results:
            if tries >= tries_at_most:
                log.error("result given up", extra={"task_id": str(proof.task_id), "error": str(error)})
                self.forget([proof])
            else:
                log.warning("settling failed", extra={"task_id": str(proof.task_id), "error": str(error)})
                self._results.append((proof, replace_unsendable(error), tries + 1))

    def _retry_busy(self, results: list[Result], n: int) -> None:
        """The row of one of them is locked, perhaps for long: the others do not wait for it."""
        if len(results) > 1 or n:
            self._send_each_alone(results)
            return

        def retry() -> None:
            self._results.extend(results)
            self._changed.set()

        asyncio.get_running_loop().call_later(jitter(busy_seconds, 0.5), retry)

    def _send_each_alone(self, results: list[Result]) -> None:
        for one in results:
            self._begin(self._settle_and_claim([one], 0), self._calls)

    # Between searching and sleep

    def _change(self, claiming: Claiming) -> None:
        if self._claiming is not Claiming.STOPPED:
            self._claiming = claiming

    def _note_claimed(self, found: int, asked: int) -> None:
        if found == asked:
            self._change(Claiming.PLENTY)
        elif found or self._claiming is Claiming.PLENTY:
            self._change(Claiming.SEARCHING)

    async def _fall_asleep(self, claiming: Claiming) -> None:
        """There was less than was asked for: announce the sleep, look once more, then sleep.

        A claim that was sent before the announcement is not that look: what came in between woke nobody. So the last
        claim under way announces, no other begins meanwhile, and the state in which a claim was sent says what it was.
        """
        if self._claims > 1 or self._claiming is Claiming.STOPPED:
            return
        if not (claiming is self._claiming is Claiming.ANNOUNCED):
            try:
                due = await self._backend.idle(self._worker)
            except Exception as error:
                self._pause(error)
                return
            self._due = time.monotonic() + due.total_seconds() if due is not None else None
            if self._claiming is not Claiming.WOKEN:
                self._change(Claiming.ANNOUNCED)
                return
        self._sleep_seconds = jitter(self._config.poll_seconds * 0.85, 0.15 / 0.85)
        if self._due is not None:
            self._sleep_seconds = min(self._sleep_seconds, max(self._due - time.monotonic(), 0.001))
        self._change(Claiming.ASLEEP)
        self._asleep.set()

    async def _sleep(self) -> None:
        while True:
            await self._asleep.wait()
            await self._wakeups.wait(self._sleep_seconds)
            self._asleep.clear()
            self._wake_up()

    def _wake_up(self) -> None:
        if self._claiming is Claiming.ASLEEP:
            self._change(Claiming.WOKEN)
        self._changed.set()

    def _pause(self, error: Exception) -> None:
        """The backend is away: try again soon, ever more slowly, and not all workers at once."""
        if self._retry:
            return
        if not self._failures:
            log.warning("the backend is away; trying again", extra={"error": str(error)})

        def resume() -> None:
            self._retry = None
            self._wake_up()

        pause = jitter(pause_after(first_pause_seconds, self._failures, longest_pause_seconds) * 0.75, 1 / 3)
        self._failures += 1
        self._retry = asyncio.get_running_loop().call_later(pause, resume)
