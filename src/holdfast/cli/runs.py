"""`holdfast runs`: what was ingested, how far it is, what it may cost. Asks the server, as `holdfast ingest` does."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer

from holdfast.cli import printing
from holdfast.cli.asking import INTERRUPTED, cancelled_by_ctrl_c
from holdfast.cli.following import failures_shown, items, over_budget, say_failed, state, wait_and_tell
from holdfast.cli.ids import beginning, find_newest
from holdfast.cli.options import Json, Timeout

if TYPE_CHECKING:
    from holdfast.cli.calling import Server

app = typer.Typer(invoke_without_command=True)


T = TypeVar("T")

Run = Annotated[str, typer.Argument(metavar="ID", help="A run's id, or the beginning of it.")]


@app.callback()
def runs(context: typer.Context, as_json: Json = False) -> None:
    """List the runs of `holdfast ingest`, or look after one."""
    if not context.invoked_subcommand:
        list_all(as_json=as_json)


@app.command("ls")
def list_all(limit: Annotated[int, typer.Option(min=1, max=100, help="How many.")] = 20, as_json: Json = False) -> None:
    """List runs, the newest first."""
    found = call(lambda server: server.ask("GET", f"/ingest/runs?limit={limit}"))["items"]
    if as_json:
        printing.answer(found)
        return
    if not found:
        printing.say("There are no runs. ", ("holdfast ingest FILES... --wait", "bold"), " makes one.", err=True)
        return
    ids, now = [UUID(one["run_id"]) for one in found], datetime.now(UTC)
    printing.table(
        ("id", "kind", "state", "documents", "failed", "cost", "made"),
        [(beginning(one_id, ids), *row(one, now)) for one_id, one in zip(ids, found, strict=True)],
        elastic=("kind",),
    )


@app.command()
def show(run: Run, as_json: Json = False) -> None:
    """How far a run is, what it has cost, what failed and why."""

    async def question(server: "Server") -> tuple[dict[str, Any], list[dict[str, Any]]]:
        now = await server.ask("GET", f"/ingest/runs/{await find(server, run)}")
        return now, await items(server, now, "FAILED", most=failures_shown)

    now, failed = call(question)
    if as_json:
        printing.answer({**now, "failed": failed})
        return
    from holdfast.cli.funnel import counted, spent

    total = now["item_count_total"]
    counts = [(name, f"{number:,} of {total:,}") for name, number, _ in counted(now)]
    made = printing.shown(datetime.fromisoformat(now["created_at"]))
    printing.facts([("run", now["run_id"]), ("state", state(now)), ("made", made), *counts, ("cost", spent(now))])
    say_failed(now, failed)
    if now["item_count_waiting"]:
        printing.say((over_budget(now), "yellow"), err=True)


@app.command()
def watch(run: Run, timeout: Timeout = None, as_json: Json = False) -> None:
    """Follow a run until all its documents have ended. The exit code says how: 0, 1, 6 partly done, 7, 124."""

    async def question(server: "Server") -> int:
        return await wait_and_tell(server, await find(server, run), timeout, as_json=as_json)

    raise typer.Exit(call(question))


@app.command()
def budget(
    run: Run,
    cents: Annotated[str, typer.Argument(metavar="CENTS", help="What it may cost in all; `none` for no limit.")],
    as_json: Json = False,
) -> None:
    """Let a run spend more, or less. Documents that wait for it go on."""
    body = {"budget_cents": None if cents == "none" else amount(cents)}

    async def question(server: "Server") -> dict[str, Any]:
        return await server.ask("PUT", f"/ingest/runs/{await find(server, run)}/budget", body)

    now = call(question)
    if as_json:
        printing.answer(now)
        return
    from holdfast.cli.funnel import spent

    waiting = now["item_count_waiting"]
    printing.say(f"It has spent {spent(now)}. ", f"{waiting} still wait: that much is spent." if waiting else "")


@app.command()
def cancel(
    run: Run, reason: Annotated[str | None, typer.Option(help="For the history.")] = None, as_json: Json = False
) -> None:
    """Cancel what is left of a run. What is in stays in. Exit 4: it has ended already."""

    async def question(server: "Server") -> dict[str, Any]:
        return await server.ask("POST", f"/ingest/runs/{await find(server, run)}/cancel", {"reason": reason})

    told = call(question)
    if as_json:
        printing.answer(told)
    else:
        words = {"cancelled": "It is cancelled.", "requested": "Its workers are told.", "too_late": "It has ended."}
        printing.say(words[told["effect"]])
    raise typer.Exit(4 if told["effect"] == "too_late" else 0)


def call(question: "Callable[[Server], Awaitable[T]]") -> T:
    """Ask the server of the settings something. Raises what it says."""
    from holdfast.cli.calling import calling
    from holdfast.settings import read_settings

    settings = read_settings()

    async def run() -> T:
        async with calling(settings) as server:
            with cancelled_by_ctrl_c():
                return await question(server)

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        sys.exit(INTERRUPTED)


def amount(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number of cents, and not `none`.") from None


async def find(server: "Server", given: str) -> UUID:
    """The one run whose id begins so, of the newest. Raises TaskNotFound or RequestInvalid."""
    return await find_newest(server, "ingest", given, word="run", listing="holdfast runs ls")


def row(run: dict[str, Any], now: datetime) -> tuple[printing.Part, ...]:
    from holdfast.cli.funnel import cents

    failed, waiting = run["item_count_failed"], run["item_count_waiting"]
    return (
        run["kind"],
        state(run),
        f"{run['item_count_done']:,} of {run['item_count_total']:,}" + (f", {waiting} wait" if waiting else ""),
        (str(failed), "red") if failed else "",
        cents(run["cost_cents"]) if run["cost_cents"] else "",
        printing.age(datetime.fromisoformat(run["created_at"]), now),
    )
