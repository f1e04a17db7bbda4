"""What a person names to be ingested: files, folders, addresses of the web.

A folder stands for the documents in it, in the order of their names. What is hidden, or can be no document, is left out
and told, so that a folder can be named as it is. A file that is named by itself is sent whatever it is: the server says
what is wrong with it.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import typer

from holdfast.errors import RequestInvalid

documents_at_most = 10_000
names_shown = 5
document_most_bytes = 100 * 1024**2


@dataclass(frozen=True)
class Document:
    """One of them, with the name by which it will be known: a file of this machine, or an address."""

    name: str
    path: Path | None = None


@dataclass(frozen=True)
class Sources:
    """The documents, each once, and the files that were left out, each with the reason."""

    documents: list[Document]
    left_out: list[tuple[str, str]] = field(default_factory=list)

    @property
    def files(self) -> list[Document]:
        return [one for one in self.documents if one.path]

    def say_left_out(self) -> str:
        """A line about what was left out; empty if nothing was."""
        if not self.left_out:
            return ""
        reasons = Counter(reason for _, reason in self.left_out)
        counted = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
        named = ", ".join(name for name, _ in self.left_out[:names_shown])
        return f"Left out: {counted} ({named}{', ...' if len(self.left_out) > names_shown else ''})."


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


def named(given: list[str], left_out: list[tuple[str, str]], *, any_kind: bool) -> Iterator[Document]:
    for one in given:
        if one.startswith(("http://", "https://")):
            yield Document(one)
            continue
        path = Path(one)
        if not path.exists():
            raise typer.BadParameter(f"There is no {one}. Name files, folders, or addresses with http(s)://.")
        if not path.is_dir():
            yield Document(name_of(path), checked(path))
            continue
        for file in walked(path, left_out):
            reason = None if any_kind else unfit(file)
            if reason:
                left_out.append((name_of(file), reason))
            else:
                yield Document(name_of(file), file)


def checked(path: Path) -> Path:
    """A file that was named by itself. Raises BadParameter if it cannot be sent."""
    if not path.is_file():
        raise typer.BadParameter(f"{path} is no regular file. Save it first.")
    if path.stat().st_size > document_most_bytes:
        raise typer.BadParameter(f"{path} is larger than 100 MiB, which is the most that is taken. Cut it into parts.")
    return path


def walked(folder: Path, left_out: list[tuple[str, str]]) -> Iterator[Path]:
    """The files in a folder and in those below, by name."""
    for place, folders, files in os.walk(folder):
        left_out += [(name_of(Path(place, one)), "hidden") for one in (*folders, *files) if one.startswith(".")]
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        yield from (Path(place, one) for one in sorted(files) if not one.startswith("."))


def unfit(path: Path) -> str | None:
    """Why a file can be no document; None if it can. One that is damaged can: whoever has it wants to hear of it."""
    from holdfast.apps.documents.extract.document import Unreadable
    from holdfast.apps.documents.extract.kinds import kind_of

    try:
        if not path.is_file():
            return "no regular files"
        if path.stat().st_size > document_most_bytes:
            return "larger than 100 MiB"
        kind_of(path, path.name, None)
    except Unreadable as error:
        return {"unsupported": "of a kind that cannot be read", "empty": "empty"}.get(error.code)
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
