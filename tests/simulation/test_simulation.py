"""No seed breaks a promise; each says how much of what can happen it has met.

HOLDFAST_SIM_OPERATIONS is how many operations each seed plays, HOLDFAST_SIM_SEED the first seed, HOLDFAST_SIM_HISTORY
the history of it that is told again.
"""

import os
from collections import Counter

import pytest

from holdfast.testing import Ground
from tests.machine.opening import opened
from tests.machine.rules import SOMETIMES, Rules
from tests.simulation.simulation import History, play

FEW_SEEDS = 1
SEEDS = 10
FEW_OPERATIONS = 250
OPERATIONS = 5_000
MANY_OPERATIONS = 50_000

first_seed = int(os.environ.get("HOLDFAST_SIM_SEED", "0"))
number = int(os.environ.get("HOLDFAST_SIM_HISTORY", "0"))
asked = int(os.environ.get("HOLDFAST_SIM_OPERATIONS", "0"))


def play_seed(ground: Ground, seed: int, operations: int) -> None:
    tally: Counter[str] = Counter()
    with opened(ground, tally) as stage:
        assert play(stage, seed, operations) >= operations
    if operations >= OPERATIONS:
        assert [event for event in SOMETIMES if not tally[event]] == [], tally


def test_a_short_history_breaks_no_promise(ground: Ground) -> None:
    play_seed(ground, first_seed, FEW_OPERATIONS)


@pytest.mark.deep
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(first_seed, first_seed + FEW_SEEDS))
def test_no_history_of_a_seed_breaks_a_promise(ground: Ground, seed: int) -> None:
    play_seed(ground, seed, asked or OPERATIONS)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(first_seed, first_seed + SEEDS))
def test_no_long_run_of_a_seed_breaks_a_promise(ground: Ground, seed: int) -> None:
    play_seed(ground, seed + 1000, asked or MANY_OPERATIONS)


@pytest.mark.deep
@pytest.mark.timeout(300)
def test_a_history_can_be_played_again(ground: Ground) -> None:
    digests = []
    for _ in range(2):
        with opened(ground, Counter()) as stage:
            history = History(first_seed, number, Rules(*stage))
            history.play()
            digests.append(history.digest())
    assert digests[0] == digests[1]
