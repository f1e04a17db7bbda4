"""Many long histories, each made up by a seeded generator and nothing else.

The rules, the model and the laws are those of tests/machine. A history begins with an empty database at the first
moment of 2030, goes on for a thousand operations, and ends when every task has ended. It depends on its seed and its
number alone, so whatever goes wrong in one can be played again by itself.

An operation is one verb of the kernel on one task, or a call that answers for none: a claim that hands out three leases
is three, a sweep is one, time that passes is none. Each is checked at once, in the answer and in every row that was
written since; twice in each history the whole database is read again, replayed by `holdfast.verify`, and explained.
"""

import traceback
from dataclasses import dataclass
from random import Random
from uuid import UUID

from tests.machine import journal
from tests.machine.opening import Opened
from tests.machine.rules import BEGINNING, RULES, Rules

LENGTH = 1000
CALLS_LISTED = 15


class Broken(AssertionError):
    """A promise was broken."""


@dataclass
class History:
    """One history."""

    seed: int
    number: int
    stage: Rules

    def play(self) -> None:
        """From its beginning to its end. Raises Broken."""
        random = Random(f"{self.seed} {self.number}")  # noqa: S311
        stage = self.stage
        try:
            stage.begin(**{name: pool.draw(random) for name, pool in BEGINNING.items()})
            while stage.operations < LENGTH:
                rule = random.choice([rule for rule in RULES if rule.when is None or rule.when(stage)])
                rule.method(stage, **{name: pool.draw(random) for name, pool in rule.pools.items()})
                stage.check_touched()
            stage.check_all()
            stage.drain()
            stage.check_all()
        except Exception as error:
            raise Broken(self._report(error)) from error

    def digest(self) -> str:
        return journal.digest(self.stage.journal, self.stage.model.lives)

    def _report(self, error: Exception) -> str:
        """Where it broke, the last calls that told of the tasks in question, and how to see it again."""
        stage = self.stage
        tasks = list(stage.model.lives)
        names = journal.Names(tasks)
        accused = {UUID(found) for found in journal.ID.findall(str(error))} & set(tasks)
        whom = accused or stage.journal[-1].tasks()
        at = traceback.extract_tb(error.__traceback__)[-1]
        return "\n".join(
            [
                f"seed {self.seed}, history {self.number}, operation {stage.operations}: {names.put_into(error)}",
                f"{at.filename}:{at.lineno}: {at.line}",
                f"The last calls that told of {', '.join(sorted(map(names.put_into, whom))) or 'anybody'}:",
                journal.tell(journal.about(stage.journal, whom)[-CALLS_LISTED:], names),
                f"Play it again: HOLDFAST_SIM_SEED={self.seed} HOLDFAST_SIM_HISTORY={self.number}"
                " .venv/bin/pytest -n 0 tests/simulation -k told_again",
            ]
        )


def play(stage: Opened, seed: int, operations: int) -> int:
    """Histories of this seed, one after the other, for at least so many operations; how many they were."""
    played = number = 0
    while played < operations:
        history = History(seed, number, Rules(*stage))
        history.play()
        played += history.stage.operations
        number += 1
    return played
