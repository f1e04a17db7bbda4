"""A graph for the command line. Only workers load it."""

from holdfast import Fatal, Holdfast

hf = Holdfast()
nightly = hf.dag("nightly", title="Prices of a day", retries=0)


@nightly.task
def load(day: str, broken: bool = False) -> list[float]:
    return [1.5, 2.5]


@nightly.task
def check(load: list[float], broken: bool = False) -> int:
    if broken:
        raise Fatal("the prices make no sense")
    return len(load)


@nightly.task(after={"check": "ignore"})
def report(load: list[float], day: str) -> str:
    return f"{day}: {sum(load)}"


@nightly.task
def publish(check: int, report: str) -> str:
    return report
