"""Papers of a harbour's library: what the sample ingestion is about.

Three are shipped. The charter is a PDF of two pages, written here byte by byte so that it is the same each time; the
log, a Word document, is another one in every round; the torn letter is half a PDF.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Submission
from holdfast.execution.context import get_service
from holdfast.lifecycles.ingest.declaration import INGEST, INGEST_ITEM
from holdfast.lifecycles.ingest.store import Library
from holdfast.objects import Objects
from holdfast.objects.scratch import scratch

OWNER = "library"
SHIPPED = Path(__file__).with_name("library")
NEEDED = ("ahocorasick_rs", "docx", "numpy", "pypdf", "semchunk", "trafilatura", "wordllama")
can_ingest = all(find_spec(name) is not None for name in NEEDED)

CHARTER = (
    ("The Charter of the Harbour", "Every ship pays for its berth by its length,", "and for its cargo by its weight."),
    ("Of storms", "When the red lantern is lit no ship leaves.", "Who does, pays for the boat that looks for them."),
)
SHIPS = ("Petrel", "Fulmar", "Gannet", "Shearwater", "Kittiwake")


def write_papers(folder: Path, round_: int, *, torn: bool) -> list[Path]:
    """All papers of a round, in a folder; with `torn`, also the one that nobody can read."""
    papers = [folder / one.name for one in sorted(SHIPPED.iterdir())]
    for paper in papers:
        paper.write_bytes((SHIPPED / paper.name).read_bytes())
    charter = pdf_of(CHARTER)
    papers += [written(folder / "charter.pdf", charter), write_log(folder / "harbour-log.docx", round_)]
    return [*papers, written(folder / "torn-letter.pdf", charter[: len(charter) // 2])] if torn else papers


def write_log(path: Path, round_: int) -> Path:
    import docx

    document = docx.Document()
    document.add_heading("The harbour's log", 1)
    for hour in range(6):
        ship, berth = SHIPS[(round_ + hour) % len(SHIPS)], (round_ * 7 + hour) % 30 + 1
        document.add_paragraph(f"Watch {round_ % 10_000}, hour {hour}: the {ship} came in and lies at berth {berth}.")
    document.save(str(path))
    return path


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def pdf_of(pages: Sequence[Sequence[str]]) -> bytes:
    """A PDF with these lines on its pages."""
    first = 4  # after the catalogue, the list of pages and the font
    kids = " ".join(f"{first + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, lines in enumerate(pages):
        text = "BT /F1 12 Tf 16 TL 72 720 Td " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
        objects += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {first + 2 * number + 1} 0 R >>",
            f"<< /Length {len(text)} >>\nstream\n{text}\nendstream",
        ]
    body, places = "%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{one}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    return f"{body}xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}".encode()


async def open_place() -> str:
    """A place for uploads of the library's."""
    return (await get_service(Library).open_uploads(OWNER))[0]


async def bring(objects: Objects, place: str, round_: int, *, torn: bool) -> list[dict[str, str]]:
    """Put the papers of a round there; each as an item is told of it."""
    told = []
    with scratch() as folder:
        for number, paper in enumerate(write_papers(folder, round_, torn=torn)):
            kept = await objects.put(f"{place}/{number}", paper, content_type="application/octet-stream")
            told.append({"uri": f"object:{kept.key}", "name": f"library/{paper.name}"})
    return told


async def begin(papers: Sequence[dict[str, str]], *, key: str) -> str:
    """A run over these papers; one for each key."""
    given: dict[str, Any] = {"owner": OWNER, "tags": ["demo"]}
    run = Submission("documents", {}, INGEST.name, key=key, **given)
    items = [Submission("documents", one, INGEST_ITEM.name, parent=0, **given) for one in papers]
    return str((await get_service(Store).submit(run, *items))[0].id)
