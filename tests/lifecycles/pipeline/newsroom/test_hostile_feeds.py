"""Whoever names a feed, or writes one, gets neither at the files of the server nor at its time."""

from pathlib import Path

import pytest

from holdfast import Holdfast, SchemaInvalid
from holdfast.apps.newsroom.feeds import SHIPPED, without_document_type
from holdfast.testing.engine import Engine
from tests.lifecycles.pipeline.newsroom.print_shop import item, rss

CUP = "The rowers of Lunne have won the cup by two lengths, and their coach jumped into the fjord in his suit."


@pytest.mark.parametrize("up", ["..", "%2e%2e"])
def test_no_way_leads_from_the_shipped_feeds_to_other_files(holdfast: Engine, tmp_path: Path, up: str) -> None:
    secret = tmp_path / "secret.xml"
    made = rss(item("A secret", CUP))
    secret.write_bytes(made if isinstance(made, bytes) else made.encode())
    address = f"{SHIPPED.as_uri()}/{'/'.join([up] * (len(SHIPPED.parts) - 1))}{secret}"
    ran = holdfast.run(Holdfast().newsroom().opts(owner="eve"), feeds=[address])
    assert ran.state == "FAILED"
    assert "not yours to name" in str(ran.error)


@pytest.mark.timeout(20)
def test_a_document_type_of_unended_comments_costs_no_more_than_its_length() -> None:
    # Looking for each end anew takes a day for as many as these.
    with pytest.raises(SchemaInvalid, match="neither RSS nor Atom"):
        without_document_type(b"<!DOCTYPE x [" + b"<!--" * 1_000_000 + b"]><rss/>", "x")
