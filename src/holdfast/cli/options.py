"""What several commands share: options, groups that list by default, questions before a change."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from functools import wraps
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from holdfast.cli.access import INTERRUPTED

REFUSED, PARTLY = 4, 6
"""Exit codes: the lifecycle refused it; of many some were refused."""

T = TypeVar("T")


def duration(text: str) -> timedelta:
    """A duration as people write it. A usage error says how."""
    from holdfast.durations import parse_duration
    from holdfast.errors import RequestInvalid

    try:
        return parse_duration(text)
    except RequestInvalid as error:
        raise typer.BadParameter(f"{error.detail} {error.fix}") from None


Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Owner = Annotated[bool, typer.Option("--owner", help="As the owner of the schema, not as the application.")]
Timeout = Annotated[
    timedelta | None, typer.Option(parser=duration, metavar="30s", help="Wait no longer; the exit code is then 124.")
]
Reason = Annotated[str | None, typer.Option(help="Why; it stays in the history.")]
Key = Annotated[str | None, typer.Option(help="The same key gives the same one again.")]
Param = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="A parameter, as JSON or as text; again for more.")
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="So many at most.")]
Page = Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="So many at most.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report what would happen.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before more than one.")]
FromStep = Annotated[str | None, typer.Option(metavar="STEP", help="Do this step and what follows again.")]
NewPayload = Annotated[str | None, typer.Option(metavar="JSON", help="Another payload; - reads stdin, @FILE a file.")]


def group(
    app: typer.Typer, *, by_default: Callable[..., None] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command `ls` of this group. Without a command the group does the same, or what is named here."""

    def register(list_all: Callable[..., None]) -> Callable[..., None]:
        def callback(context: typer.Context, as_json: Json = False) -> None:
            if not context.invoked_subcommand:
                (by_default or list_all)(as_json=as_json)

        app.callback(invoke_without_command=True)(callback)
        return app.command("ls")(list_all)

    return register


def with_options_of(options: type[T]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each field of a dataclass, in the place of its one parameter of that type."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        taken = next(name for name, hint in hints.items() if hint is options)
        declared = get_type_hints(options, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command).parameters.values():
            if parameter.name == taken:
                parameters += [
                    inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default,
                                      annotation=declared[one.name])
                    for one in fields(options)  # type: ignore[arg-type]
                ]  # fmt: skip
            else:
                kind = inspect.Parameter.KEYWORD_ONLY
                parameters.append(parameter.replace(kind=kind, annotation=hints[parameter.name]))

        @wraps(command)
        def run(**given: Any) -> None:
            chosen = options(**{one.name: given.pop(one.name, one.default) for one in fields(options)})  # type: ignore[arg-type]
            command(**given, **{taken: chosen})

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        del run.__wrapped__
        return run

    return decorate


def confirm(question: str) -> None:
    """Go on if the answer is yes; without an answer, say how to go on without a question."""
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        raise typer.BadParameter(f"{question} There is no answer. --yes does it without a question.") from None
    if not agreed:
        raise typer.Exit(INTERRUPTED)
