"""`holdfast cost`: what models have cost, in cents, and what they cost for a million tokens."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import typer

from holdfast.cli.access import Store, current_user, with_store
from holdfast.cli.ids import shorten
from holdfast.cli.options import Answer, Json, asks_store, duration, makes_store
from holdfast.cli.printing import format_amount, format_cents, format_time, print_json, print_line, print_table

if TYPE_CHECKING:
    from holdfast.engine.store.costs import Cost, FamilyCost

app = typer.Typer(invoke_without_command=True)

By = Literal["model", "day", "lifecycle", "name", "task", "owner"]
days_by_default = 30
models_listed = 3


Then = Callable[[datetime], datetime]
"""A point in time; if that is so long ago, it goes by what is now."""


def read_then(text: str) -> Then:
    """A day, a point in time, or how long ago. A usage error says how to write it."""
    try:
        day = read_day(text)
    except typer.BadParameter:
        ago = duration(text)
        return lambda now: now - ago
    return lambda now: day


def read_day(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a day. Write it as 2030-01-31.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def read_amount(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise typer.BadParameter(f"{text!r} is not a number.") from None


THEN: dict[str, Any] = {"parser": read_then, "metavar": "7d|DATE"}
CENTS: dict[str, Any] = {"parser": read_amount, "metavar": "CENTS"}


@app.callback()
def cost(
    context: typer.Context,
    by: Annotated[By, typer.Option(help="What to sum by. Days are those of UTC.")] = "model",
    since: Annotated[Then | None, typer.Option(**THEN, help="From then on. Without it: the last 30 days.")] = None,
    until: Annotated[Then | None, typer.Option(**THEN, help="Until right before then.")] = None,
    lifecycle: Annotated[str | None, typer.Option(help="Only of this lifecycle.")] = None,
    name: Annotated[str | None, typer.Option(help="Only of tasks of this name.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="So many lines at most.")] = 100,
    as_json: Json = False,
) -> None:
    """Show what models have cost, or their prices."""
    if context.invoked_subcommand:
        return

    async def show(store: Store) -> None:
        now = await store.now()
        start = since(now) if since else now - timedelta(days=days_by_default)
        end = until(now) if until else None
        filters: dict[str, Any] = {"since": start, "until": end, "lifecycle": lifecycle, "name": name}
        groups = await store.costs.totals(by, limit=limit, **filters)
        (total,) = await store.costs.totals("total", **filters)
        if as_json:
            items = [{by: one.group, **sums_of(one)} for one in groups]
            print_json({"by": by, "since": start, "items": items, "total": sums_of(total)})
        elif groups:
            ids = await shorten(store.neighbours(UUID(one.group) for one in groups if by == "task"))
            print_groups(groups, total, by, {str(task): short for task, short in ids.items()})
            models = await store.costs.totals("model", **filters) if total.unpriced else []
            if unpriced := [one.group for one in models if one.unpriced]:
                print_unpriced(total, unpriced)
        else:
            print_line(f"Nothing was spent since {format_time(start)}. A step reports what it spends: ", err=True)
            print_line(('  usage("some-model", tokens_in=1200, tokens_out=80)', "bold"), err=True)

    with_store(show)


@app.command()
@asks_store
async def prices(store: Store) -> Answer:
    """List the prices: cents for a million tokens, from when on."""
    found = await store.costs.prices()
    yield found
    none = ("No prices yet. Set one: ", ("holdfast cost set-price MODEL --in 15 --out 60", "bold"))
    heads = ("model", "since", "in", "out", "set by", "")
    rows = [
        [
            one.model, f"{one.since:%Y-%m-%d %H:%M}", format_amount(one.in_cents), format_amount(one.out_cents),
            one.set_by, "counts now" if one.current else "",
        ]
        for one in found
    ]  # fmt: skip
    print_table(heads, rows, right=("in", "out"), elastic=("model", "set by"), none=none)


@app.command("set-price")
@makes_store
async def set_price(
    store: Store,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Its name, as steps report it.")],
    in_cents: Annotated[Decimal, typer.Option("--in", **CENTS, help="Cents for a million tokens in.")],
    out_cents: Annotated[Decimal, typer.Option("--out", **CENTS, help="Cents for a million tokens out.")],
    since: Annotated[
        datetime | None, typer.Option(parser=read_day, metavar="DATE", help="From when on, if not now.")
    ] = None,
) -> Answer:
    """Set what a model costs from now on, or from a day on. What was recorded keeps its cost."""
    await store.costs.set_price(model, in_cents, out_cents, since, by=current_user())
    found = await store.costs.prices(model)
    made = next(one for one in found if (one.current if since is None else one.since == since))
    yield made
    costs = f" costs {format_cents(made.in_cents)} in and {format_cents(made.out_cents)} out for a million tokens"
    print_line((made.model, "bold"), f"{costs}, from {made.since:%Y-%m-%d %H:%M} UTC on.")


def print_groups(groups: "list[Cost]", total: "Cost", by: By, short: dict[str, str]) -> None:
    """The dearest first, unless time orders them; then what all of them add up to."""
    listed = groups if by in ("day", "task") else sorted(groups, key=lambda one: -one.cost_cents)
    rows = [[short.get(one.group, one.group), *figures_of(one)] for one in listed]
    rows.append(["total", *figures_of(total)])
    figures = ("calls", "tokens in", "tokens out", "cents")
    print_table((by, *figures), rows, right=figures, elastic=(by,))
    left = total.calls - sum(one.calls for one in groups)
    if left:
        print_line((f"{left} calls are in groups that are not shown: --limit shows more.", "dim"), err=True)


def print_unpriced(total: "Cost", models: list[str]) -> None:
    """The models without a price, and how to set one."""
    names = ", ".join([*models[:models_listed], *(["..."] if len(models) > models_listed else [])])
    print_line(
        (f"What {total.unpriced} calls cost is not known ({names}). From now on: ", "yellow"),
        (f"holdfast cost set-price {models[0]} --in CENTS --out CENTS", "bold"), err=True,
    )  # fmt: skip


def figures_of(one: "Cost") -> list[str]:
    return [f"{one.calls:,}", f"{one.tokens_in:,}", f"{one.tokens_out:,}", format_amount(one.cost_cents)]


def describe_family(cost: "FamilyCost") -> list[tuple[str, str]]:
    """What a task has cost, and its children, each in a line; nothing where nothing was spent."""
    parts = (("cost", cost.own, cost.own_cents), ("cost of children", cost.children, cost.children_cents))
    return [(name, " ".join(describe_models(models, total))) for name, models, total in parts if models]


def describe_models(models: "Sequence[Cost]", total: Decimal) -> Iterator[str]:
    yield format_cents(total)
    listed = [f"{one.group} {format_amount(one.cost_cents)}" for one in models[:models_listed]]
    yield f"({', '.join([*listed, '...'] if len(models) > models_listed else listed)})"
    if unknown := sum(one.unpriced for one in models):
        yield f"and {unknown} calls whose cost is not known"


def family_as_object(cost: "FamilyCost") -> dict[str, Any]:
    own, children = ([{"model": one.group, **sums_of(one)} for one in part] for part in (cost.own, cost.children))
    totals = {"own_cents": float(cost.own_cents), "children_cents": float(cost.children_cents)}
    return {**totals, "own": own, "children": children}


def sums_of(one: "Cost") -> dict[str, Any]:
    return {name: value for name, value in vars(one).items() if name != "group"}
