"""The applications over SQL; with HOLDFAST_TEST_TRANSPORT=http their handlers have a server and no database."""

import os
from collections.abc import Iterator

import pytest

from holdfast.testing.engine import Engine
from tests.spoken import speaking_http


@pytest.fixture
def holdfast(holdfast: Engine) -> Iterator[Engine]:
    if os.environ.get("HOLDFAST_TEST_TRANSPORT") != "http":
        yield holdfast
        return
    with speaking_http(holdfast):
        yield holdfast
