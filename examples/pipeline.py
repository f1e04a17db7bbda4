"""A pipeline of four stages, of which one may lose an item and one is switched off.

holdfast dev examples/pipeline.py                                                # in one terminal
holdfast pipeline run menu --param 'dishes=["soup", "bread", "cake"]' --wait     # in another
"""

from holdfast import Holdfast
from holdfast.pipeline import attach, problem

hf = Holdfast()
menu = hf.pipeline("menu", limit="10m")


@menu.stage
def order(dishes: list[str]) -> list[str]:
    """The first stage is required: if it fails, so does the job."""
    return sorted(set(dishes))


@menu.stage(retries=4, timeout="1m")
def price(order: list[str]) -> dict[str, float]:
    """Takes what `order` gave, and so needs it. A dish that cannot be priced is told, and the others go on."""
    known = {"soup": 6.5, "bread": 3.0}
    for dish in order:
        if dish not in known:
            problem(f"{dish} has no price")
    return {dish: known[dish] for dish in order if dish in known}


@menu.stage
def card(price: dict[str, float], currency: str = "EUR") -> str:
    """What it writes can be downloaded for thirty days."""
    text = "\n".join(f"{dish:<10}{amount:>6.2f} {currency}" for dish, amount in price.items())
    attach("menu.txt", text)
    return text


@menu.stage(when="enable_evaluation")
def evaluation(card: str) -> int:
    """Only if the job says enable_evaluation=True."""
    return len(card.splitlines())


if __name__ == "__main__":
    print(card(price(order(["soup", "bread"]))))  # stages are plain functions
