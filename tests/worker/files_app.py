"""Tasks that write and read tables, for workers that know a server only."""

import polars as pl

from holdfast import Holdfast, output
from holdfast.tables import Table, read_table, write_table

hf = Holdfast()


@hf.task
async def catch(kg: int) -> Table:
    table = await write_table(pl.DataFrame({"species": ["cod", "sole"], "kg": [kg, 1]}), "catch")
    output("catches", table, key="today")
    return table


@hf.task
def weigh(tables: list[Table]) -> int:
    """A plain function; what it writes goes another way through the event loop."""
    frame = read_table.sync(tables)
    return int(read_table.sync(write_table.sync(frame.select(pl.col("kg").sum()), "sum"))["kg"][0])


@hf.task(retries=0)
async def missing() -> int:
    return (await read_table("object:tables/nowhere.parquet")).height
