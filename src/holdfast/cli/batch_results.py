"""What became of each input of a batch: the manifest and the results, read by their links and put side by side.

The transcripts of the recordings that come with Holdfast are known, so that the word error rate can be given.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.access import Server
from holdfast.cli.dataset import read_dataset
from holdfast.cli.files import basename, read_url
from holdfast.cli.printing import Cell, count, format_cost, is_terminal, print_columns, print_line, print_more, to_json

if TYPE_CHECKING:
    from holdfast.cli.files import Document

Item = dict[str, Any]
STYLES = {"ok": "green", "failed": "red", "invalid": "yellow"}
inputs_read = 2_000
rows_listed = 50


@dataclass(frozen=True)
class Known:
    """What is known here of the inputs: the name of each address, and the transcripts of the sample recordings."""

    names: Mapping[str, str] = field(default_factory=dict)
    transcripts: Mapping[str, str] = field(default_factory=dict)

    def name(self, one: str) -> str:
        """What people call an input; a prompt is the line of its file."""
        if one in self.names:
            return self.names[one]
        file, colon, line = one.rpartition(":")
        if colon and line.isdigit():
            found = [name for uri, name in self.names.items() if basename(uri) == file]
            return f"{found[0]}:{line}" if len(found) == 1 else one
        return one

    def with_names(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The same batch, with the names in what its jobs say of their inputs."""

        def rename(error: str | None) -> str | None:
            uri = next((uri for uri in self.names if error and error.startswith(f"{uri}:")), None)
            return error if error is None or uri is None else self.names[uri] + error.removeprefix(uri)

        return {
            **batch,
            **{name: [{**one, "error": rename(one["error"])} for one in batch[name]] for name in ("jobs", "parts")},
        }


def transcripts_of_samples(documents: "Sequence[Document]") -> dict[str, str]:
    """The transcripts of those that are sample recordings, by name: the content decides, not the name."""
    from holdfast.apps.providers.local.speech import sample_recordings

    bundled = {path.name: (path, transcript) for path, transcript in sample_recordings()}
    return {
        one.name: bundled[one.path.name][1]
        for one in documents
        if one.path and one.path.name in bundled and digest(one.path) == digest(bundled[one.path.name][0])
    }


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def names_in(server: Server, batch: Mapping[str, Any]) -> dict[str, str]:
    """What the datasets of a batch call their files, by address."""
    state = batch["provider_state"] or {}
    names: dict[str, str] = {}
    for dataset in state.get("dataset_ids") or state.get("input_dataset_ids") or []:
        files = (await read_dataset(server, dataset, most=inputs_read))["items"]
        names |= {one["uri"]: one["name"] for one in files}
    return names


async def read_items(server: Server, links: Sequence[Item], known: Known) -> list[Item]:
    """Every input as it ended, with its output unless there are too many, under the name that people gave it."""
    urls = {one["name"]: one["url"] for one in links}
    if "manifest.json" not in urls:
        return []
    manifest = json.loads(await read_url(server, urls["manifest.json"]))
    given: dict[tuple[str | None, str], list[Item]] = {}
    if "result.json" in urls and len(manifest["items"]) <= inputs_read:
        for model, one in outputs_of(json.loads(await read_url(server, urls["result.json"]))):
            given.setdefault((model, one["input"]), []).append(one)
    found = []
    for item in manifest["items"]:
        candidates = given.get((item.get("model"), item["input"])) or given.get((None, item["input"])) or []
        output = candidates.pop(0) if item["status"] == "ok" and candidates else None
        found.append(describe_item(item, output, known))
    return found


def describe_item(item: Item, output: Item | None, known: Known) -> Item:
    """One input, with what was made of it and how well that fits its transcript."""
    from holdfast.apps.providers.local.speech import word_error_rate

    one = {**item, "name": known.name(item["input"])}
    if output is not None:
        one["output"] = {key: value for key, value in output.items() if key != "input"}
    transcript = known.transcripts.get(one["name"])
    if transcript is not None and item["status"] == "ok":
        one["word_error_rate"] = round(word_error_rate(transcript, text_of(one)), 4)
    return one


def outputs_of(result: Any) -> Iterator[tuple[str | None, Item]]:
    """The outputs in result.json, whether they lie in one list or in one for each model."""
    for key, value in result.items():
        if isinstance(value, list):
            yield from ((None, one) for one in value)
        else:
            yield from ((None if key == "default" else key, one) for listed in value.values() for one in listed)


def text_of(item: Item) -> str:
    """What there is to read of an output: the transcript, or the text."""
    output = item.get("output") or {}
    for name in ("transcript", "text", "output"):
        if isinstance(output.get(name), str):
            return str(output[name])
    message = output["choices"][0].get("message") if output.get("choices") else output.get("message")
    if isinstance(message, dict) and isinstance(message.get("content"), str):
        return str(message["content"])
    return to_json(output) if output else ""


def error_rate(items: Sequence[Item], known: Known) -> float | None:
    """How many words of all samples were misheard, for each that is in the transcripts; None without a sample."""
    from holdfast.apps.providers.local.speech import split_words

    scored = [
        (len(split_words(known.transcripts[one["name"]])), one["word_error_rate"])
        for one in items
        if "word_error_rate" in one
    ]
    total = sum(number for number, _ in scored)
    return round(sum(number * rate for number, rate in scored) / total, 4) if total else None


def print_items(items: Sequence[Item], known: Known) -> None:
    """A table of the inputs, those that failed first if not all fit; a column with nothing in it is left out."""
    listed = list(items)
    if len(items) > inputs_read:  # what came of them was not read
        listed = [one for one in items if one["status"] != "ok"][:rows_listed]
    elif len(items) > rows_listed:
        listed = sorted(items, key=lambda one: one["status"] == "ok")[:rows_listed]
    columns: dict[str, list[Cell]] = {
        "input": shorten_names([one["name"] for one in listed]),
        "model": [one.get("model") or "" for one in listed],
        "status": [(one["status"], STYLES.get(one["status"], "")) for one in listed],
        "words": [
            " ".join(text_of(one).split()) if one["status"] == "ok" else (one.get("reason") or "", "red")
            for one in listed
        ],
        "tokens": [tokens_of(one) for one in listed],
        "cost": [format_cost(one) for one in listed],
        "word errors": [percent(one["word_error_rate"]) if "word_error_rate" in one else "" for one in listed],
    }
    print_columns(columns, elastic=("input", "words"))
    print_more(len(items) - len(listed), "--save FOLDER has all")
    if (rate := error_rate(items, known)) is not None:
        number = sum(1 for one in items if "word_error_rate" in one)
        print_line(f"word error rate {percent(rate)} over {count(number, 'sample recording')}")


def shorten_names(names: list[str]) -> list[Cell]:
    """The names; on a terminal only their last parts, where these tell them apart."""
    lasts = [name if name.startswith("object:") else basename(name) for name in names]
    return [*(lasts if is_terminal() and len(set(lasts)) == len(set(names)) else names)]


def tokens_of(item: Item) -> str:
    went, came = item.get("tokens_in") or 0, item.get("tokens_out") or 0
    return f"{went:,} + {came:,}" if went or came else ""


def percent(rate: float) -> str:
    return f"{rate * 100:.1f} %"
