"""Documents from the command line: a folder goes in, its end is told, and what failed, and what is still asked."""

import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.cli import files as files_module
from holdfast.cli.files import Document, Sources, upload_sources
from holdfast.cli.ingest import find_documents
from holdfast.errors import RequestInvalid, UrlRefused
from holdfast.remote.server import Server
from holdfast.settings import Settings
from holdfast.testing import Database
from tests.cli.conftest import Keyboard
from tests.eventually import eventually_sync
from tests.http.serving import serving
from tests.worker.living import staffed

KELP = "# Kelp\n\nA holdfast is the part of kelp that clings to the rock.\n"
BREAD = "# Bread\n\nSourdough is leavened by wild yeast.\n"
TORN = b"PK\x03\x04 the rest is missing"


@pytest.fixture(scope="module")
def server(live: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with staffed(live, tmp_path_factory.mktemp("home"), "tests.lifecycles.ingest.app:hf") as address:
        yield address


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two documents in `papers`, where the command is typed."""
    monkeypatch.chdir(tmp_path)
    papers = tmp_path / "papers"
    (papers / "more").mkdir(parents=True)
    (papers / "kelp.md").write_text(KELP)
    (papers / "more" / "bread.md").write_text(BREAD)
    return papers


@pytest.mark.deep
def test_a_folder_is_ingested_and_only_what_changed_is_ingested_again(typed: Keyboard, folder: Path) -> None:
    first = typed("ingest", "papers", "--wait")
    assert first.code == 0, first.err
    assert "uploaded 2 documents (110 bytes)" in first.err
    assert "COMPLETED: 2 of 2 are in; cost 0 cents" in first.err
    assert "papers/more/bread.md" in typed("search", "sourdough", "--mode", "text").out
    (folder / "kelp.md").write_text(KELP + "\nIt has no roots.\n")
    assert "2 of 2 are in (1 as before)" in typed("ingest", "papers", "--wait").err
    assert "2 of 2 are in;" in typed("ingest", "papers", "--wait", "--force").err


def test_what_failed_is_listed_with_its_reason_and_the_inbox(typed: Keyboard, folder: Path) -> None:
    (folder / "torn.docx").write_bytes(TORN)
    some = typed("ingest", "papers", "--wait")
    assert some.code == 6
    assert re.search(r"PARTIAL: 2 of 3 are in.*, 1 failed; cost 0 cents", some.err), some.err
    row = next(line for line in some.lines if line.startswith("papers/torn.docx"))
    assert row.split()[1:3] == ["SchemaInvalid", "CONTENT_EXTRACTED"]
    assert row.endswith("It is a zip archive whose end is missing. Send it again, whole.")
    assert "holdfast inbox ls" in some.err
    none = typed("ingest", "papers/torn.docx", "--wait", "--json")
    assert (none.code, none.err, none.json["status"]) == (1, "", "FAILED")
    assert [one["name"] for one in none.json["failed"]] == ["papers/torn.docx"]


def test_a_spent_budget_is_reported_and_can_be_raised(typed: Keyboard, folder: Path) -> None:
    run = typed("ingest", "papers", "--name-prefix", "new/", "--budget", "0").out.strip()
    eventually_sync(lambda: typed("runs", "show", run, "--json").json["item_count_waiting"] == 2)
    waits = typed("runs", "watch", run, "--timeout", "1s")
    assert waits.code == 124, waits.err
    assert f"Allow more: holdfast runs budget {run} CENTS" in waits.err
    assert f"Follow it: holdfast runs watch {run}" in waits.err
    assert "2 documents wait" in typed("runs", "show", run).err
    raised = typed("runs", "budget", run, "none")
    assert (raised.code, raised.out) == (0, "It has spent 0 cents.\n")
    assert typed("runs", "watch", run).code == 0


def test_a_run_is_cancelled_and_watching_it_says_so(typed: Keyboard, folder: Path) -> None:
    run = typed("ingest", "papers", "--name-prefix", "gone/", "--budget", "0").out.strip()
    assert typed("runs", "cancel", run, "--reason", "wrong folder").code == 0
    assert typed("runs", "watch", run).code == 7
    again = typed("runs", "cancel", run, "--json")
    assert (again.code, again.json["effect"]) == (4, "too_late")


def test_waiting_for_a_queue_that_stands_still_prints_the_reason(typed: Keyboard, folder: Path, live: Database) -> None:
    live.ask_owner("select holdfast.pause_queue('ingest_item', 'ada')")
    try:
        done = typed("ingest", "papers/kelp.md", "--force", "--wait", "--timeout", "1s")
    finally:
        live.ask_owner("select holdfast.resume_queue('ingest_item')")
    assert done.code == 124
    assert "papers/kelp.md: Queue ingest_item is paused" in done.err
    assert "Resume it: holdfast queues resume ingest_item" in done.err


def test_without_waiting_the_id_alone_is_on_stdout(typed: Keyboard, folder: Path) -> None:
    begun = typed("ingest", "papers")
    assert (begun.code, len(begun.out.strip())) == (0, 36)
    assert f"Follow it: holdfast runs watch {begun.out.strip()}" in begun.err
    assert typed("runs", "watch", begun.out.strip()).code == 0
    assert begun.out[:8] in typed("runs", "ls").out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["ingest", "nowhere.md"], 2, "There is no nowhere.md."),
        (["ingest", "photos"], 2, "Left out: 1 of a kind that cannot be read (photos/photo.png)."),
        (["runs", "show", "ffff"], 3, "No run's id begins with 'ffff'"),
        (["runs", "budget", "ffff", "much"], 2, "'much' is neither a number of cents nor `none`"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_fix(
    typed: Keyboard, folder: Path, arguments: list[str], code: int, says: str
) -> None:
    photos = folder.with_name("photos")
    photos.mkdir()
    (photos / "photo.png").write_bytes(b"\x89PNG\r\n")
    done = typed(*arguments)
    assert (done.code, says in " ".join(done.err.split())) == (code, True), done.err


def test_a_server_that_is_not_there_is_exit_5(
    holdfast: Keyboard, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_API", "http://127.0.0.1:1")
    monkeypatch.setattr("holdfast.remote.server.calls_at_most", 1)
    done = holdfast("ingest", "papers")
    assert (done.code, "Start it with `holdfast up`" in done.err) == (5, True)


def test_folders_are_walked_by_name_and_what_is_no_document_is_counted(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("x")
    (folder / "photo.png").write_bytes(b"\x89PNG\r\n")
    (folder / "nothing.txt").touch()
    os.mkfifo(folder / "pipe")
    (folder / "torn.docx").write_bytes(TORN)
    found = find_documents(["https://example.org/a", "papers", "papers/kelp.md", "./papers/kelp.md"])
    assert [one.name for one in found.documents] == [
        "https://example.org/a", "papers/kelp.md", "papers/torn.docx", "papers/more/bread.md",
    ]  # fmt: skip
    assert sorted(found.left_out) == [
        ("papers/.git", "hidden"), ("papers/nothing.txt", "empty"),
        ("papers/photo.png", "of a kind that cannot be read"), ("papers/pipe", "not a regular file"),
    ]  # fmt: skip
    assert [one.name for one in find_documents(["papers/photo.png", "papers/nothing.txt"]).documents] == [
        "papers/photo.png", "papers/nothing.txt",
    ]  # fmt: skip
    assert found.documents[1] == Document("papers/kelp.md", Path("papers/kelp.md"))


def test_a_name_that_is_no_text_still_tells_its_file_from_others(folder: Path) -> None:
    for name in (b"a\xff.md", b"a\xfe.md"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text(KELP)
    names = [one.name for one in find_documents(["papers"]).documents]
    assert names[:2] == ["papers/a\\xfe.md", "papers/a\\xff.md"]


def test_more_than_a_run_takes_is_refused_before_anything_is_sent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_module, "documents_at_most", 1)
    with pytest.raises(RequestInvalid, match="These are 2 files; 1 are the most at once") as refused:
        find_documents(["papers"])
    assert "Nothing was sent" in refused.value.fix


class Flaky(Server):
    """A server whose every third link is refused the first time."""

    sent: tuple[str, ...] = ()
    refused: frozenset[int] = frozenset()
    asked = 0

    async def ask(self, method: str, path: str, body: object = None, **options: Any) -> dict[str, Any]:
        self.asked += 1
        return await super().ask(method, path, body, **options)

    async def send(self, link: Mapping[str, Any], body: AsyncIterator[bytes], size: int) -> None:
        if size % 3 == 0 and size not in self.refused:
            self.refused |= {size}
            raise UrlRefused("It ran out.")
        await super().send(link, body, size)
        self.sent += (link["name"],)


async def test_what_did_not_get_through_is_sent_again_and_nothing_else(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_module, "links_at_once", 6)
    files = [Document(f"{n}.txt", tmp_path / f"{n}.txt") for n in range(1, 11)]
    for number, one in enumerate(files, 1):
        assert one.path
        one.path.write_text("x" * number)
    with serving(database) as address:
        async with httpx2.AsyncClient(base_url=address) as http:
            flaky = Flaky(Settings(api=address), http)
            found = await upload_sources(flaky, Sources(files), quiet=True)
    assert list(found.values()) == [one.name for one in files]
    assert sorted(flaky.sent) == sorted(found.values())
    assert flaky.asked == 4  # two lists of links, each asked for once more
    assert len(found) == 10
