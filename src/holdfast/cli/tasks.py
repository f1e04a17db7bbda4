"""`holdfast start`, `cancel` and `retry`: what a person does to tasks."""

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import printing
from holdfast.cli.asking import ask, caller
from holdfast.cli.ids import Id, find
from holdfast.cli.options import Json, Timeout, duration
from holdfast.cli.watching import ending, exit_code, say_end, say_why, wait_for
from holdfast.errors import PayloadInvalid

if TYPE_CHECKING:
    from uuid import UUID

    from holdfast.engine.store.commands import Store

REFUSED = 4
STUCK = ("no_worker", "unknown_task", "queue_paused")

Payload = Annotated[str, typer.Argument(metavar="JSON", help="Its payload; - reads stdin, @FILE a file.")]


def start(
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task's name, as a worker knows it.")],
    payload: Payload = "{}",
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, print the result.")] = False,
    timeout: Timeout = None,
    queue: Annotated[str | None, typer.Option(help="The queue, if not the task's own.")] = None,
    priority: Annotated[int | None, typer.Option(min=0, max=9, help="9 goes first.")] = None,
    key: Annotated[str | None, typer.Option(help="The same key gives the same task.")] = None,
    delay: Annotated[timedelta | None, typer.Option(parser=duration, metavar="5m", help="Not before that.")] = None,
    after: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only when that task is done.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Something to find it by.")] = None,
    max_attempts: Annotated[int | None, typer.Option(min=1, help="Give up after so many.")] = None,
    lifecycle: Annotated[str, typer.Option(help="The lifecycle it goes through.")] = "dispatch",
    as_json: Json = False,
) -> None:
    """Start a task; --wait for its end.

    Prints the id; with --wait the result, and the exit code says how it ended.
    """
    from holdfast.engine.task import Submission

    value = read_json(payload)

    async def question(store: "Store") -> int:
        known = await store.known_task(task) or {}  # as a live worker of this task would start it
        submission = Submission(
            task, value, lifecycle, queue=queue or known.get("queue"), key=key, delay=delay,
            priority=(known.get("priority") or 0) if priority is None else priority,
            max_attempts=max_attempts or known.get("max_attempts"),
            after=[await find(store, one) for one in after or ()], tags=tag or (),
        )  # fmt: skip
        made = (await store.submit(submission))[0]
        assert made.id is not None  # noqa: S101
        about = {"task_id": made.id, "created": made.created}
        if not wait:
            if as_json:
                printing.answer(about)
            else:
                say_started(str(made.id), "Started " if made.created else "There already: ")
            because = await store.explain(made.id)
            if because.reason in STUCK:
                say_why(because)
            return 0
        now = await wait_for(store, made.id, timeout)
        if as_json:
            printing.answer(about | ending(now))
        elif now["outcome"] in ("done", "partial"):
            printing.answer(now["result"])
        elif now["outcome"]:
            say_end(now, err=True)
        return exit_code(now)

    raise typer.Exit(ask(question))


def cancel(
    task: Id,
    reason: Annotated[str | None, typer.Option(help="Why; it stays in the task's history.")] = None,
    as_json: Json = False,
) -> None:
    """Cancel a task.

    At once if nobody holds it; otherwise its worker is told, and ends it.
    """

    async def question(store: "Store") -> tuple[str, dict[str, Any]]:
        found = await find(store, task)
        return await store.cancel(found, reason, by=caller()), await store.read(found)

    effect, now = ask(question)
    if as_json:
        printing.answer({"task_id": now["id"], "effect": effect, "state": now["state"]})
    elif effect == "cancelled":
        printing.say("Cancelled: it is ", printing.state(now), ".")
    elif effect == "requested":
        printing.say(f"Asked: worker {now['worker_id']} is told by its next heartbeat.")
    else:
        printing.say("Too late: it is ", printing.state(now, err=True), ".", err=True)
    raise typer.Exit(REFUSED if effect == "too_late" else 0)


def retry(
    task: Id,
    from_step: Annotated[
        str | None, typer.Option(metavar="STEP", help="Do this step and what came after again.")
    ] = None,
    payload: Annotated[
        str | None, typer.Option(metavar="JSON", help="Another payload; - reads stdin, @FILE a file.")
    ] = None,
    dependents: Annotated[
        bool, typer.Option("--dependents", help="And the tasks that were cancelled or skipped because of it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a finished task again.

    As a new task, whose id is printed. It keeps the steps that were done, unless the payload is another. Of a run of a
    graph, only what did not complete runs again, in a new run.
    """
    value = None if payload is None else read_json(payload)

    async def question(store: "Store") -> "tuple[UUID, UUID, dict[UUID, UUID]]":
        found = await find(store, task)
        if (await store.read(found))["lifecycle"] == "dag" and from_step is None and value is None:
            from holdfast.lifecycles.dispatch.store import Dags

            return found, await Dags.over(store).retry(found, by=caller()), {}
        if dependents:
            others = await store.retry_dependents(found, from_step, value, by=caller())
            return found, others.pop(found), others
        return found, await store.retry(found, from_step, value, by=caller()), {}

    old, new, others = ask(question)
    if as_json:
        also = {"dependents": {str(one): str(other) for one, other in others.items()}} if dependents else {}
        printing.answer({"task_id": str(new), "retry_of": str(old), **also})
    else:
        say_started(str(new), "Started again as ")
        if others:
            printing.say(f"And {len(others)} that waited for it.", err=True)


def say_started(task_id: str, words: str) -> None:
    """The id; for a person with words around it."""
    if not printing.on_terminal():
        typer.echo(task_id)
        return
    printing.say(words, (task_id, "bold"))
    printing.say((f"Follow it: holdfast watch {task_id}", "dim"))


def read_json(given: str) -> Any:
    """JSON as it is written, from stdin or from a file. Raises PayloadInvalid with the place of the mistake."""
    if given == "-":
        return parse_json("stdin", sys.stdin.read())
    if given.startswith("@"):
        return parse_json(given[1:], read_file(given[1:]))
    return parse_json("The argument", given)


def parse_json(source: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise PayloadInvalid(
            f"{source}, line {error.lineno}, column {error.colno}: {error.msg}.\n{pointed(error)}",
            fix="""For the shell, put it into single quotes: '{"order": 42}'""",
        ) from None
    except RecursionError:
        raise PayloadInvalid(f"{source} is nested too deeply.") from None


def read_file(name: str) -> str:
    try:
        return Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{name}: {error}") from None


def pointed(error: json.JSONDecodeError) -> str:
    """The piece of the line around the mistake, with a mark below it."""
    line = error.doc.split("\n")[error.lineno - 1]
    first = max(0, error.colno - 36)
    piece = line[first : first + 70].replace("\t", " ")
    return f"  {piece}\n  {' ' * (error.colno - 1 - first)}^"
