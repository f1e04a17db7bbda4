"""`holdfast worker`: run tasks until told to stop. The first Ctrl-C lets them end, a second gives them back at once."""

import typer

from holdfast.engine.logs import configure_logs
from holdfast.worker.config import Plan
from holdfast.worker.supervisor import Serving, keep

names_shown = 8


def run(plan: Plan, processes: int) -> None:
    """Raises AppInvalid, or what stands in the way of starting."""
    configure_logs()
    keep(plan, processes=processes, on_ready=greet)
    typer.echo(f"Worker {plan.name} stopped.", err=True)


def greet(serving: Serving) -> None:
    plan, names = serving.plan, serving.names
    serves = f"Worker {plan.name} serves {', '.join(plan.queues)} with {plan.slots} slots, at {serving.place}"
    if names:
        typer.echo(f"{serves}: {shown(names)}. Stop: Ctrl-C.", err=True)
    else:
        typer.echo(f"{serves}, but {plan.app} has no tasks: is a module not imported? Stop: Ctrl-C.", err=True)


def shown(names: list[str]) -> str:
    more = f" and {len(names) - names_shown} more" if len(names) > names_shown else ""
    return ", ".join(sorted(names)[:names_shown]) + more
