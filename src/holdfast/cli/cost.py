"""`holdfast cost`: what models have cost, in cents, and what they cost for a million tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import typer

from holdfast.cli import printing
from holdfast.cli.asking import ask, caller
from holdfast.cli.ids import shorten
from holdfast.cli.options import Json, duration

if TYPE_CHECKING:
    from holdfast.engine.store.commands import Store
    from holdfast.engine.store.costs import Cost, FamilyCost, Price

app = typer.Typer(invoke_without_command=True)

By = Literal["model", "day", "lifecycle", "name", "task", "owner"]
days_by_default = 30
models_shown = 3


@dataclass(frozen=True)
class Then:
    """A point in time, or how long ago it was."""

    given: datetime | timedelta

    def at(self, now: datetime) -> datetime:
        return now - self.given if isinstance(self.given, timedelta) else self.given


def then(text: str) -> Then:
    """A day, a point in time, or how long ago. A usage error says how to write it."""
    try:
        return Then(day(text))
    except typer.BadParameter:
        return Then(duration(text))


def day(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no day. Write it as 2030-01-31.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def amount(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise typer.BadParameter(f"{text!r} is no number.") from None


THEN: dict[str, Any] = {"parser": then, "metavar": "7d|DATE"}
CENTS: dict[str, Any] = {"parser": amount, "metavar": "CENTS"}


@dataclass(frozen=True)
class Spent:
    """The groups, what they add up to, the models without a price, and what ids are called."""

    groups: "list[Cost]"
    total: "Cost"
    unpriced: list[str]
    short: dict[str, str]
    since: datetime


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

    async def question(store: "Store") -> Spent:
        now = await store.now()
        start = (since or Then(timedelta(days=days_by_default))).at(now)
        end = until.at(now) if until else None
        filters: dict[str, Any] = {"since": start, "until": end, "lifecycle": lifecycle, "name": name}
        groups = await store.costs.totals(by, limit=limit, **filters)
        (total,) = await store.costs.totals("total", **filters)
        models = await store.costs.totals("model", **filters) if total.unpriced else []
        ids = await shorten(store, [UUID(one.group) for one in groups] if by == "task" and not as_json else [])
        short = {str(task): written for task, written in ids.items()}
        return Spent(groups, total, [one.group for one in models if one.unpriced], short, start)

    spent = ask(question)
    if as_json:
        items = [{by: one.group, **sums(one)} for one in spent.groups]
        printing.answer({"by": by, "since": spent.since, "items": items, "total": sums(spent.total)})
    elif spent.groups:
        say_groups(spent, by)
    else:
        printing.say(f"Nothing was spent since {printing.shown(spent.since)}. A step tells what it spends: ", err=True)
        printing.say(('  usage("some-model", tokens_in=1200, tokens_out=80)', "bold"), err=True)


@app.command()
def prices(as_json: Json = False) -> None:
    """List the prices: cents for a million tokens, from when on."""
    found = ask(lambda store: store.costs.prices())
    if as_json:
        printing.answer([price_json(one) for one in found])
    elif found:
        heads = ("model", "since", "in", "out", "set by", "")
        rows = [[one.model, f"{one.since:%Y-%m-%d %H:%M}", cents(one.in_cents), cents(one.out_cents), one.set_by,
                 "counts now" if one.current else ""] for one in found]  # fmt: skip
        say_aligned(heads, rows, right=(2, 3), elastic=("model", "set by"))
    else:
        printing.say("No prices yet. Set one: ", ("holdfast cost set-price MODEL --in 15 --out 60", "bold"), err=True)


@app.command("set-price")
def set_price(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Its name, as steps report it.")],
    in_cents: Annotated[Decimal, typer.Option("--in", **CENTS, help="Cents for a million tokens in.")],
    out_cents: Annotated[Decimal, typer.Option("--out", **CENTS, help="Cents for a million tokens out.")],
    since: Annotated[
        datetime | None, typer.Option(parser=day, metavar="DATE", help="From when on, if not now.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Set what a model costs from now on, or from a day on. What was recorded keeps its cost."""

    async def question(store: "Store") -> "Price":
        await store.costs.set_price(model, in_cents, out_cents, since, by=caller())
        found = await store.costs.prices(model)
        return next(one for one in found if (one.current if since is None else one.since == since))

    made = ask(question, makes=True)
    if as_json:
        printing.answer(price_json(made))
    else:
        costs = f" costs {cents(made.in_cents)} cents in and {cents(made.out_cents)} cents out for a million tokens"
        printing.say((made.model, "bold"), f"{costs}, from {made.since:%Y-%m-%d %H:%M} UTC on.")


def say_groups(spent: Spent, by: By) -> None:
    """The dearest first, unless time orders them; then what all of them add up to."""
    shown = spent.groups if by in ("day", "task") else sorted(spent.groups, key=lambda one: -one.cost_cents)
    rows = [[spent.short.get(one.group, one.group), *figures(one)] for one in shown]
    rows.append(["total", *figures(spent.total)])
    say_aligned((by, "calls", "tokens in", "tokens out", "cents"), rows, right=(1, 2, 3, 4), elastic=(by,))
    left = spent.total.calls - sum(one.calls for one in spent.groups)
    if left:
        printing.say((f"{left} calls are in groups that are not shown: --limit shows more.", "dim"), err=True)
    if spent.unpriced:
        names = ", ".join([*spent.unpriced[:models_shown], *(["..."] if len(spent.unpriced) > models_shown else [])])
        printing.say(
            (f"What {spent.total.unpriced} calls cost is not known ({names}). From now on: ", "yellow"),
            (f"holdfast cost set-price {spent.unpriced[0]} --in CENTS --out CENTS", "bold"), err=True,
        )  # fmt: skip


def figures(one: "Cost") -> list[str]:
    return [f"{one.calls:,}", f"{one.tokens_in:,}", f"{one.tokens_out:,}", cents(one.cost_cents)]


def cents(exact: Decimal) -> str:
    """An amount for people: to the hundredth of a cent; where it is less than a cent, to its third digit."""
    whole, _, rest = f"{exact:,.{2 if exact >= 1 or exact == 0 else 2 - exact.adjusted()}f}".partition(".")
    return f"{whole}.{rest.rstrip('0'):0<2}"


def family(cost: "FamilyCost") -> list[tuple[str, str]]:
    """What a task has cost, and its children, each in a line; nothing where nothing was spent."""
    parts = (("cost", cost.own, cost.own_cents), ("cost of children", cost.children, cost.children_cents))
    return [(name, " ".join(in_words(models, total))) for name, models, total in parts if models]


def in_words(models: "Sequence[Cost]", total: Decimal) -> Iterator[str]:
    yield f"{cents(total)} cents"
    listed = [f"{one.group} {cents(one.cost_cents)}" for one in models[:models_shown]]
    yield f"({', '.join([*listed, '...'] if len(models) > models_shown else listed)})"
    if unknown := sum(one.unpriced for one in models):
        yield f"and {unknown} calls whose cost is not known"


def family_json(cost: "FamilyCost") -> dict[str, Any]:
    own, children = ([{"model": one.group, **sums(one)} for one in part] for part in (cost.own, cost.children))
    totals = {"own_cents": float(cost.own_cents), "children_cents": float(cost.children_cents)}
    return {**totals, "own": own, "children": children}


def sums(one: "Cost") -> dict[str, Any]:
    return {
        **{name: value for name, value in vars(one).items() if name != "group"},
        "cost_cents": float(one.cost_cents),
    }


def price_json(one: "Price") -> dict[str, Any]:
    return {**vars(one), "in_cents": float(one.in_cents), "out_cents": float(one.out_cents)}


def say_aligned(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int], elastic: Sequence[str]
) -> None:
    """A table whose numbers stand one below the other."""
    width = {place: max(len(row[place]) for row in [heads, *rows]) for place in right}
    lines = [[cell.rjust(width.get(place, 0)) for place, cell in enumerate(row)] for row in [heads, *rows]]
    printing.table(lines[0], lines[1:], elastic=elastic)
