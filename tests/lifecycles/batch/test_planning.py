"""What a batch is made of: inputs are looked at one by one, and cut into jobs as the provider takes them."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.datasets.store import Datasets
from holdfast.errors import SchemaInvalid
from holdfast.lifecycles.batch.planning import read_prompts, unfit_address
from tests.lifecycles.batch.conftest import TWO, Office


def test_what_can_never_be_done_is_set_aside_and_counts_as_failed(office: Office) -> None:
    bad = ["ftp://example.org/a.wav", "https://example.org", "https://example.org/setup.exe", "nonsense"]
    ran = office.run([*TWO, *bad])
    found = office.batch(ran.handle.id)
    assert (ran.state, found.manifest.inputs, found.manifest.ok, found.manifest.invalid) == (
        "PARTIAL_COMPLETE",
        6,
        2,
        4,
    )
    assert sorted(found.provider_state["invalid_urls"]) == sorted(bad)
    manifest = office.read(found.manifest.uri)
    assert [one["status"] for one in manifest["items"]] == ["ok"] * 2 + ["invalid"] * 4
    assert manifest["items"][-1]["reason"] == "The bureau does not read that."


def test_with_nothing_that_can_be_done_it_has_failed_and_nobody_was_asked(office: Office) -> None:
    ran = office.run(["nonsense"])
    assert (ran.state, office.bureau.asked) == ("FAILED", [])
    (entry,) = office.engine.call(office.store.inbox.newest())
    assert (entry["category"], entry["error"]["code"]) == ("SchemaInvalid", "no-valid-input")
    assert office.batch(ran.handle.id).provider_state["invalid_urls"] == ["nonsense"]


def test_an_input_that_is_named_twice_is_done_once(office: Office) -> None:
    ran = office.run([TWO[0], TWO[0]])
    assert (ran.state, office.batch(ran.handle.id).manifest.inputs) == ("COMPLETED", 1)


def test_a_dataset_is_taken_in_the_version_that_it_had(office: Office) -> None:
    datasets = Datasets.over(office.store)
    first, _ = office.engine.call(datasets.make("", "calls", [{"uri": TWO[0]}]))
    handle = office.start([], dataset_ids=[str(first)])
    second, version = office.engine.call(datasets.make("", "calls", [{"uri": TWO[1]}]))
    assert (second, version) == (first, 2)
    ran = office.engine.run(handle)
    merged = office.read(office.batch(ran.handle.id).result_uri)
    assert [one["input"] for one in merged["transcriptions"]] == [TWO[0]]
    assert office.batch(ran.handle.id).provider_state["dataset_ids"] == [str(first)]


@pytest.mark.deep
def test_ten_thousand_inputs_are_one_batch(open_office: Any) -> None:
    office: Office = open_office(inputs_per_job=1000, polls=1)
    urls = [f"https://example.org/{'long-name-' * 5}{n}.wav" for n in range(10_000)]
    task, created = office.engine.call(office.batches.make("transcription", "BUREAU", urls=urls, key="once"))
    again, repeated = office.engine.call(office.batches.make("transcription", "BUREAU", urls=urls, key="once"))
    assert (created, repeated, task) == (True, False, again)
    ran = office.engine.run(office.hf.handle(task))
    assert (ran.state, office.batch(task).manifest.ok, len(office.bureau.ledger)) == ("COMPLETED", 10_000, 10)


def test_only_what_failed_is_done_again(office: Office) -> None:
    office.bureau.bad = {"b.wav": "Too noisy."}
    first = office.run([*TWO, "https://example.org/no.exe"])
    office.bureau.bad = {}
    task, _ = office.engine.call(office.batches.make("transcription", "BUREAU", again_of=first.handle.id))
    ran = office.engine.run(office.hf.handle(task))
    found = office.batch(task)
    assert (ran.state, found.manifest.inputs, found.retry_of) == ("COMPLETED", 1, first.handle.id)
    merged = office.read(found.result_uri)
    assert [one["input"] for one in merged["transcriptions"]] == [TWO[1]]


def test_a_retry_of_the_whole_does_all_of_it_again(office: Office) -> None:
    office.bureau.wrong = "The provider had a bad day."
    first = office.run()
    office.bureau.wrong = None
    again = office.engine.call(office.store.retry(first.handle.id))
    ran = office.engine.run(office.hf.handle(again))
    assert (ran.state, office.batch(again).manifest.inputs, len(office.bureau.ledger)) == ("COMPLETED", 2, 2)


def test_prompts_are_lines_of_text_or_of_json(tmp_path: Path) -> None:
    path = tmp_path / "prompts"
    path.write_text(
        'Why?\n\n"How?"\n{"prompt": "Where?", "max_tokens": 5}\n'
        '{"custom_id": "x", "body": {"model": "m", "messages": [{"role": "user", "content": "When?"}]}}\n'
    )
    found, wrong = read_prompts(path, "prompts.jsonl", 3)
    assert wrong == []
    assert [one.body["messages"][0]["content"] for one in found] == ["Why?", "How?", "Where?", "When?"]
    assert [one.key for one in found] == ["3-1", "3-3", "3-4", "3-5"]
    assert found[2].body["max_tokens"] == 5
    assert "model" not in found[3].body


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"\xff\xfe", "UTF-8"), (b"\n \n", "no prompts")],
)
def test_a_file_that_holds_no_prompts_says_so(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "prompts"
    path.write_bytes(text)
    with pytest.raises(SchemaInvalid, match=message):
        read_prompts(path, "prompts.jsonl", 0)


@pytest.mark.parametrize("uri", ["s3://bucket/a.wav", "gs://b/a", "object:users/x/1", "file:///a.wav", "HTTPS://a/b"])
def test_addresses_of_every_place_can_be_tried(uri: str) -> None:
    assert unfit_address(uri) is None


def test_a_line_that_is_no_prompt_is_set_aside_and_the_others_go_on(tmp_path: Path) -> None:
    path = tmp_path / "prompts"
    path.write_text('Why?\n{broken\n{"a": 1}\n')
    found, wrong = read_prompts(path, "prompts.jsonl", 0)
    assert [one.name for one in found] == ["prompts.jsonl:1"]
    assert [one.input for one in wrong] == ["prompts.jsonl:2", "prompts.jsonl:3"]
    assert "begins like JSON" in wrong[0].reason
