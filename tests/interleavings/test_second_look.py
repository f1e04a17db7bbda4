"""What the sweep read before its lock it looks at again under it."""

import asyncio

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Done
from holdfast.testing import Clock, Database
from tests.promises.stage import MINUTE, submit, take

HALT = """
alter function holdfast.settle_lost rename to settle_lost_now;
create function holdfast.settle_lost(p_id uuid[], p_certain bool) returns int language plpgsql
as 'begin perform pg_advisory_xact_lock(1); return holdfast.settle_lost_now(p_id, p_certain); end';
select pg_advisory_lock(1)
"""
"""The sweep has found leases that ran out, and is held up before it takes them away."""

WAITS = "select exists (select from pg_locks where locktype = 'advisory' and not granted)"


async def test_a_heartbeat_between_the_sweeps_two_looks_keeps_its_lease(
    store: Store, database: Database, clock: Clock
) -> None:
    await submit(store)
    (lease,) = await take(store)
    clock.advance(seconds=61)
    async with database.connect_owner() as owner, database.connect() as sweeper:
        await owner.execute(HALT)
        sweeping = asyncio.create_task(Store(sweeper).sweep())
        while not await owner.fetchval(WAITS):
            assert not (await asyncio.wait([sweeping], timeout=0.002))[0], "it took nothing away"
        assert await store.heartbeat([lease], lasting=MINUTE)
        await owner.execute("select pg_advisory_unlock(1)")
        assert (await sweeping).reaped == 0
    assert (await store.finish(lease, Done())).state == "Completed"
