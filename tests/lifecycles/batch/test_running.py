"""A batch from its inputs to its manifest."""

import pytest

from tests.lifecycles.batch.conftest import TWO, Office


@pytest.mark.over_http
def test_a_batch_is_submitted_polled_and_merged(office: Office) -> None:
    ran = office.run([*TWO, "https://example.org/c.wav"])
    assert ran.state == "COMPLETED"
    found = office.batch(ran.handle.id)
    assert [job.status for job in found.jobs] == ["COMPLETED", "COMPLETED"]
    assert office.bureau.begun_per_token == {job.token: 1 for job in found.jobs}
    merged = office.read(found.result_uri)
    assert [one["transcript"] for one in merged["transcriptions"]] == [
        f"words of https://example.org/{name}.wav" for name in "abc"
    ]
    assert found.cost_cents == 1.5
