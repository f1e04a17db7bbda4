"""No queue at all: the fewest row writes that a durable task needs, by the same driver and with the same handlers.

A row is inserted, claimed (one update with SKIP LOCKED that writes a token), and deleted. Claim and delete are one
statement and one commit each for a whole batch; nothing checks the token, nothing is kept, no worker is woken. What a
queue does beyond this is what it costs.
"""

from collections.abc import Sequence

import asyncpg
import uvloop

from bench.peers.adaptors import contract

TABLE = """
create table bare (id bigint primary key generated always as identity, number int not null, token uuid);
create index on bare (id) where token is null;
"""
INSERT = "insert into bare (number) select unnest($1::int[])"
CLAIM = """
with picked as materialized (select id from bare where token is null order by id limit $1 for update skip locked)
update bare set token = gen_random_uuid() where id = any (array(select id from picked)) returning id, number
"""
DELETE = "delete from bare where id = any ($1)"


class Limit(contract.Adaptor):
    async def setup(self) -> None:
        await self.open()
        await self.connection.execute(TABLE)

    async def open(self) -> None:
        self.connection = await asyncpg.connect(contract.URL)

    async def submit(self, task: str, number: int) -> None:
        await self.connection.execute(INSERT, [number])

    async def submit_many(self, task: str, numbers: Sequence[int]) -> None:
        for some in contract.in_lists(numbers):
            await self.connection.execute(INSERT, list(some))

    async def work(self, mode: str) -> None:
        page = contract.tally()
        contract.wait_at_gate()
        await self.open()

        async def noop(number: int) -> None:
            page.ran(number)

        stop = contract.stop_event()
        while not stop.is_set():
            rows = await self.connection.fetch(CLAIM, contract.BATCH)
            for row in rows:
                await noop(row["number"])
            if rows:
                await self.connection.execute(DELETE, [row["id"] for row in rows])


if __name__ == "__main__":
    uvloop.install()
    contract.run(Limit())
