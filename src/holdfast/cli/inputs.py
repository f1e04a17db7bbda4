"""What a person names for a batch or a dataset: files and folders of this machine, and addresses of anywhere.

A folder stands for the recordings and prompts in it, by name. What kind of task is meant is told by the endings of the
names: of recordings and prompts in one breath nobody can tell.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import typer

from holdfast.cli.ingest import bring
from holdfast.cli.sources import Document, Sources, checked, name_of, walked
from holdfast.errors import RequestInvalid

if TYPE_CHECKING:
    from holdfast.cli.bars import Bars
    from holdfast.cli.calling import Server

ADDRESSES = ("http://", "https://", "s3://", "gs://", "az://", "file://", "object:")
KINDS = {
    "transcription": ("wav", "mp3", "flac", "m4a", "mp4", "ogg", "oga", "opus", "aac", "amr", "webm"),
    "completion": ("jsonl", "ndjson", "txt"),
}
inputs_at_most = 10_000


def find_inputs(given: Sequence[str], task_type: str | None = None, *, any_kind: bool = False) -> Sources:
    """All that was named, each once. Raises BadParameter, or RequestInvalid if it is too much at once."""
    sources, names = Sources([]), set()
    for one in named(given, task_type, sources.left_out, any_kind=any_kind):
        if one.name not in names:
            names.add(one.name)
            sources.documents.append(one)
    if len(sources.documents) > inputs_at_most:
        raise RequestInvalid(
            f"These are {len(sources.documents):,} files, and {inputs_at_most:,} are taken at once.",
            fix="Nothing was sent. Send one folder after the other.",
        )
    return sources


def named(
    given: Sequence[str], task_type: str | None, left_out: list[tuple[str, str]], *, any_kind: bool
) -> Iterator[Document]:
    for one in given:
        path = Path(one)
        if one.startswith(ADDRESSES):
            yield Document(one)
        elif not path.exists():
            raise typer.BadParameter(f"There is no {one}. Name files, folders, or addresses such as s3://bucket/key.")
        elif not path.is_dir():
            yield Document(name_of(path), checked(path))
        else:
            for file in walked(path, left_out):
                kind = kind_of(file.name)
                if any_kind or (kind and task_type in (None, kind)):
                    yield Document(name_of(file), checked(file))
                else:
                    left_out.append((name_of(file), "of another kind"))


def kind_of(name: str) -> str | None:
    """Which type of task takes what is called so."""
    ending = basename(name).rpartition(".")[2].lower()
    return next((kind for kind, endings in KINDS.items() if ending in endings), None)


def basename(name: str) -> str:
    """The last part of a path or an address."""
    path = urlsplit(name).path if name.startswith(ADDRESSES) else name
    return PurePosixPath(unquote(path)).name or name


def guess_type(names: Iterable[str]) -> str:
    """The type of task that takes all of these. Raises BadParameter if that cannot be told."""
    kinds = {name: kind_of(name) for name in names}
    found = {kind for kind in kinds.values() if kind}
    if len(found) > 1:
        apart = " and ".join(next(name for name, kind in kinds.items() if kind == one) for one in KINDS)
        raise typer.BadParameter(f"These are recordings and prompts: {apart}. Make a batch of each.")
    if not found:
        raise typer.BadParameter(
            f"Nobody can tell what is to be done with {next(iter(kinds), 'this')}. "
            "Say it: --type transcription, or --type completion."
        )
    return found.pop()


async def upload(server: "Server", sources: Sources, bars: "Bars") -> dict[str, str]:
    """Bring the files to the server; what people call each, by its address, in the order in which they were named."""
    brought = await bring(server, sources.files, bars, "file")
    return {brought.get(one.name, one.name): one.name for one in sources.documents}
