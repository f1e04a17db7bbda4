"""The server does what its OpenAPI document says, whatever is sent: no 500, no answer that it does not describe."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks
from schemathesis.core.result import Ok
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
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
        httpx2.stream("GET", f"{url}/api/v1/events", timeout=60) as events,
    ):
        assert events.status_code == 200
        yield url


OPERATIONS = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
FEW = settings(max_examples=2, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("phase", [pytest.param("fuzzing"), pytest.param("coverage", marks=pytest.mark.deep)])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_every_route_keeps_its_contract(operation: Any, phase: str, server: str) -> None:
    """By chance, and in the deep tier at the edges of every field.

    What is sent is made here, where `schema.parametrize` makes it at collection, in every process of a run.
    """

    def keeps(case: Any) -> None:
        if case.operation.path == "/api/v1/events":
            case.query["wait"] = "false"  # or it would never end
        # What fits the document may still be refused: a queue that is not there, a lease that is not held.
        case.call_and_validate(base_url=server, excluded_checks=[positive_data_acceptance], timeout=60)

    load_all_checks()
    phases = schema.config.phases
    phases.fuzzing.enabled, phases.coverage.enabled = phase == "fuzzing", phase == "coverage"
    build_operation_test(
        config=schema.config,
        operation=operation,
        test_func=keeps,
        given_kwargs={},
        feedback=FeedbackSources(),
        explicit_settings=FEW,
    )()
