"""What must hold for verbs that met, whichever they are: they might as well have come one after the other."""

from collections.abc import Sequence
from itertools import permutations

from tests.interleavings.world import Outcome, World, nameless

SKIPS = {
    "claim": "takes what nobody has locked",
    "claim, names": "takes what nobody has locked",
    "claim_these": "takes what nobody has locked",
    "turn": "claims",
    "sweep": "leaves what somebody has locked to the next sweep",
    "hello": "brings back what nobody has locked",
    "hello, again": "brings back what nobody has locked",
    "mark_lost": "leaves what somebody has locked to the next call",
    "release_leases": "leaves what somebody has locked to the next call",
    "bulk, cancel queued": "leaves what has come to fit since it looked to the next call",
}
"""Verbs that leave out what is locked or changes at that moment. Called once more they must have made up for it."""


LOOKS_EVERYWHERE = {"claim", "sweep"}
"""Verbs that read, without a lock, what any other may have written."""

BY_THE_CLOCK = {"sweep", "act", "cancel, draft"}
"""Verbs that do something else once leases and limits have ended."""

NEVER_WAITS = {"claim", "claim, names", "claim_these"}

TWO_FAMILIES = {
    "submit, after held",
    "submit_many, parent gatherer after split",
    "submit_many, parent split after gatherer",
}
"""These lock a task of each of two families, and may be broken off beside a list of tasks of both: a list locks
its tasks before their parents. Whoever is broken off asks again (engine/store/calls.py)."""

LISTS = {"complete, list", "bulk, cancel"}

AS_DOCUMENTED = {
    frozenset({"sweep", "heartbeat"}): "it may be answered for a lease that is just being taken away",
    frozenset({"sweep", "bulk, cancel queued"}): "a page is what fitted when it looked",
    frozenset({"mark_lost", "bulk, cancel queued"}): "a page is what fitted when it looked",
}
"""Pairs that do not end as one after the other would, and are promised not to; docs/guarantees.md says so."""


def meet(world: World, first: str, second: str) -> bool:
    """Whether these two could notice each other at all."""
    return bool({first, second} & LOOKS_EVERYWHERE or world.meet(first, second))


TRIES = 3
"""Some verbs give up a lock after 20 to 200 ms. The order is forced, so what is wrong is wrong each time; what comes of
a machine that stalls for so long is not."""


async def check_commit(world: World, first: str, second: str, *, late: bool) -> Outcome:
    """The first one commits: both have happened, in one order or the other."""
    verbs = (first, second)
    for _ in range(TRIES):
        seen = await world.beside(first, second, late=late, ending="commit")
        refuse_deadlock(verbs, seen, late=late)
        assert not (seen.waited and second in NEVER_WAITS), f"{first} | {second}: the second waited"
        if frozenset(verbs) in AS_DOCUMENTED:
            return seen
        orders = []
        for order in ((0, 1), (1, 0)):
            orders.append(await world.serially(verbs, order, late=late))
            if seen.answers == orders[-1].answers and seen.state == orders[-1].state:
                return seen
        if await made_up(world, verbs, late=late, ending="commit"):
            return seen
    raise AssertionError(report(verbs, seen, orders, late, "commits"))


async def check_rollback(world: World, first: str, second: str, *, late: bool) -> None:
    """The first one never happened."""
    verbs = (first, second)
    alone = await world.alone(second, late=late)
    for _ in range(TRIES):
        seen = await world.beside(first, second, late=late, ending="rollback")
        if nameless(seen.answers[1]) == nameless(alone.answers[0]) and seen.left() == alone.left():
            return
        if await made_up(world, verbs, late=late, ending="rollback"):
            return
    raise AssertionError(report(verbs, seen, [alone], late, "rolls back"))


async def check_queued(world: World, verbs: Sequence[str], seen: Outcome, *, late: bool) -> None:
    """All of them have happened, in some order; unless one of them leaves out what is locked."""
    wrong = await world.owner.fetch("select * from holdfast.verify()")
    assert not wrong, report(verbs, seen, [], late, f"lines up first; {wrong}")
    if any("DEADLOCK" in answer for answer in seen.answers):
        return  # that it may be was checked before; who is broken off has done nothing and asks again
    orders = []
    for order in permutations(range(len(verbs))):
        orders.append(await world.serially(verbs, order, late=late))
        if seen.answers == orders[-1].answers and seen.state == orders[-1].state:
            return
    assert SKIPS.keys() & set(verbs), report(verbs, seen, orders, late, "lines up first")


def refuse_deadlock(verbs: Sequence[str], seen: Outcome, *, late: bool) -> None:
    if LISTS & set(verbs) and TWO_FAMILIES & set(verbs):
        return
    assert not any("DEADLOCK" in answer for answer in seen.answers), report(verbs, seen, [], late, "lines up first")


async def made_up(world: World, verbs: tuple[str, str], *, late: bool, ending: str) -> bool:
    """Whether the second one, which leaves out what is locked, has made up for it when it is called again."""
    if verbs[1] not in SKIPS:
        return False
    seen = (await world.beside(*verbs, late=late, ending=ending, again=True)).left()
    for order in [(0, 1, 1), (1, 0, 1), (0, 1), (1, 0)] if ending == "commit" else [(1, 1), (1,)]:
        if (await world.serially(verbs, order, late=late)).left() == seen:
            return True
    return False


def report(verbs: Sequence[str], seen: Outcome, orders: Sequence[Outcome], late: bool, ending: str) -> str:
    """Both histories, and what differs."""
    when = "after" if late else "before"
    lines = [f"{' | '.join(verbs)}: the first {ending}, {when} the leases' end", *seen.answers]
    lines.append("the last one waited" if seen.waited else "the last one did not wait")
    for one in orders:
        lines += ["--- is not what one after the other gives:", *one.answers]
        for table, rows in seen.state.items():
            lines += [f"only beside each other  {table} {row}" for row in rows if row not in one.state[table]]
            lines += [f"only one after another  {table} {row}" for row in one.state[table] if row not in rows]
    return "\n".join(lines)
