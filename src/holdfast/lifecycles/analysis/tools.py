"""Tools: what users ask for by name. A tool is a list of agents, which run one after the other."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import AppInvalid
from holdfast.lifecycles.analysis.job import Agent

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
price_most = 1_000_000


@dataclass(frozen=True)
class Tool:
    """A tool, with the agents it offers. Raises AppInvalid for one that nobody could ask for."""

    id: str
    agents: Sequence[Agent]
    title: str = ""

    def __post_init__(self) -> None:
        names = [agent.name for agent in self.agents]
        wrong = [name for name in (self.id, *names) if not NAME.fullmatch(name)]
        twice = [name for name, times in Counter(names).items() if times > 1]
        priced = [agent.name for agent in self.agents if not is_price(agent.credits)]
        if wrong:
            raise AppInvalid(f"{wrong[0]!r} is no name.", fix="Small letters, digits and dashes: profile-my-data.")
        if not names:
            raise AppInvalid(f"The tool {self.id} has no agents.", fix="Give it at least one.")
        if twice:
            raise AppInvalid(f"The tool {self.id} has two agents called {twice[0]}.", fix="Give one another name.")
        if priced:
            raise AppInvalid(f"{priced[0]} has no price.", fix=f"Give it credits=0 to {price_most}, a whole number.")

    def published(self) -> dict[str, Any]:
        """The tool as the database knows it."""
        agents = [
            {"name": one.name, "title": one.title, "credits": one.credits, "needs_baseline": one.needs_baseline}
            for one in self.agents
        ]
        return {"id": self.id, "title": self.title, "agents": agents}


def is_price(credits: object) -> bool:  # noqa: A002
    return isinstance(credits, int) and not isinstance(credits, bool) and 0 <= credits <= price_most
