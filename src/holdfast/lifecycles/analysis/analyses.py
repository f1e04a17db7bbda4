"""The functions of analysis.sql and wallet.sql, as Python: one short method for each, of the same name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

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


class Analyses(Calls):
    """User tasks and what is paid for them."""

    async def define_tool(self, tool: Mapping[str, Any], *, unless_known: bool = False) -> None:
        """Say what a tool is and which agents it has, as `Tool.published` does. Raises RequestInvalid."""
        given = (tool["id"], tool["title"], encode.dump(tool["agents"]), unless_known)
        await self._value("select holdfast.define_tool($1, $2, $3, $4)", *given)

    async def tools(self) -> list[dict[str, Any]]:
        """What can be asked for: id, title, agents with their prices, and whether a worker is there that runs it."""
        rows = await self._rows("select * from holdfast.tools()")
        return [{**row, "agents": encode.load(row["agents"])} for row in rows]

    async def make(
        self, tool: str, agents: Sequence[str], *, owner: str, key: str | None = None, trace: str | None = None
    ) -> Made:
        """A task of this tool. Raises RequestInvalid for a tool or an agent that is not there, or KeyConflict."""
        given = (encode.text(tool), [encode.text(agent) for agent in agents], owner, encode.text(key), trace)
        rows = await self._rows(
            "select * from holdfast.make_analysis($1, $2, $3, $4, $5)", *given, repeatable=key is not None
        )
        return encode.known(Made, rows[0])

    @lease_rpc
    async def read(self, task_id: UUID, owner: str | None = None) -> dict[str, Any]:
        """All there is to tell of a task. Raises TaskNotFound, also if it is not `owner`'s."""
        found: dict[str, Any] = encode.load(await self._value("select holdfast.read_analysis($1, $2)", task_id, owner))
        return found

    async def check_credits_for(self, task_id: UUID) -> int:
        """What the task costs. Raises CreditsInsufficient or WalletNotFound if that could not be paid now."""
        return int(await self._value("select holdfast.check_credits_for($1)", task_id))

    async def open_wallet(self, owner: str, amount: int, by: str) -> None:
        """A wallet with so many credits, unless it is there."""
        await self._value("select holdfast.open_wallet($1, $2, $3)", owner, amount, by)

    async def top_up(self, owner: str, amount: int, by: str, key: str | None = None) -> bool:
        """Add credits, once for each key. Answers whether this call did. Raises RequestInvalid or KeyConflict."""
        given = (encode.text(owner), amount, by, encode.text(key))
        query = "select holdfast.top_up($1, $2, $3, $4)"
        return bool(await self._value(query, *given, repeatable=key is not None))

    async def read_wallet(self, owner: str, before: int | None = None, limit: int = 50) -> dict[str, Any]:
        """A wallet with its newest transfers. Raises WalletNotFound."""
        answer = await self._value("select holdfast.read_wallet($1, $2, $3)", encode.text(owner), before, limit)
        found: dict[str, Any] = encode.load(answer)
        return found
