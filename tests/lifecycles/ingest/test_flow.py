"""A document goes through its steps, and is found."""

from tests.lifecycles.ingest.desk import Desk

STEPS = ["FETCHED", "CONTENT_EXTRACTED", "CHUNKED", "EMBEDDED", "ENTITY_EXTRACTED", "PERSISTED", "INDEXED"]
KELP = "# Kelp\n\nA holdfast is the part of kelp that clings to the rock.\n\nIt has no roots.\n"
BREAD = "# Bread\n\nSourdough is leavened by wild yeast and lactic bacteria.\n"


async def test_a_document_goes_through_every_step_and_is_found(desk: Desk) -> None:
    run = await desk.ingest(desk.write("kelp.md", KELP), {"uri": desk.write("bread.md", BREAD), "name": "bread"})
    assert run["status"] == "COMPLETED", await desk.items(run)
    assert (run["item_count_total"], run["item_count_done"]) == (2, 2)
    assert run["steps"] == dict.fromkeys(STEPS, 2)
    for item in await desk.items(run):
        assert (item["status"], item["step"], item["retry_count"], item["last_error_kind"]) == ("DONE", "DONE", 0, "")
        assert set(await desk.steps(item["item_id"])) == set(STEPS)
    assert (await desk.found("what leavens sourdough"))[0] == "bread"
    assert (await desk.found("holdfast", mode="text")) == [desk.write("kelp.md", KELP)]
