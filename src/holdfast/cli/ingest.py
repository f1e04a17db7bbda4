"""`holdfast ingest`: documents go to the server, and from there through their steps until they can be searched.

It speaks HTTP, as any client does. Files are uploaded first, a few at once; then one run takes them all.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from holdfast.cli import printing
from holdfast.cli.following import wait_and_tell
from holdfast.cli.options import Json, Timeout
from holdfast.cli.runs import call
from holdfast.cli.sending import measured, rounds_at_most, send
from holdfast.cli.sources import Document, Sources, find_sources
from holdfast.errors import RequestInvalid, ServerUnreachable, UrlRefused

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.cli.bars import Bars
    from holdfast.cli.calling import Server

links_at_once = 100
sent_at_once = 4
request_most_bytes = 2 * 1024**2
around_a_name_bytes = 140


def ingest(
    files: Annotated[list[str], typer.Argument(metavar="FILES...", help="Files, folders, or addresses (https://...).")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all are in or have failed.")] = False,
    kind: Annotated[str, typer.Option(help="Which of your tasks takes them.")] = "documents",
    budget: Annotated[float | None, typer.Option(metavar="CENTS", min=0, help="Ask when this is spent.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Also those that are as they were.")] = False,
    name_prefix: Annotated[str, typer.Option(help="Goes before each name.")] = "",
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """Ingest documents, so that `holdfast search` finds them.

    A document is known by its path as you write it: ingest it again, and it is replaced, or left alone if it is as it
    was. Speaks to the server at HOLDFAST_API, by default the one on this machine. With --wait the exit code says how it
    ended: 0 all are in, 1 none, 6 some, 7 cancelled, 124 not in time.
    """
    from holdfast.cli.bars import Bars

    sources = find_sources(files, prefix=name_prefix, any_kind=kind != "documents")
    check_request(sources)
    left_out = sources.say_left_out()
    if left_out and not as_json:
        printing.say((left_out, "dim"), err=True)

    async def question(server: "Server") -> int:
        with Bars(quiet=as_json) as bars:
            brought = await bring(server, sources.files, bars)
        named = [{"uri": brought.get(one.name, one.name), "name": one.name} for one in sources.documents]
        body = {"kind": kind, "files": named, "force": force}
        body |= {} if budget is None else {"budget_cents": budget}
        run = await server.ask("POST", "/ingest/runs", body, key=uuid4().hex)
        more = {"left_out": [{"name": name, "reason": reason} for name, reason in sources.left_out]}
        if wait:
            return await wait_and_tell(server, run["run_id"], timeout, as_json=as_json, more=more)
        tell_begun({**run, **more}, as_json)
        return 0

    raise typer.Exit(call(question))


def check_request(sources: Sources) -> None:
    """Raise RequestInvalid if the names are longer than the server reads at once, before anything is sent."""
    if sum(len(one.name.encode()) + around_a_name_bytes for one in sources.documents) > request_most_bytes:
        raise RequestInvalid(
            f"The names of these {len(sources.documents):,} documents are too long for one run.",
            fix="Nothing was sent. Ingest fewer at once, or from a folder nearer to them.",
        )


async def bring(server: "Server", files: Sequence[Document], bars: "Bars", word: str = "document") -> dict[str, str]:
    """Upload all files; the address of each, by name. Raises what stands in the way."""
    if not files:
        return {}
    total = sum(size_of(one.path) for one in files if one.path)
    found: dict[str, str] = {}
    with bars.sending(f"{len(files):,} {word}{'' if len(files) == 1 else 's'}", total) as advance:
        for first in range(0, len(files), links_at_once):
            found |= await bring_some(server, files[first : first + links_at_once], advance)
    return found


async def bring_some(server: "Server", files: Sequence[Document], advance: Callable[[int], None]) -> dict[str, str]:
    """Upload these. What did not get through, as its link ran out or the line broke, is sent once more by a new one."""
    found: dict[str, str] = {}
    slots = asyncio.Semaphore(sent_at_once)

    async def bring_one(path: "Path", about: dict[str, Any], link: dict[str, Any]) -> None:
        went = 0

        def count(number: int) -> None:
            nonlocal went
            went += number
            advance(number)

        async with slots:
            try:
                await send(server, link, path, about["size"], count)
            except BaseException:
                advance(-went)
                raise
        found[link["name"]] = link["uri"]

    for round_ in range(rounds_at_most):
        left = [(one.name, one.path) for one in files if one.path and one.name not in found]
        abouts = [await asyncio.to_thread(measured, path) for _, path in left]
        body = {"files": [{"name": name, **about} for (name, _), about in zip(left, abouts, strict=True)]}
        links = (await server.ask("POST", "/ingest/uploads", body))["uploads"]
        sends = [bring_one(path, about, link) for (_, path), about, link in zip(left, abouts, links, strict=True)]
        failures = [one for one in await asyncio.gather(*sends, return_exceptions=True) if one]
        grave = [one for one in failures if not isinstance(one, (UrlRefused, ServerUnreachable))]
        if grave or (failures and round_ == rounds_at_most - 1):
            raise (grave or failures)[0]
        if not failures:
            break
    return found


def size_of(path: "Path") -> int:
    return path.stat().st_size


def tell_begun(run: dict[str, Any], as_json: bool) -> None:
    if as_json:
        printing.answer(run)
        return
    typer.echo(run["run_id"])
    printing.say(("Follow it: ", "dim"), (f"holdfast runs watch {run['run_id']}", "bold"), err=True)
