"""A document goes through its steps, and is found."""

import pytest

from tests.lifecycles.ingest.harness import Harness

STEPS = ["FETCHED", "CONTENT_EXTRACTED", "CHUNKED", "EMBEDDED", "ENTITY_EXTRACTED", "PERSISTED", "INDEXED"]
KELP = "# Kelp\n\nA holdfast is the part of kelp that clings to the rock.\n\nIt has no roots.\n"
BREAD = "# Bread\n\nSourdough is leavened by wild yeast and lactic bacteria.\n"


@pytest.mark.over_http
async def test_a_document_goes_through_every_step_and_is_found(harness: Harness) -> None:
    run = await harness.ingest(
        harness.write("kelp.md", KELP), {"uri": harness.write("bread.md", BREAD), "name": "bread"}
    )
    assert run["status"] == "COMPLETED", await harness.items(run)
    assert (run["item_count_total"], run["item_count_done"]) == (2, 2)
    assert run["steps"] == dict.fromkeys(STEPS, 2)
    for item in await harness.items(run):
        assert (item["status"], item["step"], item["retry_count"], item["last_error_kind"]) == ("DONE", "DONE", 0, "")
        assert set(await harness.steps(item["item_id"])) == set(STEPS)
    assert (await harness.found("what leavens sourdough"))[0] == "bread"
    assert (await harness.found("holdfast", mode="text")) == [harness.write("kelp.md", KELP)]
