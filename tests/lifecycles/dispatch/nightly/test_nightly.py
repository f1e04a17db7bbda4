"""The nightly graph, run whole: what readers of its datasets see, night by night."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.apps.nightly.sources import write_auctions, write_landings
from holdfast.lifecycles.dispatch.sdk import Dag
from holdfast.tables import read_table
from holdfast.testing import Engine

NIGHT = "2026-11-17"


@pytest.fixture
def hf() -> Iterator[Holdfast]:
    app = Holdfast()
    yield app
    app.close()


@pytest.fixture
def nightly(hf: Holdfast) -> Dag:
    return hf.nightly()


def read(hf: Holdfast, dataset: str) -> Any:
    return hf.dataset(dataset).read()


def nodes(holdfast: Engine, run: Any) -> dict[str, str]:
    links = holdfast.call(holdfast.store.tree(run.handle.id))
    return {str(link.name).rpartition(".")[2]: str(link.state) for link in links if link.relation == "child"}


def test_a_night_publishes_both_datasets_at_once(hf: Holdfast, holdfast: Engine, nightly: Dag) -> None:
    ran = holdfast.run(nightly, day=NIGHT, days=3)
    assert ran.state == "Completed", nodes(holdfast, ran)
    prices, boats = read(hf, "prices"), read(hf, "boats")
    assert (prices.version, boats.version) == (1, 1)
    assert [one.key for one in prices.files] == [one.key for one in boats.files] == ["2026-11-15", "2026-11-16", NIGHT]
    frame = read_table.sync([one.uri for one in prices.files], settings=hf.settings)
    assert frame.height == sum(one.row_count for one in prices.files) == 3 * 6


def test_a_night_whose_figures_do_not_agree_is_never_seen(
    hf: Holdfast, holdfast: Engine, nightly: Dag, tmp_path: Path
) -> None:
    holdfast.run(nightly, day=NIGHT, days=1)
    before = read(hf, "prices")
    write_landings(tmp_path / f"landings-{NIGHT}.csv", date.fromisoformat(NIGHT))
    auctions = write_auctions(tmp_path / f"auctions-{NIGHT}.csv", date.fromisoformat(NIGHT))
    lines = auctions.read_text().splitlines()
    sales = [line.split(",") for line in lines[1:]]
    tenfold = [f"{lot},{buyer},{float(kg) * 10},{price}" for lot, buyer, kg, price in sales]
    auctions.write_text("\n".join([lines[0], *tenfold]))
    ran = holdfast.run(nightly, day=NIGHT, days=1, source=tmp_path.as_uri())
    assert (ran.state, nodes(holdfast, ran)["checked"]) == ("Partial", "Dead")
    assert read(hf, "prices") == before


def test_one_more_column_is_one_more_generation(hf: Holdfast, holdfast: Engine, nightly: Dag) -> None:
    holdfast.run(nightly, day=NIGHT, days=1)
    holdfast.run(nightly, day=NIGHT, days=1, with_share=True)
    assert read(hf, "prices").version == 2
    newest = hf.dataset("prices").generations()[0]
    assert [(one["column"], one["change"]) for one in newest["changes"]] == [("share_sold", "added")]
    hf.dataset("prices").rollback()
    assert (read(hf, "prices").version, read(hf, "boats").version) == (1, 2)


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"day": "yesterday"}, "is not a day"),
        ({"day": NIGHT, "source": "ftp://quay"}, "not a place of papers"),
        ({"day": NIGHT, "source": "file:///nowhere"}, "landings-2026-11-17.csv"),
    ],
)
def test_what_cannot_be_read_is_reported(holdfast: Engine, nightly: Dag, params: dict[str, Any], problem: str) -> None:
    ran = holdfast.run(nightly, days=1, **params)
    assert ran.state in ("Failed", "Partial")
    errors = [entry["error"]["message"] for entry in holdfast.call(holdfast.store.inbox.newest())]
    assert any(problem in message for message in errors), errors
