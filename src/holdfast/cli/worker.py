"""`holdfast worker`: run tasks until told to stop. The first Ctrl-C lets them end, a second gives them back at once."""

import typer

from holdfast.engine.logs import configure_logs
from holdfast.worker.config import WorkerConfig
from holdfast.worker.supervisor import Serving, run_worker

names_at_most = 8


def run(config: WorkerConfig, processes: int) -> None:
    """Raises AppInvalid, or what stands in the way of starting."""
    configure_logs()
    run_worker(config, processes=processes, on_ready=greet)
    typer.echo(f"Worker {config.name} stopped.", err=True)


def greet(serving: Serving) -> None:
    config, names = serving.config, serving.names
    serves = f"Worker {config.name} serves {', '.join(config.queues)} with {config.slots} slots, at {serving.place}"
    if names:
        typer.echo(f"{serves}: {list_names(names)}. Stop: Ctrl-C.", err=True)
    else:
        typer.echo(f"{serves}, but {config.app} has no tasks: is a module not imported? Stop: Ctrl-C.", err=True)


def list_names(names: list[str]) -> str:
    more = f" and {len(names) - names_at_most} more" if len(names) > names_at_most else ""
    return ", ".join(sorted(names)[:names_at_most]) + more
