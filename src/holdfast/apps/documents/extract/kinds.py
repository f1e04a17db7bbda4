"""What a file is: by its bytes first, then by what its name and its type say."""

import codecs
import re
import zipfile
from pathlib import Path, PurePath

from holdfast.apps.documents.extract.document import Unreadable, binary, unsupported_format

head_bytes = 8192
controls_most = 0.01  # of a text
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark begins like it
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
OTHERS = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"\x1f\x8b", "a gzip archive"),
    *((b"BZh%d1AY&SY" % level, "a bzip2 archive") for level in range(1, 10)),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90", "a program"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"%!PS", "a PostScript file"),
    (b"{\\rtf", "an RTF document"),
)
ZIPPED = (
    ("xl/", "an Excel workbook"),
    ("ppt/", "a PowerPoint presentation"),
    ("META-INF/container.xml", "an EPUB book"),
    ("content.xml", "an OpenDocument file"),
)
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
# Possessive, as files are made to keep such patterns busy.
BEGINNING = re.compile(rb"\s*+(?:(?><!--.*?-->|<\?xml[^>]*+>)\s*+)*+<(?:!doctype\s+html|html|head|body)\b", re.I | re.S)
MARKUP = re.compile(rb"<(?:!doctype|[a-z][a-z0-9]*)[\s/>]", re.I)
HTML_NAMES, HTML_TYPES = {".html", ".htm", ".xhtml"}, {"text/html", "application/xhtml+xml"}
MARKDOWN_NAMES, MARKDOWN_TYPES = {".md", ".markdown", ".mdown", ".mkd"}, {"text/markdown", "text/x-markdown"}


def kind_of(path: Path, name: str, content_type: str | None) -> str:
    """One of pdf, docx, html, markdown and text. Raises Unreadable for anything else."""
    with path.open("rb") as file:
        head = file.read(head_bytes)
    if not head:
        raise Unreadable("empty", "The file is empty: it has no bytes at all.")
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return zipped_kind(path)
    if head.startswith(OLE):
        raise old_office(path)
    for magic, what in OTHERS:
        if head.startswith(magic):
            raise unsupported_format(what)
    if head.lstrip(b"\xef\xbb\xbf \t\r\n\0").startswith(b"%PDF-"):
        return "pdf"
    return text_kind(head, PurePath(name.lower()).suffix, (content_type or "").partition(";")[0].strip().lower())


def text_kind(head: bytes, suffix: str, content_type: str) -> str:
    marked = next((encoding for mark, encoding in MARKS if head.startswith(mark)), None)
    if marked:
        head = head.decode(marked, "ignore").lstrip("\ufeff").encode("utf-8", "ignore")
    if BEGINNING.match(head):
        return "html"
    if b"%PDF-" in head[:1024] and (suffix == ".pdf" or b"\0" in head):
        return "pdf"  # with something before it, which readers of PDF forgive
    if head.count(b"\0") > len(head) * controls_most:
        raise binary()
    if (suffix in HTML_NAMES or content_type in HTML_TYPES) and MARKUP.search(head):
        return "html"
    if suffix in MARKDOWN_NAMES or content_type in MARKDOWN_TYPES:
        return "markdown"
    return "text"


def zipped_kind(path: Path) -> str:
    """Word documents are zip archives; so are many other things."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError) as error:
        if b"PK\x05\x06" not in tail_of(path, 66_000):  # the table of contents, with which a zip archive ends
            raise Unreadable("truncated", "It is a zip archive whose end is missing. Send it again, whole.") from error
        raise Unreadable("corrupt", "It is a damaged zip archive, or a damaged Word document.") from error
    if any(name.startswith("word/") for name in names):
        return "docx"
    for sign, what in ZIPPED:
        if any(name.startswith(sign) for name in names):
            raise unsupported_format(what)
    raise unsupported_format("a zip archive")


def old_office(path: Path) -> Unreadable:
    """What an OLE file is: a new document under a password, or one of the old kind."""
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            if ENCRYPTED_PACKAGE in piece:
                return Unreadable("encrypted", "It is under a password. Save it without one.")
    return unsupported_format("an Office document of the old kind (save it as .docx)")


def tail_of(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(-min(size, path.stat().st_size), 2)
        return file.read(size)
