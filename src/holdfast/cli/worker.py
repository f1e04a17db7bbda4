"""`holdfast worker`: run tasks until told to stop. The first Ctrl-C lets them end, a second gives them back at once."""

import typer

from holdfast.kernel.logs import configure_logs
from holdfast.worker.keeper import keep
from holdfast.worker.plan import Plan


def run(plan: Plan, processes: int) -> None:
    """Raises AppInvalid, or what stands in the way of starting."""
    configure_logs()
    keep(plan, processes=processes, on_ready=greet)
    typer.echo(f"Worker {plan.name} stopped.", err=True)


def greet(plan: Plan, names: list[str]) -> None:
    serves = f"Worker {plan.name} serves {', '.join(plan.queues)} with {plan.slots} slots"
    if names:
        shown = ", ".join(sorted(names)[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        typer.echo(f"{serves}: {shown}. Stop: Ctrl-C.", err=True)
    else:
        typer.echo(f"{serves}, but {plan.app} has no tasks: is a module not imported? Stop: Ctrl-C.", err=True)
