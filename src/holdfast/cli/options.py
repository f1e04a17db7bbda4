"""Options that several commands take."""

from datetime import timedelta
from typing import Annotated

import typer


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
