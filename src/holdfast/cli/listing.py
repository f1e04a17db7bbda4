"""`holdfast ls`: tasks at a glance, the newest first."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from holdfast.cli import printing
from holdfast.cli.asking import ask, whereabouts
from holdfast.cli.ids import shorten
from holdfast.cli.options import Json

if TYPE_CHECKING:
    from holdfast.engine.store.commands import Store

most_at_once = 1000


def ls(
    lifecycle: Annotated[str | None, typer.Option(help="Only of this lifecycle.")] = None,
    state: Annotated[str | None, typer.Option(help="Only in this state.")] = None,
    queue: Annotated[str | None, typer.Option(help="Only of this queue.")] = None,
    name: Annotated[str | None, typer.Option(help="Only tasks of this name.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only with this tag.")] = None,
    live: Annotated[
        bool | None, typer.Option("--live/--finished", help="Only those that go on, or have ended.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that ended in failure.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="So many at most.")] = 20,
    as_json: Json = False,
) -> None:
    """List tasks, the newest first."""
    filters = {"lifecycle": lifecycle, "state": state, "queue": queue, "name": name, "tag": tag, "live": live}
    if failed:
        filters["outcome"] = "failed"

    async def question(store: "Store") -> tuple[list[dict[str, Any]], dict[UUID, str], datetime, str]:
        found, more = await collect(store, filters, limit)
        if not found:
            more = await unknown(store, filters)
        return found, await shorten(store, [UUID(one["id"]) for one in found]), await store.now(), more

    found, short, now, more = ask(question)
    if as_json:
        printing.answer(found)
        return
    if not found:
        say_none(filters, more)
        return
    rows = [row(one, short[UUID(one["id"])], now) for one in found]
    printing.table(("id", "name", "state", "try", "queue", "age", "note"), rows, elastic=("name", "queue", "note"))
    if more:
        printing.say((more, "dim"), err=True)


async def collect(store: "Store", filters: dict[str, Any], limit: int) -> tuple[list[dict[str, Any]], str]:
    """Up to `limit` tasks, page by page; and a word about those that are left."""
    found: list[dict[str, Any]] = []
    cursor = None
    while len(found) < limit:
        page = await store.list_tasks(**filters, cursor=cursor, limit=min(limit - len(found), most_at_once))
        found.extend(page.items)
        cursor = page.next
        if cursor is None:
            return found, ""
    return found, f"There are more: --limit {limit * 5} shows more." if page.approx_count > len(found) else ""


def row(task: dict[str, Any], short: str, now: datetime) -> tuple[printing.Part, ...]:
    age = printing.age(datetime.fromisoformat(task["created_at"]), now)
    return short, (task["name"], "bold"), printing.state(task), attempts(task), task["queue"], age, (note(task), "dim")


def attempts(task: dict[str, Any]) -> str:
    return f"{task['attempt']}/{task['max_attempts']}"


def note(task: dict[str, Any]) -> str:
    """What a reader wants to know next: the error, or how far it is."""
    return str(task["message"] or how_far(task["progress"]))


def how_far(told: Any) -> str:
    """What the worker told of its progress, in a few words."""
    if not isinstance(told, dict):
        return ""
    far = f"{told['done']}/{told['total']}" if told.get("done") is not None and told.get("total") else ""
    return " ".join(filter(None, (far, str(told.get("note") or told.get("step") or ""))))


async def unknown(store: "Store", filters: dict[str, Any]) -> str:
    """A word about the first filter whose value fits nothing there is, with what there is; often it is a typo."""
    lifecycles = await store.lifecycles()
    known: dict[str, set[str]] = {
        "lifecycle": {one.name for one in lifecycles},
        "state": {state.name for one in lifecycles if filters["lifecycle"] in (None, one.name) for state in one.states},
        "queue": {one.name for one in await store.queues()},
    }
    for name, values in known.items():
        if filters[name] is not None and filters[name] not in values:
            return f"There is no {name} {filters[name]!r}. Known are: {', '.join(sorted(values))}."
    return ""


def say_none(filters: dict[str, Any], mistake: str) -> None:
    """What to do when there is nothing to show. Not on stdout, where scripts count lines."""
    if mistake:
        printing.say(mistake, err=True)
    elif any(value is not None for value in filters.values()):
        printing.say("No task fits. Leave a filter out, or see them all: ", ("holdfast ls", "bold"), err=True)
    else:
        printing.say(f"No tasks yet ({whereabouts()}). Start one: ", ("holdfast start NAME '{}'", "bold"), err=True)
