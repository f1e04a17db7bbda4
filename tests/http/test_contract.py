"""The server does what its OpenAPI document says, whatever is sent: no 500, no answer that it does not describe."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from holdfast.api import make_app
from holdfast.objects.local import Folder
from holdfast.testing import Ground
from tests.http.serving import serving

pool: Any = None  # the document needs no database
schema = schemathesis.openapi.from_dict(make_app(pool, database="", objects=Folder(Path("unopened"))).openapi())
refused = schema.config.checks.negative_data_rejection
refused.expected_statuses = [*refused.expected_statuses, "413"]  # a list that is too long is, as a rule, too large too


@pytest.fixture(scope="module")
def server(ground: Ground) -> Iterator[str]:
    """Somebody follows its events all the while, so that it also does what it does between two requests.

    It is a thread of this process: what it takes from the generator that Hypothesis watches fails a test.
    """
    with (
        ground.database() as database,
        serving(database) as url,
        httpx.stream("GET", f"{url}/api/v1/events", timeout=60) as events,
    ):
        assert events.status_code == 200
        yield url


@schema.parametrize()
@settings(
    max_examples=2,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_route_keeps_its_contract(case: Any, server: str) -> None:
    if case.operation.path == "/api/v1/events":
        case.query["wait"] = "false"  # or it would never end
    # What fits the document may still be refused: a queue that is not there, a lease that is not held.
    case.call_and_validate(base_url=server, excluded_checks=[positive_data_acceptance], timeout=20)
