"""`holdfast questions` and `holdfast answer`: what tasks ask people, and the answers."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.access import Store, current_user, with_store
from holdfast.cli.ids import Id, find_task
from holdfast.cli.options import Answer, Json, Limit, asks_store, group
from holdfast.cli.params import read_json
from holdfast.cli.printing import format_age, format_duration, print_json, print_line, print_table
from holdfast.errors import RequestInvalid

if TYPE_CHECKING:
    from holdfast.approvals.store import Answered

app = typer.Typer()


@group(app)
@asks_store
async def list_all(
    store: Store,
    owner: Annotated[str | None, typer.Option(help="Only of tasks of this owner.")] = None,
    limit: Limit = 50,
) -> Answer:
    """List the questions that wait for an answer, the oldest first."""
    from holdfast.approvals.store import Questions

    found, now = await Questions.over(store).open(owner, limit=limit), await store.now()
    yield found
    rows = [
        (str(one.task_id), one.name, one.step, (one.question, "bold"), format_age(one.asked_at, now),
         format_duration(one.until - now))
        for one in found
    ]  # fmt: skip
    heads = ("task", "name", "step", "question", "asked", "still")
    print_table(heads, rows, elastic=("question", "name"), none=["No question waits for an answer."])


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

    async def act(store: Store) -> "Answered":
        from holdfast.approvals.store import Questions

        return await Questions.over(store).answer(await find_task(store, task), value, step=step, by=current_user())

    answered = with_store(act)
    if as_json:
        print_json(answered)
    else:
        before = " before; nothing changed" if answered.repeated else ""
        print_line((answered.step, "bold"), f" is answered{before}.")
