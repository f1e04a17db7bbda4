"""User tasks in the database: the functions of analysis.sql and wallet.sql, one short method for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter

from holdfast.engine.lease_rpc import lease_rpc
from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls


@dataclass(frozen=True)
class Made:
    """A task that was just made, or was made before with the same key."""

    task_id: UUID
    created: bool
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True)
class Promise:
    """A file that a client is about to upload."""

    role: str
    filename: str
    content_type: str
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class File(Promise):
    """A promised file: where it is uploaded to, whether it is there already, and the copy that workers read."""

    upload_key: str
    uploaded: bool = False
    input_key: str | None = None


@dataclass(frozen=True)
class Output:
    """A file that an agent wrote."""

    name: str
    key: str
    bytes: int
    content_type: str


@dataclass(frozen=True)
class Step:
    """A step that is done; an agent's result is what it wrote."""

    name: str
    at: datetime
    result: Any


@dataclass(frozen=True)
class Transition:
    """One change of the task's state."""

    from_state: str
    to_state: str
    at: datetime


@dataclass(frozen=True)
class Analysis:
    """A user task, as the database knows it at the moment `now`."""

    task_id: UUID
    owner: str
    state: str
    note: Mapping[str, Any] | None
    deadline: datetime | None
    created_at: datetime
    cancel_requested: bool
    now: datetime
    tool_id: str
    agents: list[str]
    prices: Mapping[str, int]
    reserved: int
    charged: int
    folder: str
    current_step: str | None
    transitions: list[Transition]
    linked_at: datetime | None
    steps: list[Step]
    files: list[File]
    outputs_kept_until: datetime | None
    cleaned: bool

    @property
    def missing(self) -> list[str]:
        """The roles of the files that were found missing or wrong."""
        return (self.note or {}).get("missing", []) if self.state == "UPLOAD_FAILED" else []

    @property
    def completed_agents(self) -> list[str]:
        return [step.name for step in self.steps if step.name in self.agents]

    @property
    def outputs(self) -> list[Output]:
        """What the completed agents wrote."""
        return [Output(**one) for step in self.steps if step.name in self.agents for one in step.result]

    @property
    def current_agent(self) -> str | None:
        """The agent that runs, as its worker last reported; before that, the next one."""
        if self.state != "PROCESSING":
            return None
        waiting = [agent for agent in self.agents if agent not in self.completed_agents]
        return self.current_step if self.current_step in waiting else next(iter(waiting), None)


ANALYSIS = TypeAdapter(Analysis)


class Analyses(Calls):
    """User tasks and what is paid for them."""

    async def define_tool(self, tool: Mapping[str, Any], *, unless_known: bool = False) -> None:
        """Define a tool and its agents, as `Tool.published` gives them. Raises RequestInvalid."""
        await self._call("define_tool", tool["id"], tool["title"], encode.dump(tool["agents"]), unless_known)

    async def tools(self) -> list[dict[str, Any]]:
        """The tools: id, title, agents with their prices, and whether a worker that runs it is there."""
        rows = await self._table("tools")
        return [{**row, "agents": encode.load(row["agents"])} for row in rows]

    async def make(
        self, tool: str, agents: Sequence[str], *, owner: str, key: str | None = None, trace: str | None = None
    ) -> Made:
        """A task of this tool. Raises RequestInvalid for an unknown tool or agent, or KeyConflict."""
        given = (encode.text(tool), [encode.text(agent) for agent in agents], owner, encode.text(key), trace)
        return await self._record(Made, "make_analysis", *given, repeatable=key is not None)

    @lease_rpc
    async def read(self, task_id: UUID, owner: str | None = None) -> Analysis:
        """A task with its files and steps. Raises TaskNotFound, also if it is not `owner`'s."""
        return ANALYSIS.validate_json(await self._call("read_analysis", task_id, owner))

    async def check_credits_for(self, task_id: UUID) -> int:
        """What the task costs. Raises CreditsInsufficient or WalletNotFound if that could not be paid now."""
        return int(await self._call("check_credits_for", task_id))

    async def open_wallet(self, owner: str, amount: int, by: str) -> None:
        """A wallet with so many credits, unless there is one."""
        await self._call("open_wallet", owner, amount, by)

    async def top_up(self, owner: str, amount: int, by: str, key: str | None = None) -> bool:
        """Add credits, once for each key. Answers whether this call did. Raises RequestInvalid or KeyConflict."""
        given = (encode.text(owner), amount, by, encode.text(key))
        return bool(await self._call("top_up", *given, repeatable=key is not None))

    async def read_wallet(self, owner: str, before: int | None = None, limit: int = 50) -> dict[str, Any]:
        """A wallet with its newest transfers. Raises WalletNotFound."""
        (wallet,) = await self._documents("read_wallet", encode.text(owner), before, limit)
        return dict(wallet)
