"""One scene in which every verb of the kernel has something to do, and most have the same thing to do."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from holdfast.engine.lifecycle.model import Lifecycle, clock, final, gather, work
from holdfast.engine.store.commands import Store
from holdfast.engine.task import Failed, Lease, Moved, Submission
from holdfast.testing import Clock, Database
from tests.promises.stage import MINUTE, submit

TREE = Lifecycle(
    "tree", start="SPLIT", cancel="CANCELLED", fail="FAILED", effects="tell",
    states=[
        work("SPLIT", done="DONE", to=["JOIN", "REST", "ONWARDS"]),
        work("ONWARDS", done="DONE"),
        clock("REST", due="JOIN"),
        gather("JOIN", done="DONE", partial="DONE", fail="FAILED"),
        final("DONE", "done"), final("FAILED", "failed"), final("CANCELLED", "cancelled"),
    ],
)  # fmt: skip

EFFECTS = """
create table holdfast.told (task_id uuid, verb text, step text, to_state text, attempt int);
create function holdfast.tell(moved holdfast.moved[]) returns void language sql
as 'insert into holdfast.told select m.task_id, m.verb, m.step, m.to_state, m.attempt from unnest(moved) m';
revoke execute on function holdfast.tell from public;
"""


@dataclass(frozen=True)
class Scene:
    """A task with a worker (`held`) and all that hangs on it; a parent about to wait; and what nobody holds.

    `gatherer` waits for `held` alone. `child` is held's own, with the same worker. `dependent` is blocked by held, and
    `limited` by the place that held takes. `split` is with a worker and has one child, `last`, which is too; so is
    `asked`, which has been asked to cancel. `resting` waits for the clock, `unknown` for somebody who knows its name,
    `ready` and `tree` for anybody. `draft`, the youngest, is its owner's until a time limit ends it. `dead` has failed
    for good, and `lost`, a child of `split` too, was cancelled because of it.
    """

    held: Lease
    child: Lease
    split: Lease
    last: Lease
    asked: Lease
    gatherer: UUID
    dependent: UUID
    limited: UUID
    ready: UUID
    tree: UUID
    unknown: UUID
    resting: UUID
    draft: UUID
    dead: UUID
    lost: UUID
    entry: UUID
    key: UUID
    now: datetime

    def named(self) -> dict[str, str]:
        """What each id and token is called in a history."""
        names: dict[str, str] = {}
        for role, value in vars(self).items():
            if isinstance(value, Lease):
                names |= {str(value.task_id): role, str(value.token): f"{role}'s lease"}
            elif isinstance(value, UUID):
                names[str(value)] = role
        return names


async def build(database: Database, owner: asyncpg.Connection) -> Scene:
    """Made by the verbs themselves, a second apart, so that ids are in the order in which they were made."""
    await owner.execute(EFFECTS)
    async with database.connect() as connection:
        store = Store(connection)
        await store.declare(TREE)
        at = database.clock

        async def make(name: str, **options: object) -> UUID:
            at.advance(seconds=1)
            return await submit(store, name, **options)

        await store.hello("w", label="w", queues=["default"], names=None, slots=9)
        unknown = await make("unknown")
        assert not await store.claim(["default"], 9, lasting=MINUTE, worker="w", names=["known"])
        dead = await make("dead", limit_key="free")
        await store.finish(await take(store, at, dead), Failed("Fatal", "no"))
        resting = await make("resting")
        await store.finish(await take(store, at, resting), Failed("Transient", "busy", retry_after=MINUTE))
        gatherer, held, child = await family(store, at)
        dependent = await make("dependent", after=[held.task_id])
        limited = await make("limited", limit_key="k")
        split = await take(store, at, await make("split", lifecycle="tree"))
        last = await take(store, at, await make("last", parent=split.task_id))
        lost = await make("lost", parent=split.task_id, after=[dead])
        asked = await take(store, at, await make("asked"))
        assert await store.cancel(asked.task_id) == "requested"
        ready, tree = await make("ready"), await make("tree", lifecycle="tree", queue="default")
        draft = await make("draft", lifecycle="analysis")
        await store.set_budget("b", 2, MINUTE)
        key = (await store.keys.make("ada", ["user"])).id
        (entry,) = await store.inbox.newest()
        return Scene(
            held, child, split, last, asked, gatherer, dependent, limited, ready, tree, unknown, resting, draft, dead,
            lost, entry["id"], key, at.advance(seconds=1),
        )  # fmt: skip


async def family(store: Store, at: Clock) -> tuple[UUID, Lease, Lease]:
    """A parent that waits for one child with a worker, which has itself a child with a worker."""
    (made,) = await store.submit(Submission("gatherer", lifecycle="tree"))
    assert made.id
    join = await take(store, at, made.id)
    place = {"parent": made.id, "limit_key": "k", "key": "once"}
    held = await take(store, at, await submit(store, "held", **place))
    child = await take(store, at, await submit(store, "child", parent=held.task_id))
    await store.finish(join, Moved("JOIN"))
    return made.id, held, child


async def take(store: Store, at: Clock, task: UUID) -> Lease:
    at.advance(seconds=1)
    (lease,) = await store.claim_these([task], lasting=timedelta(minutes=5), worker="w")
    return lease
