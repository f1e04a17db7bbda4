"""What the harbour's scales and its auction write down in a day, made up. The same day gives the same papers.

They are as such papers are: a species in capitals, a weight that is missing, a lot that was written down twice.
"""

import csv
import random
from datetime import date
from pathlib import Path

LANDINGS = ("lot", "boat", "species", "kg")
AUCTIONS = ("lot", "buyer", "kg", "cents_per_kg")
BOATS = ("Albatros", "Brisling", "Constance", "Dorothea", "Eider", "Fulmar", "Gannet")
BUYERS = ("Harbour Smokery", "Market Hall", "Night Train", "Old Quay Kitchen")
SPECIES = {"cod": 460, "haddock": 390, "herring": 120, "mackerel": 210, "plaice": 330, "sole": 1480}

lots_each = 400


def write_landings(path: Path, day: date) -> Path:
    """A line for each lot that came ashore."""
    rng = random.Random(f"landings {day}")  # noqa: S311
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(LANDINGS)
        for number, species, kg in lots(day):
            name = species.upper() if rng.random() < 0.05 else species
            weight = "" if rng.random() < 0.01 else kg
            for _ in range(2 if rng.random() < 0.01 else 1):
                table.writerow((number, rng.choice(BOATS), f"{name} " if rng.random() < 0.02 else name, weight))
    return path


def write_auctions(path: Path, day: date) -> Path:
    """A line for each lot that was sold: some stay on the quay, and of some only a part is sold."""
    rng = random.Random(f"auctions {day}")  # noqa: S311
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(AUCTIONS)
        for number, species, kg in lots(day):
            if rng.random() < 0.06:
                continue
            sold = round(kg * rng.uniform(0.3, 1), 1) if rng.random() < 0.2 else kg
            price = round(SPECIES[species] * rng.lognormvariate(0, 0.12))
            table.writerow((number, rng.choice(BUYERS), sold, price))
    return path


def lots(day: date) -> list[tuple[int, str, float]]:
    rng = random.Random(f"lots {day}")  # noqa: S311
    return [(number, rng.choice(list(SPECIES)), round(rng.uniform(8, 120), 1)) for number in range(lots_each)]
