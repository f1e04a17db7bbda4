"""The sample documents of `holdfast up --demo`: most are as they were, one is new each time, one is torn."""

from uuid import UUID

import pytest

from holdfast.apps.demo import ingest_papers
from holdfast.lifecycles.ingest.store import Library
from holdfast.testing.engine import Engine

GOOD = ["charter.pdf", "harbour-log.docx", "kelp.md", "lighthouses.html", "tides.txt"]


@pytest.mark.deep
def test_the_papers_of_the_demo_are_ingested_and_ingested_again(holdfast: Engine) -> None:
    library = Library.over(holdfast.store)

    def ended(round_: int, *, torn: bool, crash: str | None = None) -> dict[str, str]:
        """How each paper of a round ended."""
        run = UUID(holdfast.run(ingest_papers, round_, torn=torn, crash_after=crash).result)
        holdfast.drain()
        items = holdfast.call(library.items(run))
        unchanged = {one["name"] for one in items if one["result"] and one["result"].get("unchanged")}
        return {
            one["name"].removeprefix("library/"): "unchanged" if one["name"] in unchanged else one["status"]
            for one in items
        }

    assert ended(7, torn=True) == {**dict.fromkeys(GOOD, "DONE"), "torn-letter.pdf": "FAILED"}
    assert ended(8, torn=False, crash="brought") == {**dict.fromkeys(GOOD, "unchanged"), "harbour-log.docx": "DONE"}
    found = holdfast.call(library.search("no ship leaves when the red lantern is lit", mode="text"))
    assert found[0].name == "library/charter.pdf"
    assert holdfast.call(holdfast.store.verify()) == []
