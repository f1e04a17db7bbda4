"""Orders of a shop, made up: what the sample analyses are about. The same round gives the same orders."""

import csv
import random
from pathlib import Path

COUNTRIES = ("DE", "FR", "US", "NL", "de", "")
GOODS = ("net", "lantern", "rope", "compass", "buoy")
rows_each = 2_000


def write_orders(path: Path, round_: int, *, shifted: bool = False) -> Path:
    """A table with what tables have: gaps, doubles, a few numbers that are too large, addresses of people."""
    chance = random.Random(round_)  # noqa: S311
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(("order_id", "ordered_on", "country", "good", "price", "quantity", "email"))
        for number in range(rows_each):
            price = chance.lognormvariate(3.4 if shifted else 3.0, 0.8) * (50 if chance.random() < 0.004 else 1)
            table.writerow(
                (
                    number - (chance.random() < 0.01),
                    f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
                    chance.choice(COUNTRIES),
                    chance.choice(GOODS),
                    f"{price:.2f}",
                    chance.randint(1, 9),
                    f"reader{chance.randint(1, 700)}@example.org",
                )
            )
    return path
