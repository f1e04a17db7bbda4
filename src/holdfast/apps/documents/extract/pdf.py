"""PDF, by pypdf, which has limits of its own for what a stream unpacks to."""

import re
from collections.abc import Iterator
from pathlib import Path

from pypdf import PageObject, PasswordType, PdfReader
from pypdf.errors import LimitReachedError

from holdfast.apps.documents.extract.document import Read, Unreadable, join_pages, one_line
from holdfast.apps.documents.extract.kinds import tail_of

pages_most = 5_000
END = re.compile(rb"%%EOF|startxref\s+[0-9]+")
NO_TITLE = {"", "untitled", "(untitled)", "(anonymous)", "unspecified"}


def read(path: Path, content_type: str | None) -> Read:
    """Title, text and offsets of pages. Raises Unreadable, and whatever pypdf raises for a damaged file."""
    if not END.search(tail_of(path, 65_536).rstrip(b"\0 \t\r\n")[-4096:]):
        raise Unreadable("truncated", "The end of the PDF is missing. Send it again, whole.")
    try:
        with path.open("rb") as file:
            return read_open(PdfReader(file))
    except (LimitReachedError, RecursionError) as error:
        message = "It unpacks to far more than a document would, or is nested too deep."
        raise Unreadable("bomb", message) from error


def read_open(reader: PdfReader) -> Read:
    if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
        raise Unreadable("encrypted", "It is under a password. Save it without one.")
    count = len(reader.pages)
    if count > pages_most:
        message = f"It has {count:,} pages; {pages_most:,} are the most that is read. Cut it into parts."
        raise Unreadable("too-many-pages", message)
    text, offsets = join_pages(texts(reader))
    if not text:
        raise without_text(reader)
    return title_of(reader), text, offsets


def texts(reader: PdfReader) -> Iterator[str]:
    for number, page in enumerate(reader.pages, 1):
        try:
            yield page.extract_text()
        except (LimitReachedError, RecursionError, MemoryError, OSError, Unreadable):
            raise
        except Exception as error:
            raise Unreadable("corrupt", f"It is damaged: page {number} cannot be read.") from error


def without_text(reader: PdfReader) -> Unreadable:
    if any(has_picture(page) for page in reader.pages):
        return Unreadable("scanned", "There is no text in it, only pictures: run OCR first.")
    return Unreadable("empty", "There is nothing on its pages.")


def has_picture(page: PageObject) -> bool:
    try:
        return bool(page.images.keys())
    except (LimitReachedError, MemoryError):
        raise
    except Exception:  # a damaged picture is one, too
        return True


def title_of(reader: PdfReader) -> str:
    """The title in the metadata, unless that is damaged or what a program writes when there is none."""
    try:
        title = one_line(reader.metadata.title) if reader.metadata else ""
    except Exception:
        return ""
    return "" if title.lower() in NO_TITLE else title
