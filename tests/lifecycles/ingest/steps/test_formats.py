"""PDF and Word: pages, tables and titles, and what is wrong with a file that is refused."""

import zlib
from collections.abc import Callable
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

import docx
import pytest
from PIL import Image
from pypdf import PdfReader, PdfWriter
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from tests.lifecycles.ingest.papers import deflated, write_docx, write_pdf, zip_of
from tests.lifecycles.ingest.prose import Prose
from tests.lifecycles.ingest.steps.reading import Harness, one_line

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROSE = Prose("On bread", "The Peldaxakket index holds 12 pages.", ("One.", "Two.", "Three.", "Four."), ())


def pdf_of(*pages: str, title: str | None = None, lock: StandardEncryption | None = None) -> bytes:
    """A PDF with a line of text on each page; a page without any has nothing."""
    file = BytesIO()
    canvas = Canvas(file, invariant=True, encrypt=lock)
    if title is not None:
        canvas.setTitle(title)
    for page in pages:
        if page:
            canvas.drawString(72, 700, page)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def pdf_by_hand(kids: int = 1, content: bytes = b"", filters: str = "") -> bytes:
    """A PDF of one page, which is counted so many times."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%s] >>" % (kids, b"3 0 R " * kids),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>",
        b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), filters.encode(), content),
    ]
    body, offsets = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, text)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    end = b"trailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(body)
    return body + b"xref\n0 5\n0000000000 65535 f \n" + table + end


async def test_pages_begin_where_the_offsets_say(harness: Harness) -> None:
    read = await harness.read(pdf_of("First page", "", "Third\u00ad page", ""), "report.pdf")
    assert read.text == "First page\n\nThird page"
    assert read.pages == (0, 10, 12, 22)


@pytest.mark.parametrize(
    ("title", "expected"), [("On  the\nrise", "On the rise"), ("untitled", "report"), ("", "report"), (None, "report")]
)
async def test_a_pdf_has_its_title_or_its_name(harness: Harness, title: str | None, expected: str) -> None:
    assert (await harness.read(pdf_of("text", title=title), "report.v2.pdf".replace(".v2", ""))).title == expected


async def test_a_pdf_that_opens_without_a_password_is_read(harness: Harness) -> None:
    lock = StandardEncryption("", ownerPassword="no changes", canModify=0)
    assert (await harness.read(pdf_of("Read me", lock=lock))).text == "Read me"


async def test_so_is_one_that_was_encrypted_by_aes(harness: Harness) -> None:
    writer, file = PdfWriter(BytesIO(pdf_of("Read me"))), BytesIO()
    writer.encrypt("", "no changes", algorithm="AES-256")
    writer.write(file)
    assert (await harness.read(file.getvalue())).text == "Read me"


async def test_a_pdf_under_a_password_is_refused(harness: Harness) -> None:
    refusal = await harness.refusal(pdf_of("Read me", lock=StandardEncryption("hush")))
    assert (refusal.code, refusal.message) == ("encrypted", "It is under a password. Save it without one.")


async def test_a_scanned_pdf_is_refused_with_the_advice_to_recognize_it(harness: Harness) -> None:
    file = BytesIO()
    canvas = Canvas(file)
    canvas.showPage()
    canvas.drawInlineImage(Image.new("L", (8, 8)), 72, 72)
    canvas.save()
    refusal = await harness.refusal(file.getvalue())
    assert (refusal.code, refusal.message) == ("scanned", "There is no text in it, only pictures: run OCR first.")


async def test_pictures_do_not_matter_where_there_is_text(harness: Harness) -> None:
    file = BytesIO()
    canvas = Canvas(file)
    canvas.drawInlineImage(Image.new("L", (8, 8)), 72, 72)
    canvas.drawString(72, 700, "A caption")
    canvas.save()
    assert (await harness.read(file.getvalue())).text == "A caption"


def packed_pdf(times: int) -> bytes:
    """A PDF whose one stream unpacks to more than it should, at once or after another time."""
    content = b"\x78\x9c" + deflated(b"0 0 m\n" * 100_000, 160)
    if times == 1:
        return pdf_by_hand(content=content, filters="/Filter /FlateDecode")
    return pdf_by_hand(content=zlib.compress(content), filters="/Filter [/FlateDecode /FlateDecode]")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: pdf_of("", ""), "empty"),
        (lambda: pdf_by_hand(kids=5_001), "too-many-pages"),
        (lambda: packed_pdf(1), "bomb"),
        (lambda: packed_pdf(2), "bomb"),
        (lambda: write_pdf(PROSE)[:-100], "truncated"),
        (lambda: b"%PDF-1.7\n", "truncated"),
        (lambda: b"%PDF-1.7\nnothing at all\n%%EOF\n", "corrupt"),
        (lambda: pdf_by_hand().replace(b"/Pages 2 0 R", b"/Pages 9 0 R"), "corrupt"),
        (lambda: pdf_by_hand().replace(b"/Kids [3 0 R ]", b"/Kids [2 0 R ]"), "corrupt"),
    ],
    ids=["empty", "pages", "stream", "stream in stream", "cut", "head only", "rubbish", "no pages", "own child"],
)
async def test_a_pdf_that_is_no_good_is_refused(harness: Harness, make: Callable[[], bytes], code: str) -> None:
    assert (await harness.refusal(make(), "report.pdf")).code == code


async def test_a_page_by_hand_is_read(harness: Harness) -> None:
    """Or the refusals above would prove nothing."""
    page = PdfReader(BytesIO(pdf_by_hand(kids=3, content=b"q Q"))).pages
    writer = PdfWriter()
    writer.append(BytesIO(pdf_of("Found")))
    for one in page:
        writer.add_page(one)
    file = BytesIO()
    writer.write(file)
    assert (await harness.read(file.getvalue())).pages == (0, 5, 5, 5)


def docx_file() -> bytes:
    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = "Confidential header"
    document.sections[0].footer.paragraphs[0].text = "Page footer"
    document.add_paragraph("Before the table.")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip(
        (cell for row in table.rows for cell in row.cells), ("Name", "Size", "Quay", "12"), strict=True
    ):
        cell.text = text
    inner = table.rows[1].cells[1].add_table(rows=1, cols=1)
    inner.rows[0].cells[0].text = "inside"
    document.add_heading("A heading", level=2)
    document.add_paragraph("After\tthe table.").add_run("\nNext line.")
    file = BytesIO()
    document.save(file)
    return file.getvalue()


async def test_paragraphs_and_tables_come_in_their_order_without_headers(harness: Harness) -> None:
    read = await harness.read(docx_file(), "notes.docx")
    table = "Name | Size\nQuay | 12 inside"
    assert read.text == f"Before the table.\n\n{table}\n\nA heading\n\nAfter\tthe table.\nNext line."
    assert (read.title, read.pages) == ("A heading", ())


def edited(content: bytes, **parts: bytes) -> bytes:
    """A Word document with other bytes in some of its files: those whose name begins so."""
    file = BytesIO()
    with ZipFile(BytesIO(content)) as old, ZipFile(file, "w", ZIP_DEFLATED) as new:
        for name in old.namelist():
            part = next((part for key, part in parts.items() if name.endswith(key + ".xml")), None)
            new.writestr(name, old.read(name) if part is None else part)
    return file.getvalue()


W = b'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


async def test_what_is_wrapped_is_read_and_what_was_deleted_is_not(harness: Harness) -> None:
    body = b"""<w:document %s><w:body>
      <w:sdt><w:sdtContent><w:p><w:r><w:t>In a control.</w:t></w:r></w:p></w:sdtContent></w:sdt>
      <w:p><w:ins><w:r><w:t>Put in</w:t></w:r></w:ins><w:del><w:r><w:t>taken out</w:t></w:r></w:del>
        <w:hyperlink><w:r><w:t xml:space="preserve"> and linked</w:t></w:r></w:hyperlink>
        <w:r><w:pict><w:txbxContent><w:p><w:r><w:t>In a box.</w:t></w:r></w:p></w:txbxContent></w:pict></w:r></w:p>
      </w:body></w:document>"""
    read = await harness.read(edited(docx_file(), document=body % W), "notes.docx")
    assert read.text == "In a control.\n\nPut in and linked\n\nIn a box."


async def test_the_title_of_a_docx_is_that_of_its_properties(harness: Harness) -> None:
    document = docx.Document()
    document.core_properties.title = "By the properties"
    document.add_heading("By its heading", level=0)
    file = BytesIO()
    document.save(file)
    assert (await harness.read(file.getvalue())).title == "By the properties"


def lying() -> bytes:
    """A Word document that says it unpacks to little."""
    return zip_of("word/document.xml", deflated(bytes(1 << 20), 300), 1000)


def crowded() -> bytes:
    entry, _, rest = zip_of("word/document.xml", b"\x03\x00", 0).partition(b"PK\x01\x02")
    listed, _, end = (b"PK\x01\x02" + rest).partition(b"PK\x05\x06")
    count = (10_001).to_bytes(2, "little")
    size = (len(listed) * 10_001).to_bytes(4, "little")
    return entry + listed * 10_001 + b"PK\x05\x06" + end[:4] + count + count + size + end[12:]


def locked() -> bytes:
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2000) + "EncryptedPackage".encode("utf-16-le") + bytes(500)


def damaged(where: str) -> bytes:
    good = write_docx(PROSE)
    match where:
        case "end":
            return good[: len(good) // 2]
        case "middle":
            return good[:5000] + bytes(1000) + good[6000:]
        case "depth":
            return edited(good, document=b"<w:document %s><w:body>" % W + b"<w:sdt>" * 100_000)
    return edited(good, document=b"<w:document")


@pytest.mark.parametrize(
    ("make", "code", "says"),
    [
        (lying, "bomb", "unpacks to more than 268,435,456 bytes"),
        (crowded, "bomb", "10,001 files"),
        (lambda: damaged("depth"), "corrupt", "damaged"),
        (lambda: damaged("element"), "corrupt", "damaged"),
        (lambda: damaged("end"), "truncated", "Send it again"),
        (lambda: damaged("middle"), "corrupt", "damaged"),
        (locked, "encrypted", "password"),
        (lambda: zip_of("xl/workbook.xml", b"\x03\x00", 0), "unsupported", "an Excel workbook"),
        (lambda: zip_of("a.txt", b"\x03\x00", 0), "unsupported", "a zip archive"),
    ],
    ids=["lying", "crowded", "deep", "half an element", "cut", "holes", "locked", "sheet", "zip"],
)
async def test_a_docx_that_is_no_good_is_refused(
    harness: Harness, make: Callable[[], bytes], code: str, says: str
) -> None:
    refusal = await harness.refusal(make(), "notes.docx")
    assert (refusal.code, says in refusal.message) == (code, True), refusal.message


async def test_entities_of_a_docx_are_not_expanded(harness: Harness) -> None:
    """Neither to gigabytes, nor to files of this machine."""
    entities = b'<!ENTITY a "ha"><!ENTITY b "%s"><!ENTITY c SYSTEM "file:///etc/hostname">' % (b"&a;" * 100)
    body = b"<w:body><w:p><w:r><w:t>So:&b;&c;</w:t></w:r></w:p><w:p><w:r><w:t>end</w:t></w:r></w:p></w:body>"
    document = b"<!DOCTYPE d [%s]><w:document %s>%s</w:document>" % (entities, W, body)
    read = await harness.read(edited(write_docx(PROSE), document=document))
    assert one_line(read.text) == "So: end"
