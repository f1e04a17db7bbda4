"""What several commands share: what they ask, options, groups that list by default, questions before a change."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import partial, wraps
from typing import Annotated, Any, Concatenate, TypeVar, get_type_hints

import typer

from holdfast.cli.access import INTERRUPTED, Server, Store, with_server, with_store
from holdfast.cli.printing import print_answer

REFUSED, PARTLY = 4, 6
"""Exit codes: the lifecycle refused it; of many some were refused."""
KEYWORD = inspect.Parameter.KEYWORD_ONLY

Answer = AsyncIterator[object]
"""What a command yields once: with --json it is printed, and that is all; what follows prints it for people."""

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
Patience = Annotated[
    timedelta | None,
    typer.Option("--timeout", parser=duration, metavar="30s", help="Wait no longer; the exit code is then 124."),
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


@dataclass(frozen=True)
class TaskFilters:
    """Which tasks, by what they have in common."""

    lifecycle: Annotated[str | None, typer.Option(help="Only of this lifecycle.")] = None
    state: Annotated[str | None, typer.Option(help="Only in this state.")] = None
    queue: Annotated[str | None, typer.Option(help="Only of this queue.")] = None
    name: Annotated[str | None, typer.Option(help="Only tasks of this name.")] = None
    tag: Annotated[str | None, typer.Option(help="Only with this tag.")] = None


def asks_store(command: Callable[Concatenate[Store, ...], Awaitable[int | None] | Answer]) -> Callable[..., None]:
    """A command that is given the store. It returns its exit code, or yields its answer."""
    return with_opened(command, with_store)


def makes_store(command: Callable[Concatenate[Store, ...], Awaitable[int | None] | Answer]) -> Callable[..., None]:
    """The same for a command that makes the database where there is none."""
    return with_opened(command, partial(with_store, makes=True))


def asks_server(command: Callable[Concatenate[Server, ...], Awaitable[int | None] | Answer]) -> Callable[..., None]:
    """A command that is given the server. It returns its exit code, or yields its answer."""
    return with_opened(command, with_server)


def with_opened(command: Callable[..., Any], open_and_act: Callable[..., Any]) -> Callable[..., None]:
    """The command without its first parameter, which is opened when it runs; with --json if it yields its answer."""
    signature = inspect.signature(command)
    _, *parameters = signature.parameters.values()
    yields = signature.return_annotation == Answer
    if yields:
        parameters.append(inspect.Parameter("as_json", KEYWORD, default=False, annotation=Json))

    def run(**given: Any) -> None:
        as_json = yields and given.pop("as_json", False)

        async def act(opened: object) -> Any:
            run_on = command(opened, **given)
            return await (print_answer(run_on, as_json=as_json) if yields else run_on)

        if code := open_and_act(act):
            raise typer.Exit(code)

    return with_parameters(command, run, parameters)


def with_parameters(
    command: Callable[..., Any], run: Callable[..., None], parameters: Iterable[inspect.Parameter]
) -> Callable[..., None]:
    """A function that is documented as the command is, and has these parameters, each given by its name."""
    wraps(command)(run)
    named = [one.replace(kind=KEYWORD) for one in parameters]
    run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in named}
    return run


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
        own = [
            inspect.Parameter(one.name, KEYWORD, default=one.default, annotation=declared[one.name])
            for one in fields(options)  # type: ignore[arg-type]
        ]

        def run(**given: Any) -> None:
            chosen = options(**{one.name: given.pop(one.name, one.default) for one in own})
            command(**given, **{taken: chosen})

        parameters = inspect.signature(command).parameters.values()
        every = [new for one in parameters for new in (own if one.name == taken else [one])]
        return with_parameters(command, run, every)

    return decorate


def confirm(question: str) -> None:
    """Go on if the answer is yes; without an answer, say how to go on without a question."""
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        raise typer.BadParameter(f"{question} There is no answer. --yes does it without a question.") from None
    if not agreed:
        raise typer.Exit(INTERRUPTED)
