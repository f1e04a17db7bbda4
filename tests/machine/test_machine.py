"""Whatever callers do, in whatever order, the kernel's promises hold.

Hypothesis makes up histories: tasks of all lifecycles, workers that settle, fall silent or come back too late, owners
that change their minds, and time that passes. Each call goes through the store to the real functions, as the
application. After each call the model replays the events, and the laws are checked on the rows themselves. A history
that breaks a promise is made as short as it can be; tests/simulation plays many more and longer ones.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hypothesis.stateful as stateful
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from holdfast.testing import Ground
from tests.machine.opening import Opened, opened
from tests.machine.pools import Pool
from tests.machine.rules import BEGINNING, RULES, Rule, Rules
from tests.tiers import deep

STEPS = 50
EXAMPLES = 20
MANY_EXAMPLES = 200


class Player(Rules, RuleBasedStateMachine):
    """A history as Hypothesis plays it."""

    def __init__(self, stage: Opened) -> None:
        RuleBasedStateMachine.__init__(self)
        Rules.__init__(self, *stage)
        self.steps = 0

    @stateful.invariant()
    def the_laws_hold(self) -> None:
        self.steps += 1
        self.check_touched()
        if self.steps % 8 == 0:
            self.check_all()

    def teardown(self) -> None:
        # A teardown comes after a failure too; the failure itself is what should be shown then.
        if sys.exc_info()[0] is None:
            self.tally["examples"] += 1
            self.tally["steps"] += self.steps
            self.drain()
            self.check_all()


def strategies(pools: Mapping[str, Pool[Any]]) -> Any:
    return {name: pool.strategy for name, pool in pools.items()}


play: Any = stateful.rule
initialize: Any = stateful.initialize


def as_hypothesis_knows_it(one: Rule) -> Any:
    known: Any = play(**strategies(one.pools))(one.method)
    return stateful.precondition(one.when)(known) if one.when else known


Machine: Any = type(
    "Machine",
    (Player,),
    {one.name: as_hypothesis_knows_it(one) for one in RULES}
    | {"begin": initialize(**strategies(BEGINNING))(Rules.begin)},
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("examples", [deep(EXAMPLES), pytest.param(MANY_EXAMPLES, marks=pytest.mark.long)])
def test_no_history_breaks_a_promise(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, examples: int
) -> None:
    set_hypothesis_home_dir(tmp_path)  # nothing is written into the repository
    # Hypothesis would reduce a failure for five minutes.
    monkeypatch.setattr("hypothesis.internal.conjecture.engine.MAX_SHRINKING_SECONDS", 90, raising=False)
    tally: Counter[str] = Counter()
    with opened(ground, tally) as stage:
        make: Any = lambda: Machine(stage)  # noqa: E731
        run_state_machine_as_test(
            make,
            settings=settings(
                max_examples=examples,
                stateful_step_count=STEPS,
                deadline=None,
                database=None,
                print_blob=True,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate, Phase.shrink],
            ),
        )
    assert tally["steps"] >= examples * STEPS / 2
