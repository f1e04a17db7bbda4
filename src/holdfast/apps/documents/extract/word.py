"""Word, by python-docx: paragraphs and tables in the order of the document. Headers, footers and notes are left out."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docx
from docx.oxml.ns import qn

from holdfast.apps.documents.extract.document import Read, Unreadable, clean, unsupported_format

entries_most = 10_000
unpacked_most_bytes = 256 * 1024 * 1024
piece_bytes = 1024 * 1024
PARAGRAPH, TABLE, ROW, CELL = qn("w:p"), qn("w:tbl"), qn("w:tr"), qn("w:tc")
TEXT, TAB, BOX = qn("w:t"), qn("w:tab"), qn("w:txbxContent")
BREAKS = {qn("w:br"), qn("w:cr")}
# Properties, what was deleted while changes were tracked, and the second telling of a drawing for old programs.
LEFT_OUT = {
    qn("w:pPr"), qn("w:rPr"), qn("w:del"), qn("w:moveFrom"), qn("w:sdtPr"), qn("w:tblPr"), qn("w:trPr"), qn("w:tcPr"),
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
}  # fmt: skip


def read(path: Path, content_type: str | None) -> Read:
    """Title and text. Raises Unreadable, and whatever python-docx raises for a damaged file."""
    check_archive(path)
    document = open_document(path)
    text = clean("\n\n".join(read_blocks(document.element.body)))
    return document.core_properties.title or find_heading(document), text, ()


def open_document(path: Path) -> Any:
    try:
        return docx.Document(str(path))
    except ValueError as error:
        if "is not a Word file" in str(error):
            raise unsupported_format(
                "a Word file of another kind, such as .docm or .dotx (save it as .docx)"
            ) from error
        raise


def check_archive(path: Path) -> None:
    """Unpack all of it once, into nothing. Raises Unreadable if that is too much, or not what was packed."""
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        if len(entries) > entries_most:
            raise Unreadable("bomb", f"It is an archive of {len(entries):,} files, which no Word document is.")
        if sum(entry.file_size for entry in entries) > unpacked_most_bytes:
            raise bomb()
        left = unpacked_most_bytes
        for entry in entries:
            if entry.flag_bits & 1:
                raise Unreadable("encrypted", "It is under a password. Save it without one.")
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise Unreadable("corrupt", "It is packed in a way that no Word document is.")
            entry.file_size = left + 2 * piece_bytes  # the size that is declared is not believed
            with archive.open(entry) as file:
                while piece := file.read(piece_bytes):
                    left -= len(piece)
                    if left < 0:
                        raise bomb()


def bomb() -> Unreadable:
    return Unreadable("bomb", f"It unpacks to more than {unpacked_most_bytes:,} bytes.")


def read_blocks(parent: Any) -> Iterator[str]:
    """The paragraphs and tables below this element, also those inside of content controls."""
    for element in parent:
        if element.tag == PARAGRAPH:
            boxes: list[Any] = []
            if text := "".join(read_inline(element, boxes)).strip():
                yield text
            for box in boxes:
                yield from read_blocks(box)
        elif element.tag == TABLE:
            yield "\n".join(table_rows(element))
        elif element.tag not in LEFT_OUT:
            yield from read_blocks(element)


def read_inline(parent: Any, boxes: list[Any]) -> Iterator[str]:
    """What is written in a paragraph; text boxes are put aside."""
    for element in parent:
        if element.tag == TEXT:
            yield element.text or ""
        elif element.tag == TAB:
            yield "\t"
        elif element.tag in BREAKS:
            yield "\n"
        elif element.tag == BOX:
            boxes.append(element)
        elif element.tag not in LEFT_OUT:
            yield from read_inline(element, boxes)


def table_rows(table: Any) -> Iterator[str]:
    """The rows of a table, a line each, with a bar between its cells."""
    for row in descend(table, ROW):
        cells = (" ".join(" ".join(read_blocks(cell)).split()) for cell in descend(row, CELL))
        if line := " | ".join(cells).strip(" |"):
            yield line


def descend(parent: Any, tag: str) -> Iterator[Any]:
    """The rows or cells of this table, also those inside of content controls; not those of a table within."""
    for element in parent:
        if element.tag == tag:
            yield element
        elif element.tag not in LEFT_OUT and element.tag != TABLE:
            yield from descend(element, tag)


def find_heading(document: Any) -> str:
    """The first paragraph that is styled as a title or heading. Style names are English whatever Word's language is."""
    names = {style.style_id: (style.name or "").lower() for style in document.styles}
    for paragraph in document.element.body.iterchildren(PARAGRAPH):
        style = names.get(paragraph.style or "", "")
        text = "".join(read_inline(paragraph, [])).strip() if style.startswith(("title", "heading")) else ""
        if text:
            return text
    return ""
