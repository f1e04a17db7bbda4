"""Every mutant can still be made: the text that it replaces is there, once."""

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import ENVIRONMENT, Mutant
from tests.mutants.run import ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_still_applies(mutant: Mutant) -> None:
    text = mutant.of(ROOT)
    if mutant.file.endswith(".py"):
        compile(text, mutant.file, "exec")
    assert all((ROOT / test.partition("::")[0]).exists() for test in mutant.tests)


def test_each_mutant_has_a_name_of_its_own_and_a_layer_that_exists() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.layer for mutant in MUTANTS} == ENVIRONMENT.keys()
