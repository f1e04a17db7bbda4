"""Papers to ingest: made-up documents of every kind, the same for the same seed.

Each has one sentence about something that no other paper names, so that a search for it must find this one first.
Every tenth is broken, in one of eight ways in turn, and says with which code it must be refused.
"""

import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from xml.sax.saxutils import escape
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import docx
from PIL import Image
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.lib.utils import ImageReader, simpleSplit
from reportlab.pdfgen.canvas import Canvas

from tests.lifecycles.ingest.prose import Prose, write_prose

KINDS = ("pdf", "docx", "html", "markdown", "text")
SUFFIXES = {"pdf": ".pdf", "docx": ".docx", "html": ".html", "markdown": ".md", "text": ".txt"}


@dataclass(frozen=True)
class Paper:
    """A document. `broken` is the code it must be refused with; None if it is to be read."""

    path: Path
    kind: str
    title: str
    fact: str
    broken: str | None


def papers(number: int, seed: int, folder: Path) -> list[Paper]:
    """Write so many papers into the folder. Those of a smaller number are the first of those of a larger one."""
    folder.mkdir(parents=True, exist_ok=True)
    names: set[str] = set()
    made = []
    for index in range(number):
        dice = random.Random(f"{seed}/{index}")  # noqa: S311 - the same papers every time
        prose = write_prose(dice, names)
        if index % 10 == 9:
            suffix, broken, write = WAYS[index // 10 % len(WAYS)]
            path = folder / f"paper-{index:04}{suffix}"
            path.write_bytes(write(prose, dice))
            made.append(Paper(path, suffix[1:], prose.title, prose.fact, broken))
        else:
            kind = KINDS[(index - index // 10) % len(KINDS)]
            path = folder / f"paper-{index:04}{SUFFIXES[kind]}"
            path.write_bytes(WRITERS[kind](prose))
            made.append(Paper(path, kind, prose.title, prose.fact, None))
    return made


def write_pdf(prose: Prose, password: str | None = None) -> bytes:
    file = BytesIO()
    lock = StandardEncryption(password) if password else None
    canvas = Canvas(file, invariant=True, encrypt=lock)
    canvas.setTitle(prose.title)
    for first, part in ((True, prose.paragraphs[:2]), (False, prose.paragraphs[2:])):
        page = canvas.beginText(72, 760)
        if first:
            page.setFont("Helvetica-Bold", 16)
            page.textLines([*simpleSplit(prose.title, "Helvetica-Bold", 16, 450), ""])
        page.setFont("Helvetica", 11)
        for paragraph in part:
            page.textLines([*simpleSplit(paragraph, "Helvetica", 11, 450), ""])
        canvas.drawText(page)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def write_docx(prose: Prose) -> bytes:
    document = docx.Document()
    document.core_properties.title = ""
    document.add_heading(prose.title, level=1)
    for paragraph in prose.paragraphs[:-1]:
        document.add_paragraph(paragraph)
    table = document.add_table(rows=0, cols=2)
    for name, value in prose.figures:
        for cell, text in zip(table.add_row().cells, (name, value), strict=True):
            cell.text = text
    document.add_paragraph(prose.paragraphs[-1])
    file = BytesIO()
    document.save(file)
    return undated(file)


def undated(file: BytesIO) -> bytes:
    """The same archive, without the time at which it was written."""
    same = BytesIO()
    with ZipFile(file) as written, ZipFile(same, "w", ZIP_DEFLATED, compresslevel=1) as archive:
        for name in written.namelist():
            archive.writestr(ZipInfo(name), written.read(name), ZIP_DEFLATED)
    return same.getvalue()


def write_html(prose: Prose) -> bytes:
    paragraphs = "\n".join(f"<p>{escape(paragraph)}</p>" for paragraph in prose.paragraphs)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(prose.title)}</title></head>
<body><nav><a href="/">Home</a> <a href="/all">All papers</a></nav>
<article><h1>{escape(prose.title)}</h1>
{paragraphs}
</article><footer>Printed on recycled electrons</footer></body></html>
""".encode()


def write_markdown(prose: Prose) -> bytes:
    figures = "\n".join(f"- {name}: {value}" for name, value in prose.figures)
    return "\n\n".join([f"# {prose.title}", *prose.paragraphs, "## Figures", figures, ""]).encode()


def write_text(prose: Prose) -> bytes:
    return "\n\n".join([prose.title, *prose.paragraphs, ""]).encode()


WRITERS: dict[str, Callable[[Prose], bytes]] = {
    "pdf": write_pdf,
    "docx": write_docx,
    "html": write_html,
    "markdown": write_markdown,
    "text": write_text,
}


def encrypted(prose: Prose, dice: random.Random) -> bytes:
    return write_pdf(prose, password="only for the board")


def empty(prose: Prose, dice: random.Random) -> bytes:
    return b" \n\t\n" * dice.randrange(1, 9)


def corrupt(prose: Prose, dice: random.Random) -> bytes:
    """A PDF whose first and last lines are all that is left of it."""
    return b"%PDF-1.7\n" + dice.randbytes(4000) + b"\nstartxref\n17\n%%EOF\n"


def scanned(prose: Prose, dice: random.Random) -> bytes:
    file = BytesIO()
    canvas = Canvas(file, invariant=True)
    picture = Image.frombytes("L", (64, 64), dice.randbytes(64 * 64))
    canvas.drawImage(ImageReader(picture), 72, 200, 400, 400)
    canvas.showPage()
    canvas.save()
    return file.getvalue()


def bomb(prose: Prose, dice: random.Random) -> bytes:
    """A Word document of a few hundred kilobytes that unpacks to 300 MiB."""
    return zip_of("word/document.xml", deflated(bytes(1 << 20), 300), 300 << 20)


def truncated(prose: Prose, dice: random.Random) -> bytes:
    whole = write_pdf(prose)
    return whole[: len(whole) * 2 // 3]


def unsupported(prose: Prose, dice: random.Random) -> bytes:
    return b"\x00\x01\x02\xfe" + dice.randbytes(2000)


def too_deep(prose: Prose, dice: random.Random) -> bytes:
    return b"<!doctype html><html><body>" + b"<div>" * 100_000 + prose.fact.encode()


WAYS: tuple[tuple[str, str, Callable[[Prose, random.Random], bytes]], ...] = (
    (".pdf", "encrypted", encrypted),
    (".txt", "empty", empty),
    (".pdf", "corrupt", corrupt),
    (".pdf", "scanned", scanned),
    (".docx", "bomb", bomb),
    (".pdf", "truncated", truncated),
    (".dat", "unsupported", unsupported),
    (".html", "bomb", too_deep),
)


def deflated(piece: bytes, times: int) -> bytes:
    """The piece, again and again, packed as if it were packed once."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)) * times + packer.flush()


def zip_of(name: str, deflated: bytes, size: int) -> bytes:
    """A zip archive of one file that is packed already, and whose size is whatever we say."""
    fields = struct.pack("<HHHHHLLLHH", 20, 0, 8, 0, 33, 0, len(deflated), size, len(name), 0)
    entry = b"PK\x03\x04" + fields + name.encode() + deflated
    listed = b"PK\x01\x02" + struct.pack("<H", 20) + fields + struct.pack("<HHHLL", 0, 0, 0, 0, 0) + name.encode()
    return entry + listed + b"PK\x05\x06" + struct.pack("<HHHHLLH", 0, 0, 1, 1, len(listed), len(entry), 0)
