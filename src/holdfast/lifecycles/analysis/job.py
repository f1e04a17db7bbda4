"""What an agent is, and what it gets to work on.

An agent is a plain function of a `Job`. It reads the job's files, and whatever it writes into the job's folder is its
output. It knows nothing of tasks, stores or leases: it runs as a step, so that after a crash it is run again from its
start, and what it had written is gone with the attempt.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from holdfast.errors import SchemaInvalid

parameters_most_bytes = 1024 * 1024


class Options(BaseModel):
    """What parameters.json may say to one agent. Subclasses have the fields; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


O = TypeVar("O", bound=Options)  # noqa: E741


@dataclass(frozen=True)
class InputFile:
    """A file that was uploaded: where it is on this machine, and what the client called it."""

    path: Path
    filename: str


@dataclass(frozen=True)
class Job:
    """What one agent works on. Its folder is empty when it begins; what is there when it returns is its output."""

    primary: InputFile
    folder: Path
    baseline: InputFile | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def options(self, kind: type[O], section: str) -> O:
        """A section of parameters.json, such as the one named after the agent. Raises SchemaInvalid."""
        return read_section(self.parameters, kind, section)


@dataclass(frozen=True)
class Agent:
    """A function of a job, with the name under which it is asked for and what it costs when it has completed.

    `options` is what its section of parameters.json may say, or a function that gives that: wrong ones are then refused
    before any agent is paid for.
    """

    name: str
    run: Callable[[Job], None]
    title: str = ""
    credits: int = 1
    needs_baseline: bool = False
    options: type[Options] | Callable[[], type[Options]] | None = None


def wrong_format(message: str) -> SchemaInvalid:
    """The failure of a file that is not what it says it is. Trying again would not help."""
    return SchemaInvalid(message, code="FILE_FORMAT_ERROR")


def cannot_read(message: str) -> SchemaInvalid:
    """The failure of a file that cannot be read to its end."""
    return SchemaInvalid(message, code="FILE_READ_ERROR")


def read_section(parameters: Mapping[str, Any], kind: type[O], section: str) -> O:
    """What a section says. Raises SchemaInvalid."""
    given = parameters.get(section, {})
    if not isinstance(given, dict):
        raise wrong_format(f"parameters.json: {section} holds no object.")
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in (section, *first["loc"]))
        raise wrong_format(f"parameters.json: {place}: {first['msg']}.") from None


def check_parameters(parameters: Mapping[str, Any], agents: Sequence[Agent], known: Sequence[str]) -> None:
    """Raise SchemaInvalid for a section that nobody reads, or that one of these agents cannot understand."""
    for section in parameters:
        if section not in known:
            raise wrong_format(f"parameters.json: there is no section {section!r}. There are: {', '.join(known)}.")
    for agent in agents:
        if agent.options:
            kind = agent.options if isinstance(agent.options, type) else agent.options()
            read_section(parameters, kind, agent.name)


def read_parameters(path: Path) -> Mapping[str, Any]:
    """parameters.json: an object with a section for each agent it tells something. Raises SchemaInvalid."""
    if path.stat().st_size > parameters_most_bytes:
        raise wrong_format(f"parameters.json has more than {parameters_most_bytes} bytes.")
    try:
        given = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise wrong_format(f"parameters.json is no JSON: {error}.") from None
    if not isinstance(given, dict):
        raise wrong_format('parameters.json holds no object, such as {"reading": {"delimiter": ";"}}.')
    return given
