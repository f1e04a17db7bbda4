"""Agents and tools: what users ask for by name, and what an agent gets to work on.

A tool is a list of agents, which run one after the other. An agent is a plain function of a `Job`: it reads the job's
files, and the files that it writes into the job's folder are its output. It knows nothing of tasks, stores or leases:
it runs as a step, so that after a crash it runs again from its start, and its earlier files are gone with the attempt.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from holdfast.errors import AppInvalid, SchemaInvalid

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
price_most = 1_000_000
parameters_most_bytes = 1024 * 1024


class Options(BaseModel):
    """The options of one agent in parameters.json. Subclasses have the fields; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


O = TypeVar("O", bound=Options)  # noqa: E741


@dataclass(frozen=True)
class InputFile:
    """An uploaded file: where it is on this machine, and its name on the client's."""

    path: Path
    filename: str


@dataclass(frozen=True)
class Job:
    """What one agent works on. Its folder is empty at first; the files in it at the end are the output."""

    primary: InputFile
    folder: Path
    baseline: InputFile | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def options(self, kind: type[O], section: str) -> O:
        """A section of parameters.json, such as the one named after the agent. Raises SchemaInvalid."""
        return read_section(self.parameters, kind, section)


@dataclass(frozen=True)
class Agent:
    """A function of a job, with its name and its price, which is charged when it has completed.

    `options` is the model of its section of parameters.json, or a function that returns it: wrong options are then
    refused before any agent is charged.
    """

    name: str
    run: Callable[[Job], None]
    title: str = ""
    credits: int = 1
    needs_baseline: bool = False
    options: type[Options] | Callable[[], type[Options]] | None = None


@dataclass(frozen=True)
class Tool:
    """A tool and its agents. Raises AppInvalid for names and prices that cannot be used."""

    id: str
    agents: Sequence[Agent]
    title: str = ""

    def __post_init__(self) -> None:
        names = [agent.name for agent in self.agents]
        wrong = [name for name in (self.id, *names) if not NAME.fullmatch(name)]
        twice = [name for name, times in Counter(names).items() if times > 1]
        priced = [agent.name for agent in self.agents if not is_price(agent.credits)]
        if wrong:
            raise AppInvalid(f"{wrong[0]!r} is not a name.", fix="Small letters, digits and dashes: profile-my-data.")
        if not names:
            raise AppInvalid(f"The tool {self.id} has no agents.", fix="Give it at least one.")
        if twice:
            raise AppInvalid(f"The tool {self.id} has two agents called {twice[0]}.", fix="Give one another name.")
        if priced:
            raise AppInvalid(f"{priced[0]} has no price.", fix=f"Give it credits=0 to {price_most}, a whole number.")

    def published(self) -> dict[str, Any]:
        """The tool as the database keeps it."""
        agents = [
            {"name": one.name, "title": one.title, "credits": one.credits, "needs_baseline": one.needs_baseline}
            for one in self.agents
        ]
        return {"id": self.id, "title": self.title, "agents": agents}


def is_price(credits: object) -> bool:  # noqa: A002
    return isinstance(credits, int) and not isinstance(credits, bool) and 0 <= credits <= price_most


def wrong_format(message: str) -> SchemaInvalid:
    """The failure of a file that is not in the format it claims. A retry would not help."""
    return SchemaInvalid(message, code="FILE_FORMAT_ERROR")


def cannot_read(message: str) -> SchemaInvalid:
    """The failure of a file that cannot be read to its end."""
    return SchemaInvalid(message, code="FILE_READ_ERROR")


def read_section(parameters: Mapping[str, Any], kind: type[O], section: str) -> O:
    """A section of parameters.json. Raises SchemaInvalid."""
    given = parameters.get(section, {})
    if not isinstance(given, dict):
        raise wrong_format(f"parameters.json: {section} is not an object.")
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in (section, *first["loc"]))
        raise wrong_format(f"parameters.json: {place}: {first['msg']}.") from None


def check_parameters(parameters: Mapping[str, Any], agents: Sequence[Agent], known: Sequence[str]) -> None:
    """Raise SchemaInvalid for an unknown section, or for wrong options of one of these agents."""
    for section in parameters:
        if section not in known:
            raise wrong_format(f"parameters.json: there is no section {section!r}. There are: {', '.join(known)}.")
    for agent in agents:
        if agent.options:
            kind = agent.options if isinstance(agent.options, type) else agent.options()
            read_section(parameters, kind, agent.name)


def read_parameters(path: Path) -> Mapping[str, Any]:
    """parameters.json: an object with a section for each agent that has options. Raises SchemaInvalid."""
    if path.stat().st_size > parameters_most_bytes:
        raise wrong_format(f"parameters.json has more than {parameters_most_bytes} bytes.")
    try:
        given = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise wrong_format(f"parameters.json is not JSON: {error}.") from None
    if not isinstance(given, dict):
        raise wrong_format('parameters.json is not an object such as {"reading": {"delimiter": ";"}}.')
    return given
