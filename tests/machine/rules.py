"""Who does what, and with what: the rules by which histories are made up.

The same rules are played twice: Hypothesis looks for a short history that breaks a promise, and the simulation plays
very many long ones. What each call checks is in the classes below this one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from holdfast.engine.task import Submission
from tests.machine import pools as some
from tests.machine.clockwork import Clockwork
from tests.machine.pools import Pool

Method = TypeVar("Method", bound=Callable[..., None])


@dataclass(frozen=True)
class Rule:
    """Something that can be done, if `when` says so, with one of each of these."""

    name: str
    method: Callable[..., None]
    when: Callable[[Any], bool] | None
    pools: dict[str, Pool[Any]]


RULES: list[Rule] = []


def rule(when: Callable[[Any], bool] | None = None, **pools: Pool[Any]) -> Callable[[Method], Method]:
    def add(method: Method) -> Method:
        RULES.append(Rule(method.__name__, method, when, pools))
        return method

    return add


SOMETIMES = [
    event.strip()
    for event in """
    stale settlement refused
    stale heartbeat refused
    stale checkpoint refused
    accepted settlement repeated
    another settlement of an ended task refused
    undeclared settlement refused
    reaped
    reaped, the budget used up
    asked to cancel while held, ended by cancel
    asked to cancel while held, ended by itself
    cancelled from Blocked
    cancelled too late
    failed for good
    told to slow down
    fan-in: done
    fan-in: partial
    fan-in: fail
    unblock
    skip
    somebody waits for a place
    verb admit
    verb limit
    a limit woke a worker
    set aside as unknown
    a paused queue was passed over
    key repeated
    key conflicts
    step stored before
    act refused
    act expired
    retried
    budget granted
    budget refused
    left to drain
    seen to die
    handed back
    an end was met exactly
""".strip().splitlines()
]


def some_live(self: Clockwork) -> bool:
    return bool(self.model.seen.live)


def some_tasks(self: Clockwork) -> bool:
    return bool(self.model.lives)


def some_leases(self: Clockwork) -> bool:
    return bool(self.leases())


def some_accepted(self: Clockwork) -> bool:
    return any(life.accepted for life in self.model.lives.values())


BEGINNING: dict[str, Pool[Any]] = {"tasks": some.beginnings, "n": some.few, "lasting": some.leases}


class Rules(Clockwork):
    """Everything that callers do, in any order."""

    def begin(self, tasks: list[Any], n: int, lasting: Any) -> None:
        """Before everything else."""
        self.submit_plain(*tasks)
        self.claim_from(some.ALL_QUEUES, n, lasting, None)

    # Owners and operators

    @rule(task=some.dispatch_tasks, after=some.picks, policy=some.policies, parent=some.rarely)
    def submit(self, task: Any, after: list[int], policy: Any, parent: int | None) -> None:
        self.submit_dispatch(task, after, policy, parent)

    @rule(tasks=some.beginnings)
    def submit_others(self, tasks: list[Any]) -> None:
        self.submit_plain(*tasks)

    @rule(run=some.runs, siblings_wait=some.flags)
    def submit_run(self, run: Any, siblings_wait: bool) -> None:
        self.submit_ingest(run, siblings_wait)

    @rule(policies=some.several_policies, cancelled=some.flags)
    def submit_fan(self, policies: list[Any], cancelled: bool) -> None:
        """One task and those that wait for it, each in its own way; perhaps in vain."""
        waiting = [Submission("b", after=[0], on_failure=policy) for policy in policies]
        first, *_ = self.submit_plain(Submission("a"), *waiting)
        if cancelled:
            self.cancel_task(first)

    @rule(key=some.keys, payload=some.payloads)
    def submit_keyed(self, key: str, payload: int) -> None:
        self.submit_with_key(key, payload)

    @rule(key=some.run_keys, child_key=some.child_keys)
    def submit_run_keyed(self, key: str, child_key: str | None) -> None:
        self.submit_keyed_run(key, child_key)

    @rule(some_tasks, which=some.which, verb=some.verbs, late=some.rarely)
    def act(self, which: int, verb: str | None, late: int | None) -> None:
        if late is not None:
            self.advance(some.HOUR * late)
        self.act_on(self.pick(self.with_owner() or self.tasks(), which), verb)

    @rule(verb=some.verbs)
    def come_too_late(self, verb: str | None) -> None:
        """An owner who acts after the limit, before any sweep."""
        (task,) = self.submit_plain(Submission(lifecycle="analysis"))
        self.advance(some.HOUR)
        self.act_on(task, verb)

    @rule(some_tasks, which=some.which, held=some.flags)
    def cancel(self, which: int, held: bool) -> None:
        self.cancel_task(self.pick((held and self.model.seen.held()) or self.tasks(), which))

    @rule(some_live, outcomes=some.several_outcomes, forward=some.flags)
    def cancel_and_settle(self, outcomes: list[Any], forward: bool) -> None:
        self.claim_from(some.ALL_QUEUES, 2, some.MINUTE, None)
        leases = [self.current(task) for task in self.model.seen.held()][-2:]
        for lease in leases:
            self.cancel_task(lease.task_id)
        given = [self.forward(lease) for lease in leases] if forward else outcomes
        self.settle_all(list(zip(leases, given, strict=False)))

    @rule(some_tasks, which=some.which, step=some.rarely, ended=some.mostly)
    def retry(self, which: int, step: int | None, ended: bool) -> None:
        task = self.pick((ended and self.worth_a_retry()) or self.tasks(), which)
        met = [name for name, _ in self.model.lives[task].log]
        self.retry_task(task, None if step is None else self.pick([*met, "never met"], step))

    @rule(queue=some.queue, pause=some.flags)
    def pause_or_resume(self, queue: str, pause: bool) -> None:
        self.pause(queue, pause)

    @rule(key=some.limit_keys, allowed=some.limits, names=some.names, slots=some.few)
    def operate(self, key: str, allowed: int, names: Any, slots: int) -> None:
        self.limit(key, allowed)
        self.greet(names, slots)

    @rule(amounts=some.amounts, block=some.rarely)
    def spend(self, amounts: list[float], block: int | None) -> None:
        if block is not None:
            self.block_spending(some.SECOND * block)
        for amount in amounts:
            self.spend_some(amount)
            self.advance(some.SECOND / 2)

    # Workers

    @rule(some_live, queues=some.queues, n=some.few, lasting=some.leases, names=some.names, others=some.names)
    def claim(self, queues: list[str], n: int, lasting: Any, names: Any, others: Any) -> None:
        self.claim_from(queues, n, lasting, names)
        if names:
            self.greet(others, n)

    @rule(some_live, which=some.picks, lasting=some.leases)
    def claim_these(self, which: list[int], lasting: Any) -> None:
        self.claim_all([self.pick(self.tasks(), one) for one in which], lasting)

    @rule(some_leases, which=some.picks, lasting=some.leases, twist=some.twists)
    def heartbeat(self, which: list[int], lasting: Any, twist: int) -> None:
        self.beat_all([self.twisted(self.pick(self.leases(), one), twist) for one in which], lasting)

    @rule(some_leases, which=some.which, step=some.few_steps, to=some.states, twist=some.twists, again=some.flags)
    def checkpoint(self, which: int, step: str | None, to: str | None, twist: int, again: bool) -> None:
        lease = self.twisted(self.pick(self.held_or_handed(), which), twist)
        for _ in range(1 + again):
            self.keep(lease, step, self.next_state(lease) if to == "next" else to)

    @rule(some_leases, which=some.picks, outcomes=some.several_outcomes, twist=some.twists)
    def settle(self, which: list[int], outcomes: list[Any], twist: int) -> None:
        leases = [self.twisted(self.pick(self.held_or_handed(), one), twist) for one in which]
        self.settle_all(list(zip(leases, outcomes, strict=False)))

    @rule(some_live, n=some.few, outcome=some.outcomes, step=some.few_steps)
    def meddle(self, n: int, outcome: Any, step: str | None) -> None:
        """Somebody who held it before, or never did, speaks in the name of whoever holds it now."""
        self.claim_from(some.ALL_QUEUES, n, some.MINUTE, None)
        for task in self.model.seen.held()[-2:]:
            lease = self.current(task)
            false = [*self.model.lives[task].handed[:-1], *(self.twisted(lease, twist) for twist in (1, -1, 2))]
            self.beat_all(false, some.HOUR)
            self.keep(false[0], step, self.next_state(lease))
            self.settle_all([(one, outcome) for one in false])

    @rule(some_live, n=some.few, by=some.whiles)
    def hold_on(self, n: int, by: Any) -> None:
        """A worker whose heart beats keeps what it has for longer than it was given."""
        self.claim_from(some.ALL_QUEUES, n, some.SECOND, None)
        self.beat_all([self.current(task) for task in self.model.seen.held()], 10 * some.MINUTE)
        self.advance(by)
        self.sweep_once(500)

    @rule(some_accepted, which=some.which, same=some.flags, outcome=some.outcomes)
    def settle_again(self, which: int, same: bool, outcome: Any) -> None:
        lease, before = self.pick(self.accepted(), which)
        self.settle_all([(lease, before if same else outcome)])

    @rule(
        some_leases,
        which=some.picks,
        outcomes=some.several_outcomes,
        queues=some.queues,
        n=some.few,
        lasting=some.leases,
    )
    def settle_and_claim(self, which: list[int], outcomes: list[Any], queues: list[str], n: int, lasting: Any) -> None:
        leases = [self.pick(self.held_or_handed(), one) for one in which]
        self.settle_all(list(zip(leases, outcomes, strict=False)), then=(queues, n, lasting))

    @rule(some_live, outcomes=some.several_outcomes, step=some.few_steps)
    def work(self, outcomes: list[Any], step: str | None) -> None:
        self.claim_from(some.ALL_QUEUES, 4, some.MINUTE, None)
        leases = [self.current(task) for task in self.model.seen.held()][::-1]
        for lease in leases if step else ():
            self.keep(lease, step, None)
            self.keep(lease, "s3", None)
        self.settle_all(list(zip(leases, outcomes, strict=False)))

    @rule(some_live, failure=some.failures)
    def claim_and_fail(self, failure: Any) -> None:
        self.claim_from(some.ALL_QUEUES, 4, some.MINUTE, None)
        self.settle_all([(self.current(task), failure) for task in self.model.seen.held()])
        self.advance(some.MINUTE)
        self.sweep_once(500)

    @rule(some_live, n=some.few, lasting=some.leases, times=some.limits, forward=some.flags)
    def claim_and_die(self, n: int, lasting: Any, times: int, forward: bool) -> None:
        for _ in range(times):
            self.claim_from(some.ALL_QUEUES, n, lasting, None)
            held = self.model.seen.held()
            for task in held if forward else ():
                self.keep(self.current(task), "s3", self.next_state(self.current(task)))
            if held:
                self.advance(self.until_leases_end())
                self.sweep_once(500)
            self.advance(5 * some.SECOND)

    @rule(some_live, n=some.few, by=some.long_whiles)
    def claim_and_stall(self, n: int, by: Any) -> None:
        self.claim_from(some.ALL_QUEUES, n, 20 * some.HOUR, None)
        for task in self.model.seen.held():
            self.keep(self.current(task), None, self.next_state(self.current(task)))
        self.advance(by)
        self.sweep_once(500)

    # Time

    @rule(by=some.whiles, n=some.sweeps)
    def wait(self, by: Any, n: int | None) -> None:
        self.advance(by)
        if n:
            self.sweep_once(n)
        else:  # what is past its limit is not handed out, whether or not somebody has swept
            self.claim_from(some.ALL_QUEUES, 2, some.MINUTE, None)
            self.claim_all(list(self.model.seen.live)[:4], some.MINUTE)

    @rule(some_live, n=some.few, lasting=some.leases, beating=some.flags, off=some.brinks)
    def outlast_a_lease(self, n: int, lasting: timedelta, beating: bool, off: timedelta) -> None:
        """A lease, or the last heartbeat for it, ends just now."""
        self.claim_from(some.ALL_QUEUES, n, lasting, None)
        held = [self.current(task) for task in self.model.seen.held()]
        if beating:
            self.beat_all(held, 2 * some.MINUTE)
        if held:
            self.advance(max(self.until_leases_end() - some.SECOND / 1000 + off, timedelta()))
            self.sweep_once(500)
            self.tally["an end was met exactly"] += not off

    @rule(some_live, which=some.which, off=some.brinks, swept=some.flags, verb=some.verbs)
    def outlast_a_limit(self, which: int, off: timedelta, swept: bool, verb: str | None) -> None:
        """The limit of a state, or a wait, ends just now; whoever asks next must know, whether or not it was swept."""
        ends = self.ends()
        if not ends:
            return
        task, at = self.pick(ends, which)
        self.advance(at + off - self.model.seen.now)
        if swept:
            self.sweep_once(500)
        elif task in self.with_owner():
            self.act_on(task, verb)
        self.claim_all([task], some.MINUTE)
        self.claim_from(some.ALL_QUEUES, 4, some.MINUTE, None)
        self.tally["an end was met exactly"] += not off

    @rule(some_live, which=some.picks, n=some.few, twist=some.twists)
    def see_die(self, which: list[int], n: int, twist: int) -> None:
        """The keeper of a worker sees it die while it runs these."""
        self.claim_from(some.ALL_QUEUES, n, some.MINUTE, None)
        if self.leases():
            self.lose_all([self.twisted(self.pick(self.held_or_handed(), one), twist) for one in which])

    @rule(some_live, which=some.picks, n=some.few)
    def shut_down(self, which: list[int], n: int) -> None:
        self.claim_from(some.ALL_QUEUES, n, some.MINUTE, None)
        self.hand_back_but([self.pick(self.model.seen.held() or self.tasks(), one) for one in which])
