"""The text of a document is read whatever its name says, and comes out clean."""

import pytest

from tests.lifecycles.ingest.papers import Paper, papers, write_docx, write_html, write_pdf
from tests.lifecycles.ingest.prose import Prose
from tests.lifecycles.ingest.steps.reading import Harness, one_line

pytestmark = pytest.mark.asyncio(loop_scope="session")  # all share the process that reads

PROSE = Prose("On bread", "The Peldaxakket index holds 12 pages.", ("One.", "Two.", "Three.", "Four."), ())


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> list[Paper]:
    return papers(80, 7, tmp_path_factory.mktemp("papers"))


@pytest.mark.deep
async def test_every_paper_is_read_or_refused_as_it_says(library: list[Paper], harness: Harness) -> None:
    codes = set()
    for paper in library:
        content = paper.path.read_bytes()
        if paper.broken:
            refusal = await harness.refusal(content, paper.path.name)
            assert refusal.code == paper.broken, paper
            codes.add(refusal.code)
        else:
            read = await harness.read(content, paper.path.name)
            assert (read.kind, paper.fact in one_line(read.text)) == (paper.kind, True), paper
            assert read.title == (paper.path.stem if paper.kind == "text" else paper.title)
    assert codes == {"encrypted", "empty", "corrupt", "scanned", "bomb", "truncated", "unsupported"}


async def test_papers_are_the_same_for_the_same_seed(
    library: list[Paper], tmp_path_factory: pytest.TempPathFactory
) -> None:
    again = papers(30, 7, tmp_path_factory.mktemp("again"))
    others = papers(30, 8, tmp_path_factory.mktemp("others"))
    assert [paper.path.read_bytes() for paper in again] == [paper.path.read_bytes() for paper in library[:30]]
    assert {paper.fact for paper in again}.isdisjoint(paper.fact for paper in others)
    assert len({paper.fact for paper in library}) == len(library)


HTML, PDF, DOCX = write_html(PROSE), write_pdf(PROSE), write_docx(PROSE)


@pytest.mark.parametrize(
    ("content", "name", "content_type", "kind"),
    [
        (HTML, "paper.pdf", "application/pdf", "html"),
        (b"\xef\xbb\xbf \n<?xml version='1.0'?>\n<!-- a --><!-- b -->\n" + HTML, "paper.docx", None, "html"),
        (HTML.decode().encode("utf-16"), "paper.txt", None, "html"),
        (b"<p>Only a <b>part</b> of a page</p>", "paper.html", None, "html"),
        (b"<p>Only a <b>part</b> of a page</p>", "paper", "text/html; charset=utf-8", "html"),
        (b"<p>Only a <b>part</b> of a page</p>", "paper.txt", None, "text"),
        (PDF, "paper.html", "text/html", "pdf"),
        (b"\n" + PDF, "paper.bin", None, "pdf"),
        (b"junk before it\n" + PDF, "paper.pdf", None, "pdf"),
        (DOCX, "paper.pdf", None, "docx"),
        (b"# A heading\n\nand text", "paper.MD", None, "markdown"),
        (b"# A heading\n\nand text", "paper", "text/markdown", "markdown"),
        (b"# A heading\n\nand text", "paper.txt", None, "text"),
        (b"Plain text, whatever they say.", "paper.pdf", "application/pdf", "text"),
        (b"x < y and y > z", "paper.html", None, "text"),
    ],
    ids=[
        "page called pdf", "page behind comments", "page in utf-16", "part of a page", "page by type", "tags in a text",
        "pdf called html", "pdf after a line", "pdf after junk", "docx called pdf", "markdown by name",
        "markdown by type", "markdown called text", "text called pdf", "text called html",
    ],
)  # fmt: skip
async def test_a_file_is_what_its_bytes_are(
    harness: Harness, content: bytes, name: str, content_type: str | None, kind: str
) -> None:
    assert (await harness.read(content, name, content_type)).kind == kind


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "a PNG image"),
        (b"\x7fELF" + bytes(100), "a program"),
        (b"{\\rtf1\\ansi Hello}", "an RTF document"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "an Office document of the old kind"),
        (b"\x01\x02\x03\x04" * 200, "binary"),
        (b"text, then\0" + bytes(100), "binary"),
    ],
    ids=["picture", "program", "rtf", "old office", "control characters", "nul"],
)
async def test_another_kind_is_refused_by_name_with_what_can_be_read(
    harness: Harness, content: bytes, what: str
) -> None:
    refusal = await harness.refusal(content, "paper.txt")
    assert refusal.code == "unsupported"
    assert f"It is {what}" in refusal.message
    assert "PDF, Word (.docx), HTML, Markdown and plain text" in refusal.message


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"", "a.pdf"),
        (b" \r\n\t" * 3000, "a.html"),
        ("\u2003\ufeff\u00ad\n", "a.txt"),
        ("<html><body> <br>", "a.html"),
        ("---\ntitle: Nothing more\n---\n", "a.md"),
    ],
    ids=["no bytes", "white space", "wide space", "page", "front matter"],
)
async def test_a_file_without_text_is_empty(harness: Harness, content: bytes | str, name: str) -> None:
    assert (await harness.refusal(content, name)).code == "empty"


async def test_text_comes_out_clean(harness: Harness) -> None:
    rest = "A long text, in which a few such characters are forgiven." * 5
    text = "\n \n\ufeffOne\0\x07 soft\u00adly\r\nTwo\rThree\u2028Four\n\n \t\n\u00a0\n\nFive\ttab \n  indented\n\n"
    read = await harness.read(text + rest + "\r\n\r\n", "a.txt")
    assert read.text == "One softly\nTwo\nThree\nFour\n\nFive\ttab \n  indented\n\n" + rest
    assert (read.title, read.pages) == ("a", ())


async def test_halves_of_surrogate_pairs_are_left_out(harness: Harness) -> None:
    read = await harness.read(b"\xff\xfe" + "left right".encode("utf-16-le") + b"\x00\xd8" + "!".encode("utf-16-le"))
    read.text.encode("utf-8")
    page = await harness.read("<html><body><p>left &#xD800; right &#0; end</p></body></html>")
    assert one_line(page.text.replace("\ufffd", "")) == "left right end"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Grüße aus Köln".encode("utf-8-sig"), "Grüße aus Köln"),
        ("Grüße aus Köln".encode("utf-16"), "Grüße aus Köln"),
        ("Grüße aus Köln".encode("utf-32"), "Grüße aus Köln"),
        (
            ("Viele Grüße aus der schönen Stadt Köln, wo es früh kühl wird. " * 5).encode("cp1252"),
            "Viele Grüße aus der",
        ),
        (("これは日本語の文章です。今日は天気がいいですね。" * 10).encode("shift_jis"), "これは日本語の文章です"),
        (("Это русский текст, написанный в старой кодировке. " * 10).encode("cp1251"), "Это русский текст"),
    ],
    ids=["utf-8 with a mark", "utf-16", "utf-32", "western", "japanese", "russian"],
)
async def test_a_text_is_read_in_its_encoding(harness: Harness, content: bytes, text: str) -> None:
    assert (await harness.read(content, "a.txt")).text.startswith(text)


@pytest.mark.parametrize("name", ["a.txt", "a.html"])
async def test_a_few_damaged_bytes_do_not_make_a_text_binary(harness: Harness, name: str) -> None:
    before, after = "<html><body><p>Grüße aus dem schönen Köln, für Öl und Äpfel. ", "Und Schluss, für heute." * 9
    assert "Grüße aus dem schönen Köln" in (await harness.read(before.encode() + b"\xff" + after.encode(), name)).text
    plain = "<html><body><p>Nothing but plain English one_line, and then a byte that is none: "
    assert (
        "plain English one_line" in (await harness.read(plain.encode() + b"\xff" + b" and on it goes." * 9, name)).text
    )


async def test_what_the_server_says_of_the_encoding_counts(harness: Harness) -> None:
    read = await harness.read("Preis: 5 € für Öl".encode("iso-8859-15"), "a.txt", "text/plain; charset=ISO-8859-15")
    assert read.text == "Preis: 5 € für Öl"


@pytest.mark.parametrize(
    ("content", "title", "text"),
    [
        ("---\ntitle: 'From the matter'\nby: me\n---\n\n# Top\n\ntext", "From the matter", "# Top\n\ntext"),
        ("+++\ntitle = \"Toml\"\n+++\ntext", "Toml", "text"),
        ("---\nby: me\n---\n# Top #\n\ntext", "Top", "# Top #\n\ntext"),
        ("intro\n\n```\n# no heading\n```\n\n## C# in use ##", "C# in use", None),
        ("Under\n=====\n\n# Top", "Under", None),
        ("---\n\nA rule first, and no matter.\n\n---\n\nMore", "paper", None),
        ("no heading\n\n* one\n* two  \n    code", "paper", None),
        ("#hashtag\n\n#\n\n###### Six", "Six", None),
    ],
    ids=["yaml", "toml", "closed heading", "fence", "underlined", "rules", "none", "hashes"],
)  # fmt: skip
async def test_markdown_is_kept_as_written(harness: Harness, content: str, title: str, text: str | None) -> None:
    read = await harness.read(content, "paper.md")
    assert (read.title, read.text) == (title, text or content)


PAGE = """<html><head><title>In the head</title><meta property="og:title" content="For others"></head><body>
<nav>Menu one, menu two, menu three</nav><article><h1>On top</h1>
<p>The Peldaxakket index is a long sentence about an index, so that it is taken for the main text of the page.</p>
<p>Another paragraph tells more about it, at some length, and with commas, so that nobody takes it for a menu.</p>
</article><script>var x = "code"</script></body></html>"""


async def test_a_page_is_read_without_its_menus(harness: Harness) -> None:
    read = await harness.read(PAGE, "page.html")
    assert read.title == "For others"
    assert "Peldaxakket" in read.text
    assert "menu two" not in read.text
    assert "code" not in read.text


@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("<html><title>In the\n head</title><h1>On top</h1>x", "In the head"),
        ("<html><title> </title><h2></h2><h3>On <i>top</i></h3><h1>Later</h1>x", "On top"),
        ("<html><p>x", "page"),
    ],
    ids=["head", "heading", "name"],
)
async def test_a_page_has_its_title(harness: Harness, page: str, title: str) -> None:
    assert (await harness.read(page, "page.html")).title == title


async def test_all_that_is_visible_is_read_where_no_main_text_is_found(harness: Harness) -> None:
    page = "<html><body><footer>All<br>rights re<b>serv</b>ed<style>no</style><!-- no --></footer></body></html>"
    assert (await harness.read(page, "page.html")).text == "All\nrights reserved"


async def test_a_large_page_is_read_as_all_that_is_visible(harness: Harness) -> None:
    page = "<html><body><nav>Menu</nav>" + "<p>One of many paragraphs.</p>\n" * 40_000 + "</body></html>"
    text = (await harness.read(page, "page.html")).text
    assert text.startswith("Menu")
    assert text.count("One of many") == 40_000


async def test_a_page_is_read_in_the_encoding_that_it_names(harness: Harness) -> None:
    page = "<html><head><meta charset='iso-8859-7'></head><body><p>Καλημέρα κόσμε</p></body></html>"
    assert (await harness.read(page.encode("iso-8859-7"), "page.html")).text == "Καλημέρα κόσμε"
