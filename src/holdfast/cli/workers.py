"""`holdfast workers`: who works, on what, and what each of them holds."""

from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdfast.cli import printing
from holdfast.cli.asking import ask
from holdfast.cli.options import Json

if TYPE_CHECKING:
    from holdfast.engine.store.commands import Store
    from holdfast.engine.store.records import Worker


def workers(as_json: Json = False) -> None:
    """List the workers and what they hold."""

    async def question(store: "Store") -> "tuple[list[Worker], list[dict[str, Any]], datetime]":
        return await store.workers(), await store.held(), await store.now()

    found, leases, now = ask(question)
    held = defaultdict(list)
    for lease in leases:
        held[lease["worker_id"]].append(lease)
    if as_json:
        printing.answer([vars(one) | {"held": held[one.id]} for one in found])
    elif found:
        rows = [row(one, held[one.id], now) for one in found]
        heads = ("id", "label", "queues", "slots", "holds", "seen", "")
        printing.table(heads, rows, elastic=("id", "label", "queues", "holds"))
    else:
        printing.say("No workers. Start one: ", ("holdfast worker --app MODULE:NAME", "bold"), err=True)


def row(one: "Worker", held: list[dict[str, Any]], now: datetime) -> tuple[printing.Part, ...]:
    names = [lease["name"] for lease in held]
    holds = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
    seen = printing.age(one.seen_at, now)
    live = ("live", "green") if one.live else ("gone", "red")
    queues = ", ".join(one.queues)
    return (one.id, "bold"), one.label, queues, f"{len(held)}/{one.slots}", holds, seen, live
