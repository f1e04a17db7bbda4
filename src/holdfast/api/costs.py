"""What models have cost, and what they cost: sums over everything that steps reported, and the table of prices.

Sums are exact in the database and rounded once, to the number that JSON has for them.
"""

import re
from datetime import datetime
from decimal import Decimal
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from holdfast.engine.store.commands import Store
from holdfast.engine.store.costs import Cost, Grouping, Price
from holdfast.http.access import Operator, UserOrOperator, VisibleTask, make_router, needs, owned_by
from holdfast.http.fields import Body, Moment, Name
from holdfast.http.shapes import Filter, Items


def numeral(value: object) -> object:
    """A number, or a decimal that is written as a string to keep its digits; true is not one."""
    if isinstance(value, bool) or (isinstance(value, str) and not re.fullmatch(DECIMAL, value)):
        raise ValueError("is not a number")
    return value


DECIMAL = r"^[0-9]{1,9}(\.[0-9]{1,10})?$"
most_cents = 100_000_000
Cents = Annotated[
    Decimal,
    BeforeValidator(numeral),
    Field(ge=0, le=most_cents, decimal_places=10, allow_inf_nan=False),
    WithJsonSchema(
        {
            "anyOf": [{"type": "number", "minimum": 0, "maximum": most_cents}, {"type": "string", "pattern": DECIMAL}],
            "description": "Cents for a million tokens",
        }
    ),
]


class Spent(BaseModel):
    """The sum of a group, which is named by what it is grouped by. `unpriced`: calls of unknown cost."""

    model: str | None = None
    day: str | None = None
    lifecycle: str | None = None
    name: str | None = None
    task: UUID | None = None
    owner: str | None = None
    calls: int
    tokens_in: int
    tokens_out: int
    cost_cents: float
    unpriced: int | None = None


class Usages(Items[Spent]):
    since: datetime | None


class TaskCost(BaseModel):
    """What a task has spent itself, and the tasks it gathers, by model."""

    own_cents: float
    children_cents: float
    own: list[Spent]
    children: list[Spent]


class NewPrice(Body):
    """From now on, or from `since` on."""

    in_cents: Cents
    out_cents: Cents
    since: Moment | None = None


class PriceSeen(BaseModel):
    """Cents for a million tokens, from `since` on; `current` is the one that counts now."""

    model: str
    since: datetime
    in_cents: float
    out_cents: float
    set_by: str
    set_at: datetime
    current: bool


def routes(store: Store) -> APIRouter:
    router = make_router("/api/v1", "operations")

    @router.get("/usage", response_model_exclude_unset=True)
    async def usage(
        caller: UserOrOperator,
        by: Grouping = "model",
        since: Moment | None = None,
        until: Moment | None = None,
        lifecycle: Filter = None,
        name: Filter = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Usages:
        """What was spent, by model or otherwise, in the last thirty days or since then; for a user, of their own.

        The group that was used last comes first. Days are those of UTC.
        """
        found = await store.costs.totals(
            by, since, until, owner=owned_by(caller), lifecycle=lifecycle, name=name, limit=limit
        )  # fmt: skip
        return Usages(since=since, items=[render(one, by) for one in found])

    @router.get("/tasks/{task_id}/cost", response_model_exclude_unset=True)
    async def cost(task_id: VisibleTask) -> TaskCost:
        """What it has cost, by model: itself, and the tasks it gathers."""
        found = await store.costs.of_task(task_id)
        return TaskCost(
            own_cents=float(found.own_cents),
            children_cents=float(found.children_cents),
            own=[render(one, "model") for one in found.own],
            children=[render(one, "model") for one in found.children],
        )

    @router.get("/prices", dependencies=[needs("user", "operator")], response_model=Items[PriceSeen])
    async def prices() -> Items[Price]:
        """All prices: by model, the newest first."""
        return Items(items=await store.costs.prices())

    @router.put("/prices/{model:path}", response_model=Items[PriceSeen])
    async def set_price(model: Annotated[Name, Path()], asked: NewPrice, caller: Operator) -> Items[Price]:
        """Let a model cost so much from a moment on. What was recorded keeps its cost. Answers with its prices."""
        await store.costs.set_price(model, asked.in_cents, asked.out_cents, asked.since, by=caller.name)
        return Items(items=await store.costs.prices(model))

    return router


def render(cost: Cost, by: Grouping) -> Spent:
    sums = {name: value for name, value in vars(cost).items() if name != "group" and (name != "unpriced" or value)}
    return Spent.model_validate(sums if by == "total" else {by: cost.group, **sums})
