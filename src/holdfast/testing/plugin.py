"""The pytest plugin: the fixture `holdfast`, the real engine on a database of the test's own.

Nothing is imported and nothing is started until a test asks for the fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.testing.engine import Engine
    from holdfast.testing.ground import Ground


@pytest.fixture(scope="session")
def holdfast_ground(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["Ground"]:  # fmt: skip
    """One Postgres for the whole run, shared by the processes of pytest-xdist."""
    from holdfast.testing.ground import Ground

    own = tmp_path_factory.getbasetemp()
    with Ground((own.parent if hasattr(pytestconfig, "workerinput") else own) / "holdfast") as ground:
        yield ground


@pytest.fixture
def holdfast(holdfast_ground: "Ground") -> "Iterator[Engine]":
    """The real engine on a database of this test's own, with a clock that is moved: `holdfast.run(task, ...)`."""
    from holdfast.testing.engine import Engine

    with holdfast_ground.database() as database, Engine(database) as engine:
        yield engine
