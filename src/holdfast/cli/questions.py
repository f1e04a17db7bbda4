"""`holdfast questions` and `holdfast answer`: what tasks ask people, and what a person says."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import printing
from holdfast.cli.asking import ask, caller
from holdfast.cli.ids import Id, find
from holdfast.cli.options import Json
from holdfast.cli.tasks import read_json
from holdfast.errors import RequestInvalid

if TYPE_CHECKING:
    from holdfast.approvals import Answered, Question
    from holdfast.engine.store.commands import Store

app = typer.Typer(invoke_without_command=True)


@app.callback()
def questions(context: typer.Context, as_json: Json = False) -> None:
    """List what tasks ask people."""
    if not context.invoked_subcommand:
        list_all(as_json=as_json)


@app.command("ls")
def list_all(
    owner: Annotated[str | None, typer.Option(help="Only of tasks of this owner.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="So many at most.")] = 50,
    as_json: Json = False,
) -> None:
    """List the questions that wait for an answer, the oldest first."""

    async def question(store: "Store") -> "tuple[list[Question], datetime]":
        from holdfast.approvals import Questions

        return await Questions.over(store).open(owner, limit=limit), await store.now()

    found, now = ask(question)
    if as_json:
        printing.answer([vars(one) for one in found])
    elif found:
        rows = [
            (str(one.task_id), one.name, one.step, (one.question, "bold"), printing.age(one.asked_at, now),
             printing.lasting(one.until - now))
            for one in found
        ]  # fmt: skip
        heads = ("task", "name", "step", "question", "asked", "still")
        printing.table(heads, rows, elastic=("question", "name"))
    else:
        printing.say("No question waits for an answer.", err=True)


def answer(
    task: Id,
    step: Annotated[str | None, typer.Option(help="Which question, if the task asks several.")] = None,
    approve: Annotated[bool, typer.Option("--approve", help="Yes.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="No.")] = False,
    note: Annotated[str | None, typer.Option(help="A note that goes with it.")] = None,
    json_value: Annotated[
        str | None, typer.Option(metavar="JSON", help="Any other answer; - reads stdin, @FILE a file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Answer what a task asks: --approve, --deny or --json-value. The task goes on at once."""
    if approve + deny + (json_value is not None) != 1 or (note and json_value is not None):
        raise RequestInvalid(
            "Answer in one way.", fix="Give --approve or --deny, perhaps with a --note; or --json-value."
        )
    value: Any = {"approved": approve, "note": note} if json_value is None else read_json(json_value)

    async def question(store: "Store") -> "Answered":
        from holdfast.approvals import Questions

        return await Questions.over(store).answer(await find(store, task), value, step=step, by=caller())

    told = ask(question)
    if as_json:
        printing.answer(vars(told))
    else:
        before = " before; nothing changed" if told.repeated else ""
        printing.say((told.step, "bold"), f" is answered{before}.")
