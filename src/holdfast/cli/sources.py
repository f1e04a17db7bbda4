"""What a person names to be ingested: files, folders, addresses of the web.

A folder stands for the documents in it, in the order of their names. What is hidden, or can be no document, is left out
and counted, so that a folder can be named as it is.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import typer

from holdfast.errors import RequestInvalid

documents_at_most = 10_000
document_most_bytes = 100 * 1024**2


@dataclass(frozen=True)
class Document:
    """One of them, with the name by which it will be known: a file of this machine, or an address."""

    name: str
    path: Path | None = None


@dataclass(frozen=True)
class Sources:
    """The documents, each once, and how many files were left out for which reason."""

    documents: list[Document]
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def files(self) -> list[Document]:
        return [one for one in self.documents if one.path]

    def say_left_out(self) -> str:
        """A line about what was left out; empty if nothing was."""
        reasons = ", ".join(f"{number} {reason}" for reason, number in self.left_out.most_common())
        return f"Left out: {reasons}." if reasons else ""


def find_sources(given: list[str], *, prefix: str = "", any_kind: bool = False) -> Sources:
    """All that was named. Raises BadParameter, or RequestInvalid if that is nothing, or too much for one run."""
    sources = Sources([])
    names = set()
    for document in named(given, sources.left_out, any_kind=any_kind):
        if document.name not in names:
            names.add(document.name)
            sources.documents.append(Document(prefix + document.name, document.path))
    check_number(sources)
    return sources


def named(given: list[str], left_out: "Counter[str]", *, any_kind: bool) -> Iterator[Document]:
    for one in given:
        if one.startswith(("http://", "https://")):
            yield Document(one)
            continue
        path = Path(one)
        if not path.exists():
            raise typer.BadParameter(f"There is no {one}. Name files, folders, or addresses with http(s)://.")
        for file in walked(path, left_out) if path.is_dir() else [path]:
            reason = None if any_kind else unfit(file)
            if reason:
                left_out[reason] += 1
            else:
                yield Document(name_of(file), file)


def walked(folder: Path, left_out: "Counter[str]") -> Iterator[Path]:
    """The files in a folder and in those below, by name."""
    for place, folders, files in os.walk(folder):
        hidden = [one for one in (*folders, *files) if one.startswith(".")]
        left_out.update({"hidden": len(hidden)} if hidden else {})
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        yield from (Path(place, one) for one in sorted(files) if not one.startswith("."))


def unfit(path: Path) -> str | None:
    """Why a file can be no document; None if it can. One that is damaged can: whoever has it wants to hear of it."""
    from holdfast.lifecycles.ingest.steps.extract.document import Unreadable
    from holdfast.lifecycles.ingest.steps.extract.kinds import kind_of

    try:
        if not path.is_file():
            return "no regular files"
        if path.stat().st_size > document_most_bytes:
            return "larger than 100 MiB"
        kind_of(path, path.name, None)
    except Unreadable as error:
        return {"unsupported": path.suffix or "of other kinds", "empty": "empty"}.get(error.code)
    except OSError:
        return "that cannot be opened"
    return None


def name_of(path: Path) -> str:
    """The path as it was given, in letters that travel: a name that is no UTF-8 stays one of its own."""
    return os.fsencode(path).decode(errors="backslashreplace")


def check_number(sources: Sources) -> None:
    number = len(sources.documents)
    if not number:
        raise RequestInvalid(
            f"There is nothing to ingest. {sources.say_left_out()}".rstrip(),
            fix="What can be read: PDF, Word (.docx), HTML, Markdown and plain text, up to 100 MiB each.",
        )
    if number > documents_at_most:
        raise RequestInvalid(
            f"These are {number:,} documents, and a run takes {documents_at_most:,}.",
            fix="Nothing was sent. Ingest one folder after the other: each is a run of its own.",
        )
