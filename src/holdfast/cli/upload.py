"""`holdfast upload`: a file goes to the server, agents work on it, what they wrote comes back.

It speaks HTTP, as any client does. A long upload renews its links while it runs; links that have run out all the same
are asked for again, and what has arrived already is not sent again.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer

from holdfast.cli.access import Server
from holdfast.cli.files import measure, print_paths, print_sent, rounds_at_most, save_file, send_file, show_sending
from holdfast.cli.options import Answer, Json, Patience, asks_server
from holdfast.cli.printing import print_json, print_line, print_links
from holdfast.cli.watcher import Watched, outcome_of, why_waiting
from holdfast.errors import HoldfastError, RequestInvalid, UrlRefused

Described = tuple[Path, dict[str, Any]]
"""A file, and what is promised of it to the server."""

TASK = Watched(
    path="/tasks", id_field="task_id", name=lambda status: str(status["tool_id"]), following="holdfast watch",
    why=lambda server, status: why_waiting(server, status["task_id"]),
)  # fmt: skip
copying_most = timedelta(minutes=15)


def file_option(text: str) -> Any:
    return typer.Option(help=text, exists=True, dir_okay=False, readable=True)


@asks_server
async def upload(
    server: Server,
    file: Annotated[Path, typer.Argument(help="The file to analyse.", exists=True, dir_okay=False, readable=True)],
    tool: Annotated[str, typer.Option(help="The tool to run.")] = "profile-my-data",
    agents: Annotated[str, typer.Option(help="Its agents, with commas between; all that can run, if left out.")] = "",
    baseline: Annotated[Path | None, file_option("A file to compare with.")] = None,
    params: Annotated[Path | None, file_option("parameters.json for the agents.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end, then list what can be downloaded.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Wait, and download into this folder.", file_okay=False)
    ] = None,
    patience: Patience = None,
    as_json: Json = False,
) -> int:
    """Upload a file and have agents work on it.

    Speaks to the server at HOLDFAST_API, by default the one on this machine. With --wait the exit code says how it
    ended: 0 done, 1 failed, 7 cancelled, 124 not in time.
    """
    import asyncio

    files = {"primary": file, **({"baseline": baseline} if baseline else {})}
    chosen = [name.strip() for name in agents.split(",") if name.strip()]
    promised = {role: await asyncio.to_thread(describe, path) for role, path in files.items()}
    task = await create(server, tool, chosen or await all_agents(server, tool, bool(baseline)))
    place = f"{server.address}/tasks/{task}"
    try:
        await send_all(server, task, promised, params, quiet=as_json)
        await server.ask("POST", f"/tasks/{task}/process", within=copying_most)
    except (asyncio.CancelledError, HoldfastError):
        print_line(f"The task: {place}", err=True)
        raise
    if wait or output:
        end = partial(print_end, output=output)
        return await TASK.follow(server, {"task_id": task}, patience, end, wait=True, as_json=as_json)
    if as_json:
        print_json({"task_id": task})
    else:
        typer.echo(task)
        print_line((f"Its status: {place}", "dim"), err=True)
    return 0


async def all_agents(server: Server, tool: str, has_baseline: bool) -> list[str]:
    """The agents of a tool that can run. Raises RequestInvalid."""
    tools = {one["id"]: one["agents"] for one in (await server.ask("GET", "/tools"))["items"]}
    if tool not in tools:
        raise RequestInvalid(f"There is no tool {tool!r}.", fix=f"There are: {', '.join(sorted(tools)) or 'none'}.")
    return [one["name"] for one in tools[tool] if has_baseline or not one["needs_baseline"]]


async def create(server: Server, tool: str, agents: list[str]) -> str:
    made = await server.ask("POST", "/tasks", {"tool_id": tool, "agents": agents}, key=uuid4().hex)
    return str(made["task_id"])


def describe(path: Path) -> Described:
    """A file as it is promised to the server, read once from its start to its end. Raises BadParameter."""
    return path, {"filename": path.name, **measure(path)}


async def send_all(
    server: Server, task: str, files: Mapping[str, Described], params: Path | None, *, quiet: bool
) -> None:
    """Send all files. Raises UrlRefused if links run out faster than files can be sent."""
    import asyncio

    body = {"files": {role: about for role, (_, about) in files.items()}, "has_parameters": params is not None}

    async def ask_links() -> dict[str, Any]:
        return await server.ask("POST", f"/tasks/{task}/upload-urls", body)

    async def send_one(link: Mapping[str, Any], path: Path, size: int) -> None:
        with show_sending(path.name, size, quiet=quiet) as advance:
            await send_file(server, link, path, size, advance)

    for round_ in range(rounds_at_most):
        links = await ask_links()
        try:
            async with keep_renewing(ask_links, time_left(links)):
                for role, (path, about) in files.items():
                    if links["uploads"][role]["uploaded"]:
                        print_sent(path.name, about["size"], quiet=quiet)
                    else:
                        await send_one(links["uploads"][role], path, about["size"])
            if params:
                links = await ask_links()
                await send_one(links["uploads"]["parameters"], params, (await asyncio.to_thread(params.stat)).st_size)
            return
        except UrlRefused:
            if round_ == rounds_at_most - 1:
                raise


def time_left(links: Mapping[str, Any]) -> timedelta:
    """How long these links are good, by this machine's clock."""
    return datetime.fromisoformat(links["expires_at"]) - datetime.now(UTC)


@contextlib.asynccontextmanager
async def keep_renewing(ask_links: Callable[[], Any], lasting: timedelta) -> AsyncIterator[None]:
    """While the block runs, ask for more time before it is over. Uploads under way are not disturbed by that."""
    import asyncio

    async def renew() -> None:
        pause = max(lasting.total_seconds() / 2, 1)
        while True:
            await asyncio.sleep(pause)
            pause = max(time_left(await ask_links()).total_seconds() / 2, 1)

    task = asyncio.create_task(renew())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def print_end(server: Server, status: dict[str, Any], *, output: Path | None) -> Answer:
    """How it has ended, or that it has not; what can be downloaded, or where that is saved."""
    files: list[dict[str, Any]] = []
    if "downloads" in status["actions"]:
        files = (await server.ask("GET", f"/tasks/{status['task_id']}/downloads"))["downloads"]
    saved = [await save_file(server, one["url"], one["name"], output) for one in files] if output else []
    yield {**status, "downloads": files, **({"saved": saved} if output else {})}
    if status["error_message"]:
        print_line((status["error_message"], "red"), err=True)
    if status["recovery_action"]:
        print_line(status["recovery_action"], ".", err=True)
    if not outcome_of(status):
        print_line(f"Not in time: task {status['task_id']} is {status['status']}, and goes on.", err=True)
    print_paths(saved)
    if not saved:
        print_links(files)
