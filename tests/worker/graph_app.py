"""A graph that publishes and asks, for workers that have no database."""

from holdfast import Holdfast, ask, output

hf = Holdfast()
nightly = hf.dag("harbour", writes="prices")


@nightly.task
def landed(day: str) -> dict[str, int]:
    return {"cod": 40, "sole": len(day)}


@nightly.task
async def priced(landed: dict[str, int]) -> int:
    output("prices", [{"species": species, "kg": kg} for species, kg in landed.items()])
    return sum(landed.values())


@nightly.task
async def approved(priced: int) -> bool:
    answer = await ask("publish", f"Publish {priced} kg?", within="1h")
    return bool(answer["approved"])


hf.cron("0 2 * * *", nightly, day="today", name="every-night")


@hf.task(queue="graphs")
async def start_graph(day: str) -> str:
    return str((await nightly.opts(key=f"night-{day}").astart(day=day)).id)


hf.cron("0 3 * * *", start_graph, at="day", name="every-morning")
