"""Options that several commands take."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Owner = Annotated[bool, typer.Option("--owner", help="As the owner of the schema, not as the application.")]
