"""`holdfast upload`: a file goes to the server, agents work on it, what they wrote comes back.

It speaks HTTP, as any client does. A long upload renews its links while it runs; links that have run out all the same
are asked for anew, and what is there already is not sent again.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from holdfast.cli import printing
from holdfast.cli.asking import INTERRUPTED, cancelled_by_ctrl_c
from holdfast.cli.options import Json, Timeout
from holdfast.cli.sending import measured, rounds_at_most, send
from holdfast.cli.watching import TIMED_OUT
from holdfast.errors import HoldfastError, RequestInvalid, UrlRefused

if TYPE_CHECKING:
    from holdfast.cli.bars import Bars
    from holdfast.cli.calling import Server

EXIT_CODES = {"COMPLETED": 0, "FAILED": 1, "EXPIRED": 1, "UPLOAD_FAILED": 4, "CANCELLED": 7}
look_again_most = timedelta(seconds=1)
wonder_after = timedelta(seconds=3)
copying_most = timedelta(minutes=15)

Existing = Annotated[Path, typer.Argument(help="The file to analyse.", exists=True, dir_okay=False, readable=True)]


def upload(
    file: Existing,
    tool: Annotated[str, typer.Option(help="The tool to run.")] = "profile-my-data",
    agents: Annotated[str, typer.Option(help="Its agents, with commas between; all that can run, if left out.")] = "",
    baseline: Annotated[
        Path | None, typer.Option(help="A file to compare with.", exists=True, dir_okay=False, readable=True)
    ] = None,
    params: Annotated[
        Path | None, typer.Option(help="parameters.json for the agents.", exists=True, dir_okay=False, readable=True)
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end, then list what can be downloaded.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Wait, and download into this folder.", file_okay=False)
    ] = None,
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """Upload a file and have agents work on it.

    Speaks to the server at HOLDFAST_API, by default the one on this machine. With --wait the exit code says how it
    ended: 0 done, 1 failed, 7 cancelled, 124 not in time.
    """
    from holdfast.cli.bars import Bars
    from holdfast.cli.calling import calling
    from holdfast.settings import read_settings

    files = {"primary": file, **({"baseline": baseline} if baseline else {})}
    chosen = [name.strip() for name in agents.split(",") if name.strip()]
    settings = read_settings()
    waits = wait or output is not None

    async def run() -> int:
        async with calling(settings) as server:
            with Bars(quiet=as_json) as bars, cancelled_by_ctrl_c():
                promised = {role: await asyncio.to_thread(described, path) for role, path in files.items()}
                task = await create(server, tool, chosen or await all_agents(server, tool, bool(baseline)))
                try:
                    await send_all(server, task, promised, params, bars)
                    await server.ask("POST", f"/tasks/{task}/process", within=copying_most)
                    status = await follow(server, task, bars, timeout) if waits else None
                except (asyncio.CancelledError, HoldfastError):
                    bars.stop()
                    printing.say(f"The task: {server.address}/tasks/{task}", err=True)
                    raise
            if status:
                return await tell(server, status, output, as_json)
            tell_begun(server, task, as_json)
            return 0

    try:
        raise typer.Exit(asyncio.run(run()))
    except asyncio.CancelledError:
        sys.exit(INTERRUPTED)


async def all_agents(server: "Server", tool: str, has_baseline: bool) -> list[str]:
    """The agents of a tool that can run. Raises RequestInvalid."""
    tools = {one["id"]: one["agents"] for one in (await server.ask("GET", "/tools"))["items"]}
    if tool not in tools:
        raise RequestInvalid(f"There is no tool {tool!r}.", fix=f"There are: {', '.join(sorted(tools)) or 'none'}.")
    return [one["name"] for one in tools[tool] if has_baseline or not one["needs_baseline"]]


async def create(server: "Server", tool: str, agents: list[str]) -> str:
    made = await server.ask("POST", "/tasks", {"tool_id": tool, "agents": agents}, key=uuid4().hex)
    return str(made["task_id"])


@dataclass(frozen=True)
class Described:
    """A file as it is promised to the server."""

    path: Path
    about: dict[str, Any]


def described(path: Path) -> Described:
    """A file, read once from its start to its end. Raises BadParameter."""
    return Described(path, {"filename": path.name, **measured(path)})


async def send_all(
    server: "Server", task: str, files: Mapping[str, Described], params: Path | None, bars: "Bars"
) -> None:
    """Bring all files where they belong. Raises UrlRefused if links run out faster than files can be sent."""
    body = {"files": {role: one.about for role, one in files.items()}, "has_parameters": params is not None}

    async def ask_links() -> dict[str, Any]:
        return await server.ask("POST", f"/tasks/{task}/upload-urls", body)

    for round_ in range(rounds_at_most):
        links = await ask_links()
        try:
            async with renewed(ask_links, until(links)):
                for role, one in files.items():
                    if not links["uploads"][role]["uploaded"]:
                        await send_one(server, links["uploads"][role], one.path, one.about["size"], bars)
                    else:
                        bars.sent(one.path.name, one.about["size"])
            if params:
                links = await ask_links()
                await send_one(server, links["uploads"]["parameters"], params, size_of(params), bars)
            return
        except UrlRefused:
            if round_ == rounds_at_most - 1:
                raise


def until(links: Mapping[str, Any]) -> timedelta:
    """How long these links are good, by this machine's clock."""
    return datetime.fromisoformat(links["expires_at"]) - datetime.now(UTC)


@contextlib.asynccontextmanager
async def renewed(ask_links: Callable[[], Any], lasting: timedelta) -> AsyncIterator[None]:
    """While the block runs, ask for more time before it is over. Uploads under way are not disturbed by that."""

    async def renew() -> None:
        pause = max(lasting.total_seconds() / 2, 1)
        while True:
            await asyncio.sleep(pause)
            pause = max(until(await ask_links()).total_seconds() / 2, 1)

    task = asyncio.create_task(renew())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def send_one(server: "Server", link: Mapping[str, Any], path: Path, size: int, bars: "Bars") -> None:
    with bars.sending(path.name, size) as advance:
        await send(server, link, path, size, advance)


async def follow(server: "Server", task: str, bars: "Bars", patience: timedelta | None) -> dict[str, Any]:
    """The task once it has ended, or as it is when patience does."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    over = None if patience is None else began + patience.total_seconds()
    explained = False
    while True:
        status = await server.ask("GET", f"/tasks/{task}")
        bars.agents(status)
        if status["status"] == "QUEUED" and not explained and loop.time() - began > wonder_after.total_seconds():
            why = await server.ask("GET", f"/api/v1/tasks/{task}/why")
            bars.note(f"{why['sentence']} {why['fix']}")
            explained = True
        if status["poll_after_ms"] is None or (over is not None and loop.time() >= over):
            return status
        pause = min(status["poll_after_ms"] / 1000, look_again_most.total_seconds())
        await asyncio.sleep(pause if over is None else max(0, min(pause, over - loop.time())))


async def tell(server: "Server", status: dict[str, Any], output: Path | None, as_json: bool) -> int:
    """Say how it ended; the exit code. What can be downloaded is listed, or saved."""
    task, files = status["task_id"], []
    if "downloads" in status["actions"]:
        files = (await server.ask("GET", f"/tasks/{task}/downloads"))["downloads"]
    saved = [str(await save(server, one, output)) for one in files] if output else []
    if as_json:
        printing.answer({**status, "downloads": files, **({"saved": saved} if output else {})})
    else:
        say(status, files, saved)
    return EXIT_CODES.get(status["status"], TIMED_OUT)


def say(status: dict[str, Any], files: list[dict[str, Any]], saved: list[str]) -> None:
    if status["error_message"]:
        printing.say((status["error_message"], "red"), err=True)
    if status["recovery_action"]:
        printing.say(status["recovery_action"], ".", err=True)
    if status["status"] not in EXIT_CODES:
        printing.say(f"Not in time: task {status['task_id']} is {status['status']}, and goes on.", err=True)
    for path in saved:
        typer.echo(path)
    if files and not saved:
        rows = [(one["name"], printing.size(one["bytes"]), one["url"]) for one in files]
        printing.table(("file", "size", "link"), rows, elastic=("link",))


def tell_begun(server: "Server", task: str, as_json: bool) -> None:
    if as_json:
        printing.answer({"task_id": task})
        return
    typer.echo(task)
    printing.say((f"Where it is: {server.address}/tasks/{task}", "dim"), err=True)


async def save(server: "Server", one: Mapping[str, Any], folder: Path) -> Path:
    """Download one file. Raises RequestInvalid for a name that leads out of the folder."""
    target = place_for(str(one["name"]), folder)
    async with server.fetch(one["url"]) as parts:
        with target.open("wb") as stream:
            async for part in parts:
                stream.write(part)
    return target


def place_for(name: str, folder: Path) -> Path:
    target = folder / name
    if not target.resolve().is_relative_to(folder.resolve()):
        raise RequestInvalid(f"The server names a file {name!r}, which is outside of {folder}.")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def size_of(path: Path) -> int:
    return path.stat().st_size
