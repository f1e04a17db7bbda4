"""`holdfast search`: the passages of ingested documents that answer best, with the words that were asked for marked."""

import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlencode

import typer

from holdfast.cli import printing
from holdfast.cli.following import say_nothing_yet
from holdfast.cli.options import Json
from holdfast.cli.runs import call
from holdfast.distribution import install_hint

if TYPE_CHECKING:
    from rich.text import Text

    from holdfast.cli.calling import Server

WORD = re.compile(r"\w+")
ENDINGS = {"", "s", "es", "d", "ed", "e", "er", "ers", "ing", "ly", "y", "ies", "ied"}
shared_letters = 3
lines_shown = 4
margin = 4
COMMON = re.compile("a|an|and|are|as|at|be|by|for|from|how|in|is|it|of|on|or|that|the|this|to|was|what|when|who|with")


def search(
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="Words, or a question.")],
    mode: Annotated[
        Literal["hybrid", "text", "vector"], typer.Option(help="By words, by meaning (vector), or by both.")
    ] = "hybrid",
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many passages.")] = 5,
    as_json: Json = False,
) -> None:
    """Find passages in what was ingested, the best first."""
    query = " ".join(text)

    async def question(server: "Server") -> tuple[dict[str, Any], bool]:
        found = await server.ask("GET", f"/ingest/search?{urlencode({'q': query, 'mode': mode, 'limit': limit})}")
        any_there = found["items"] or (await server.ask("GET", "/ingest/documents?limit=1"))["items"]
        return found, bool(any_there)

    found, any_there = call(question)
    if as_json:
        printing.answer(found)
        return
    if found["mode"] != mode:
        printing.say((f"By words alone: the server has no embedder ({install_hint('ingest')}).", "dim"), err=True)
    for number, one in enumerate(found["items"], 1):
        show(number, one, query)
    if not any_there:
        say_nothing_yet()
    elif not found["items"]:
        printing.say(f"Nothing is found for {query!r}.", err=True)


def show(number: int, hit: dict[str, Any], query: str) -> None:
    """One passage, under where it is from."""
    page = f"  page {hit['page']}" if hit["page"] else ""
    ranks = [f"{by} {hit[rank]}" for by, rank in (("words", "text_rank"), ("meaning", "vector_rank")) if hit[rank]]
    printing.say(
        (f"{number:>{margin - 2}}  ", "dim"), (hit["name"], "bold"), page,
        (f"  {hit['score']:.4f}  ({', '.join(ranks)})", "dim"),
    )  # fmt: skip
    if printing.on_terminal():
        show_marked(hit["text"], query)
    else:
        for line in printing.clean(hit["text"], lines=True).splitlines():
            typer.echo(" " * margin + line if line.strip() else "")
    typer.echo()


def show_marked(text: str, query: str) -> None:
    """The part of a passage that has most of the words, wrapped and marked."""
    from rich.console import Console
    from rich.padding import Padding

    console = Console()
    room = (console.width - margin - 8) * lines_shown
    flat = printing.clean(" ".join(text.split()))
    console.print(Padding(marked(excerpt(flat, query, room), query), (0, 0, 0, margin)))


def marked(text: str, query: str) -> "Text":
    from rich.text import Text

    shown = Text(text)
    for start, end, _ in places(text, query):
        shown.stylize("bold yellow", start, end)
    return shown


def excerpt(text: str, query: str, room: int) -> str:
    """As much of a text as there is room for, where most words of the query are."""
    if len(text) <= room:
        return text
    found = list(places(text, query))
    starts = [0, *(max(0, start - room // 4) for start, _, _ in found)]
    best = max(starts, key=lambda begin: len({word for a, b, word in found if begin <= a and b <= begin + room}))
    begin = text.rfind(" ", 0, best + 1) + 1
    cut = textwrap.shorten(text[begin:], room - 2, placeholder=" …")
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
