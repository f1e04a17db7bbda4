"""A graph of tasks: what is named after another node takes its result, and waits for it."""

from holdfast import Holdfast

hf = Holdfast()
nightly = hf.dag("nightly", retries=2)


@nightly.task
def load(day: str) -> list[float]:
    return [19.5, 20.5, 2.0]


@nightly.task
def outliers(load: list[float]) -> list[float]:
    return [price for price in load if price < 5]


@nightly.task
def total(load: list[float]) -> float:
    return sum(load)


@nightly.task(after={"outliers": "ignore"})
def report(day: str, total: float, outliers: list[float] | None) -> str:
    checked = "unchecked" if outliers is None else f"{len(outliers)} odd"
    return f"{day}: {total:.2f} ({checked})"


if __name__ == "__main__":
    print(nightly.start(day="2026-11-18"))
