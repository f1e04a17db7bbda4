"""Following a run of documents: how far it is, why it waits, how it ended, what failed."""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from holdfast.cli import printing
from holdfast.cli.polling import OUTCOMES, poll
from holdfast.cli.watching import EXIT_CODES, TIMED_OUT
from holdfast.errors import HoldfastError, ServerUnreachable

if TYPE_CHECKING:
    from holdfast.cli.calling import Server
    from holdfast.cli.funnel import Funnel

failures_shown = 20
items_at_once = 200


async def wait_and_tell(
    server: "Server",
    run: "UUID | str",
    patience: timedelta | None,
    *,
    as_json: bool = False,
    more: Mapping[str, object] | None = None,
) -> int:
    """Show how it goes until it has ended or patience has; say how; the exit code. `more` is told with the JSON."""
    from holdfast.cli.funnel import Funnel

    try:
        with Funnel(quiet=as_json) as funnel:
            now = await follow(server, run, funnel, patience)
    except ServerUnreachable:
        printing.say("Follow it when the server is back: ", (f"holdfast runs watch {run}", "bold"), err=True)
        raise
    except (asyncio.CancelledError, HoldfastError):
        say_it_goes_on(run)
        raise
    failed = await items(server, now, "FAILED", most=None if as_json else failures_shown)
    unchanged = await count_unchanged(server, now)
    if as_json:
        printing.answer({**now, "unchanged": unchanged, "failed": failed, **(more or {})})
    else:
        say_end(now, unchanged)
        say_failed(now, failed)
        if now["status"] not in OUTCOMES and (why := await reason(server, now)):
            printing.say(why, err=True)
    outcome = OUTCOMES.get(now["status"])
    return EXIT_CODES[outcome] if outcome else TIMED_OUT


async def follow(server: "Server", run: "UUID | str", funnel: "Funnel", patience: timedelta | None) -> dict[str, Any]:
    """The run once it has ended, or as it is when patience does."""
    return await poll(
        lambda: server.ask("GET", f"/ingest/runs/{run}"), funnel, patience,
        reason=lambda now: reason(server, now),
        remark=lambda now: over_budget(now) if now["item_count_waiting"] else "",
    )  # fmt: skip


async def reason(server: "Server", run: dict[str, Any]) -> str:
    """Why it does not go on: its budget, or what its first open document waits for. Empty if that is worked on."""
    from holdfast.lifecycles.ingest.declaration import MOVES

    if run["item_count_waiting"]:
        return over_budget(run)
    for status in MOVES:
        for item in await items(server, run, status, most=1):
            why = await server.ask("GET", f"/api/v1/tasks/{item['item_id']}/why")
            said = printing.readable(f"{item['name']}: {why['sentence']} {why['fix']}").rstrip()
            return "" if why["reason"] == "leased" else said
    return ""


def over_budget(run: dict[str, Any]) -> str:
    from holdfast.cli.funnel import spent

    number = run["item_count_waiting"]
    wait = "1 document waits" if number == 1 else f"{number} documents wait"
    return f"{wait}: the run has spent {spent(run)}. Allow more: holdfast runs budget {run['run_id']} CENTS"


async def items(server: "Server", run: dict[str, Any], status: str, *, most: int | None) -> list[dict[str, Any]]:
    """The documents of a run in this state, up to so many."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while most is None or len(found) < most:
        limit = items_at_once if most is None else min(most - len(found), items_at_once)
        page = await server.ask("GET", f"/ingest/runs/{run['run_id']}/items?status={status}&limit={limit}{cursor}")
        found += page["items"]
        if not page["next"]:
            break
        cursor = f"&cursor={page['next']}"
    return found


async def count_unchanged(server: "Server", run: dict[str, Any]) -> int:
    """How many documents were as they were; asked only if it cannot be none."""
    if run["item_count_done"] <= run["steps"].get("INDEXED", 0):
        return 0
    done = await items(server, run, "DONE", most=None)
    return sum(1 for one in done if isinstance(one["result"], dict) and one["result"].get("unchanged") is True)


def say_nothing_yet() -> None:
    printing.say("Nothing is ingested yet. ", ("holdfast ingest FILES... --wait", "bold"), " does it.", err=True)
    printing.say("What is on its way: ", ("holdfast runs", "bold"), err=True)


def say_it_goes_on(run: "UUID | str") -> None:
    printing.say("It goes on. Follow it: ", (f"holdfast runs watch {run}", "bold"), err=True)


def say_end(run: dict[str, Any], unchanged: int) -> None:
    """How it ended, in a line or two."""
    from holdfast.cli.funnel import spent

    done, total = run["item_count_done"], run["item_count_total"]
    same = f" ({unchanged:,} as before)" if unchanged else ""
    others = {"failed": "failed", "cancelled": "cancelled", "waiting": "waiting for the budget"}
    rest = "".join(f", {number:,} {word}" for name, word in others.items() if (number := run[f"item_count_{name}"]))
    told = f"{done:,} of {total:,} {'is' if total == 1 else 'are'} in{same}{rest}"
    took = ""
    if run["finished_at"]:
        span = datetime.fromisoformat(run["finished_at"]) - datetime.fromisoformat(run["created_at"])
        took = f", {printing.lasting(span, fine=True)}"
    printing.say(state(run, err=True), f": {told}; cost {spent(run)}{took}", err=True)
    if run["status"] not in OUTCOMES:
        printing.say("Not in time.", err=True)
        say_it_goes_on(run["run_id"])


def say_failed(run: dict[str, Any], failed: list[dict[str, Any]]) -> None:
    """What failed, and where to go with it."""
    if not failed:
        return
    rows = [(one["name"], one["last_error_kind"], one["failed_step"] or "", one["last_error"] or "") for one in failed]
    printing.table(("failed", "category", "at", "because"), rows, elastic=("failed", "because"))
    more = run["item_count_failed"] - len(failed)
    if more > 0:
        printing.say((f"... and {more:,} more", "dim"))
    printing.say("Retry or resolve them: ", ("holdfast inbox ls", "bold"), err=True)


def state(run: dict[str, Any], *, err: bool = False) -> printing.Part:
    return printing.state({"state": run["status"], "outcome": OUTCOMES.get(run["status"]), "actor": "tasks"}, err=err)
