"""Money: what models have cost, and what they cost from when on.

Amounts are decimals from end to end, to the last digit. A sum is made of rows that are never changed: what was recorded
keeps the price of its day.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal
from uuid import UUID

import asyncpg

from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls

Grouping = Literal["model", "day", "lifecycle", "name", "task", "owner", "total"]


@dataclass(frozen=True)
class Cost:
    """What was spent in one group. `unpriced` are the calls whose cost nobody knows; they count 0."""

    group: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost_cents: Decimal
    unpriced: int


@dataclass(frozen=True)
class FamilyCost:
    """What a task has spent itself, and the tasks it gathers, by model."""

    own: Sequence[Cost]
    children: Sequence[Cost]

    @property
    def own_cents(self) -> Decimal:
        return sum((one.cost_cents for one in self.own), Decimal(0))

    @property
    def children_cents(self) -> Decimal:
        return sum((one.cost_cents for one in self.children), Decimal(0))


@dataclass(frozen=True)
class Price:
    """What a model costs from `since` on, in cents for a million tokens. `current` is the one that counts now."""

    model: str
    since: datetime
    in_cents: Decimal
    out_cents: Decimal
    set_by: str
    set_at: datetime
    current: bool


class Costs(Calls):
    """What was spent, and prices."""

    async def totals(
        self,
        by: Grouping = "model",
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        owner: str | None = None,
        lifecycle: str | None = None,
        name: str | None = None,
        task: UUID | str | None = None,
        limit: int = 100,
    ) -> list[Cost]:
        """What was spent, in groups, the one that was used last first; in the last thirty days unless `since` is given.

        Days are those of UTC; `total` is one group, also if nothing was spent. Raises RequestInvalid.
        """
        narrowed = (*map(encode.text, (owner, lifecycle, name)), encode.optional_id(task))
        return [cost(row) for row in await self._table("costs", encode.text(by), since, until, *narrowed, limit)]

    async def of_task(self, task: UUID | str) -> FamilyCost:
        """What a task has cost, by model, the dearest first; and the tasks it gathers, and those that they gather."""
        rows = await self._table("cost_of", encode.task_id(task))
        own, children = ([cost(row) for row in rows if row["part"] == part] for part in ("own", "children"))
        return FamilyCost(own, children)

    async def set_price(
        self,
        model: str,
        in_cents: float | Decimal,
        out_cents: float | Decimal,
        since: datetime | None = None,
        by: str = "",
    ) -> None:
        """Let a million tokens of a model cost so many cents, from now on or from `since`. Raises RequestInvalid.

        What was recorded before keeps its cost, whatever `since` says.
        """
        given = (encode.text(model), encode.number(in_cents), encode.number(out_cents), since, encode.text(by))
        await self._call("set_price", *given)

    async def prices(self, model: str | None = None) -> list[Price]:
        """All prices, or those of a model: by model, the newest first."""
        return await self._records(Price, "prices", encode.text(model))


def cost(row: asyncpg.Record) -> Cost:
    tokens = int(row["tokens_in"]), int(row["tokens_out"])
    return Cost(row["group"], row["calls"], *tokens, row["cost_cents"], row["unpriced"])
