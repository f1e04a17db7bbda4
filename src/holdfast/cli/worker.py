"""`holdfast worker` and `holdfast workers`: run tasks until stopped; list who runs them."""

from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from holdfast.cli.options import Answer, asks_store
from holdfast.cli.printing import Cell, format_age, print_table

if TYPE_CHECKING:
    from holdfast.engine.store.commands import Store
    from holdfast.engine.store.records import Worker
    from holdfast.worker.config import WorkerConfig
    from holdfast.worker.supervisor import Serving

names_listed = 8


def run(config: "WorkerConfig", processes: int) -> None:
    """Run tasks. The first Ctrl-C lets them end, a second gives them back at once. Raises AppInvalid."""
    from holdfast.engine.logs import configure_logs
    from holdfast.worker.supervisor import run_worker

    configure_logs()
    run_worker(config, processes=processes, on_ready=greet)
    typer.echo(f"Worker {config.name} stopped.", err=True)


def greet(serving: "Serving") -> None:
    config, names = serving.config, serving.names
    serves = f"Worker {config.name} serves {', '.join(config.queues)} with {config.slots} slots, at {serving.place}"
    if names:
        more = f" and {len(names) - names_listed} more" if len(names) > names_listed else ""
        typer.echo(f"{serves}: {', '.join(sorted(names)[:names_listed])}{more}. Stop: Ctrl-C.", err=True)
    else:
        typer.echo(f"{serves}, but {config.app} has no tasks: is a module not imported? Stop: Ctrl-C.", err=True)


@asks_store
async def workers(store: "Store") -> Answer:
    """List the workers and what they hold."""
    found, leases, now = await store.workers(), await store.current_leases(), await store.now()
    held = defaultdict(list)
    for lease in leases:
        held[lease["worker_id"]].append(lease)
    yield [vars(one) | {"held": held[one.id]} for one in found]
    rows = [row_of(one, held[one.id], now) for one in found]
    none = ("No workers. Start one: ", ("holdfast worker --app MODULE:NAME", "bold"))
    heads = ("id", "label", "queues", "slots", "holds", "seen", "")
    print_table(heads, rows, elastic=("id", "label", "queues", "holds"), none=none)


def row_of(one: "Worker", held: list[dict[str, Any]], now: datetime) -> tuple[Cell, ...]:
    names = [lease["name"] for lease in held]
    holds = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
    seen = format_age(one.seen_at, now)
    live = ("live", "green") if one.live else ("gone", "red")
    queues = ", ".join(one.queues)
    return (one.id, "bold"), one.label, queues, f"{len(held)}/{one.slots}", holds, seen, live
