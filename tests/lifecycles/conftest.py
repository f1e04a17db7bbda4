"""The applications over SQL and over HTTP, where their handlers have a server and no database.

`make test` runs those marked `over_http` over HTTP too, `make crash` those marked `over_http("long")`, which kill
workers. With HOLDFAST_TEST_TRANSPORT=http all of them speak HTTP.
"""

import contextlib
import os
from collections.abc import Iterator

import pytest

from holdfast.testing.engine import Engine
from tests.over_http import speaking_http
from tests.tiers import both_transports

ALWAYS = os.environ.get("HOLDFAST_TEST_TRANSPORT", "sql")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    both_transports(metafunc)


@pytest.fixture
def transport() -> str:
    return ALWAYS


@pytest.fixture
def holdfast(holdfast: Engine, transport: str) -> Iterator[Engine]:
    with speaking_http(holdfast) if transport == "http" else contextlib.nullcontext():
        yield holdfast
