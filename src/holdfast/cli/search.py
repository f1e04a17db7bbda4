"""`holdfast search`: the passages of ingested documents that answer best, with the words that were asked for marked."""

import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlencode

import typer

from holdfast.cli.access import Server
from holdfast.cli.options import Answer, asks_server
from holdfast.cli.printing import clean, is_terminal, print_line
from holdfast.distribution import install_hint

if TYPE_CHECKING:
    from rich.text import Text


WORD = re.compile(r"\w+")
ENDINGS = {"", "s", "es", "d", "ed", "e", "er", "ers", "ing", "ly", "y", "ies", "ied"}
shared_letters = 3
lines_printed = 4
margin = 4
COMMON = re.compile("a|an|and|are|as|at|be|by|for|from|how|in|is|it|of|on|or|that|the|this|to|was|what|when|who|with")


@asks_server
async def search(
    server: Server,
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="Words, or a question.")],
    mode: Annotated[
        Literal["hybrid", "text", "vector"], typer.Option(help="By words, by meaning (vector), or by both.")
    ] = "hybrid",
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many passages.")] = 5,
) -> Answer:
    """Find passages in what was ingested, the best first."""
    query = " ".join(text)
    found = await server.ask("GET", f"/ingest/search?{urlencode({'q': query, 'mode': mode, 'limit': limit})}")
    any_there = found["items"] or (await server.ask("GET", "/ingest/documents?limit=1"))["items"]
    yield found
    if found["mode"] != mode:
        print_line((f"By words alone: the server has no embedder ({install_hint('ingest')}).", "dim"), err=True)
    for number, one in enumerate(found["items"], 1):
        print_hit(number, one, query)
    if not any_there:
        print_line("Nothing is ingested yet. ", ("holdfast ingest FILES... --wait", "bold"), " does it.", err=True)
        print_line("What is on its way: ", ("holdfast runs", "bold"), err=True)
    elif not found["items"]:
        print_line(f"Nothing is found for {query!r}.", err=True)


def print_hit(number: int, hit: dict[str, Any], query: str) -> None:
    """One passage, under where it is from."""
    page = f"  page {hit['page']}" if hit["page"] else ""
    ranks = [f"{by} {hit[rank]}" for by, rank in (("words", "text_rank"), ("meaning", "vector_rank")) if hit[rank]]
    print_line(
        (f"{number:>{margin - 2}}  ", "dim"), (hit["name"], "bold"), page,
        (f"  {hit['score']:.4f}  ({', '.join(ranks)})", "dim"),
    )  # fmt: skip
    if is_terminal():
        print_marked(hit["text"], query)
    else:
        for line in clean(hit["text"], lines=True).splitlines():
            typer.echo(" " * margin + line if line.strip() else "")
    typer.echo()


def print_marked(text: str, query: str) -> None:
    """The part of a passage that has most of the words, wrapped and marked."""
    from rich.console import Console
    from rich.padding import Padding

    console = Console()
    width = (console.width - margin - 8) * lines_printed
    flat = clean(" ".join(text.split()))
    console.print(Padding(mark(excerpt(flat, query, width), query), (0, 0, 0, margin)))


def mark(text: str, query: str) -> "Text":
    from rich.text import Text

    found = Text(text)
    for start, end, _ in places(text, query):
        found.stylize("bold yellow", start, end)
    return found


def excerpt(text: str, query: str, width: int) -> str:
    """As much of a text as fits, where most words of the query are."""
    if len(text) <= width:
        return text
    found = list(places(text, query))
    starts = [0, *(max(0, start - width // 4) for start, _, _ in found)]
    best = max(starts, key=lambda begin: len({word for a, b, word in found if begin <= a and b <= begin + width}))
    begin = text.rfind(" ", 0, best + 1) + 1
    cut = textwrap.shorten(text[begin:], width - 2, placeholder=" …")
    return f"… {cut}" if begin else cut


def places(text: str, query: str) -> Iterator[tuple[int, int, str]]:
    """Where words of the query are, also with another ending; and which."""
    asked = {word for word in WORD.findall(query.lower()) if not COMMON.fullmatch(word)}
    for found in WORD.finditer(text):
        for word in asked:
            if alike(found[0].lower(), word):
                yield *found.span(), word
                break


def alike(one: str, other: str) -> bool:
    """Whether two words are one, but for their endings."""
    shared = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    shared = min(len(one), len(other)) if shared is None else shared
    return one == other or (shared > shared_letters and {one[shared:], other[shared:]} <= ENDINGS)
