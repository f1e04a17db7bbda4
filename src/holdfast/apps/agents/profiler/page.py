"""The profile as a page: what stands out first, then an overview, then each column, then what goes together."""

from collections.abc import Iterator

from holdfast.apps.agents import report as kit
from holdfast.apps.agents.profiler.findings import NAMES
from holdfast.apps.agents.profiler.shape import (
    Bar,
    ColumnProfile,
    Correlations,
    Histogram,
    Profile,
    Value,
)

cards_most = 200
worth_showing_share = 0.002
heatmap_most = 20
UNCOUNTED = ("decimal", "datetime", "constant", "identifier")
QUANTILES = {"p5": "5 %", "p25": "25 %", "p50": "Median", "p75": "75 %", "p95": "95 %"}


def render(profile: Profile) -> str:
    """The whole page."""
    file = profile.file
    parts = [
        kit.section("What stands out", standing_out(profile), anchor="findings"),
        kit.section("Columns at a glance", overview(profile), anchor="overview"),
        kit.section("Each column", *each_column(profile), anchor="columns"),
    ]
    contents = [("findings", "What stands out"), ("overview", "Columns at a glance"), ("columns", "Each column")]
    if profile.correlations and (profile.correlations.numbers or profile.correlations.categories):
        parts.append(kit.section("What goes together", *together(profile.correlations), anchor="together"))
        contents.append(("together", "What goes together"))
    kind = f"{file.format}, compressed with gzip" if file.compressed else file.format
    return kit.page(
        f"Profile of {file.name}",
        *parts,
        subtitle=f"{kind}, {kit.size(file.bytes)}",
        figures=key_figures(profile),
        contents=contents,
        foot=method(profile),
    )


def key_figures(profile: Profile) -> Iterator[kit.Figure]:
    file = profile.file
    yield kit.Figure("Rows", kit.number(file.rows))
    yield kit.Figure("Columns", kit.number(file.columns))
    yield kit.Figure(
        "Missing values", kit.share(file.missing_share), f"{file.missing_cells:,} of {file.rows * file.columns:,}"
    )
    if file.duplicate_rows is not None:
        yield kit.Figure("Duplicate rows", kit.number(file.duplicate_rows), kit.share(file.duplicate_share))


def standing_out(profile: Profile) -> kit.Html:
    return kit.notices(
        [
            kit.Notice(one.severity, one.message, kit.value(one.column) if one.column else "The file")
            for one in profile.warnings
        ],
        "Nothing stands out: no column is mostly missing, constant, mixed or skewed.",
    )


def overview(profile: Profile) -> kit.Html:
    names = [kit.value(column.name, 40) for column in profile.columns]
    rows = [
        [
            kit.tag("a", name, href=f"#column-{place}") if place < cards_most else name,
            kit.badge(column.type),
            kit.share(column.missing.share),
            about(column) + kit.number(column.distinct.count),
            *extremes(column),
        ]
        for place, (name, column) in enumerate(zip(names, profile.columns, strict=True))
    ]
    head = ["Column", "Type", "Missing", "Distinct", "Least", "Mean", "Greatest"]
    return kit.table(head, rows, numeric=[2, 3, 4, 5, 6])


def about(column: ColumnProfile) -> str:
    return "" if column.distinct.exact else "≈ "


def extremes(column: ColumnProfile) -> list[object]:
    if column.numbers and column.type != "identifier":
        return [kit.number(column.numbers.min), kit.number(column.numbers.mean), kit.number(column.numbers.max)]
    if column.numbers:
        return [str(column.numbers.min), "", str(column.numbers.max)]
    if column.dates:
        return [column.dates.min[:10], "", column.dates.max[:10]]
    return ["", "", ""]


def each_column(profile: Profile) -> Iterator[kit.Html]:
    for place, column in enumerate(profile.columns[:cards_most]):
        yield column_card(column, f"column-{place}")
    if len(profile.columns) > cards_most:
        yield kit.paragraph(f"{len(profile.columns) - cards_most:,} more columns are in profile.json.", quiet=True)


def column_card(column: ColumnProfile, anchor: str) -> kit.Html:
    parts = [kit.facts(column_facts(column))]
    if column.histogram and column.type != "identifier":
        parts.append(draw(column, column.histogram))
    if column.top_values and column.top_values[0].share >= worth_showing_share and column.type not in UNCOUNTED:
        rows = [(display(one.value), float(one.count)) for one in column.top_values]
        total = column.top_values[0].count / column.top_values[0].share
        parts.append(kit.bars(rows, "Commonest values", total=total))
    elif column.examples and (column.type == "identifier" or not column.histogram):
        parts.append(kit.facts([("Examples", kit.join(kit.tag("div", display(one)) for one in column.examples))]))
    return kit.card(kit.value(column.name), kit.columns(*parts), badges=[kit.badge(column.type)], anchor=anchor)


def display(one: Value) -> kit.Html:
    if isinstance(one, bool):
        return kit.value("true" if one else "false")
    return kit.value(one, 60)


def column_facts(column: ColumnProfile) -> Iterator[tuple[object, object]]:
    missing = f"{column.missing.count:,} ({kit.share(column.missing.share)})" if column.missing.count else "none"
    yield "Missing", missing
    yield "Distinct", about(column) + kit.number(column.distinct.count)
    if (numbers := column.numbers) and column.type in ("integer", "decimal", "constant"):
        yield "Mean", kit.number(numbers.mean)
        if numbers.std is not None:
            yield "Standard deviation", kit.number(numbers.std)
        yield "Range", f"{kit.number(numbers.min)} to {kit.number(numbers.max)}"
        if numbers.skew is not None:
            yield "Skewness", kit.number(numbers.skew, 3)
        if numbers.zeros:
            yield "Zeros", kit.number(numbers.zeros)
        if numbers.negatives:
            yield "Negative", kit.number(numbers.negatives)
        if numbers.outliers and numbers.outliers.count:
            yield "Outliers", f"{numbers.outliers.count:,} ({kit.share(numbers.outliers.share)})"
    if dates := column.dates:
        yield "First", dates.min.replace("T", " ")
        yield "Median", dates.median.replace("T", " ")
        yield "Last", dates.max.replace("T", " ")
    if text := column.text:
        yield "Length", f"{text.shortest:,} to {text.longest:,} characters"
        yield "Mean length", kit.number(text.mean_length, 3)


def draw(column: ColumnProfile, found: Histogram) -> kit.Html:
    bins = [kit.Bin(edge(bar.start), edge(last_of(bar)), bar.count) for bar in found.bins]
    outside = [f"{amount:,} {side}" for amount, side in ((found.below, "below"), (found.above, "above")) if amount]
    note = f"Not drawn: {' and '.join(outside)}." if outside else ""
    plot = kit.histogram(bins, f"Histogram of {column.name}", note=note)
    if not column.numbers:
        return plot
    quantiles = [(label, kit.number(column.numbers.quantiles[name])) for name, label in QUANTILES.items()]
    return kit.join([plot, kit.strip(quantiles, f"Quantiles of {column.name}")])


def last_of(bar: Bar) -> Value:
    """The last value that a bar counts, if that can be said: of whole numbers the one before its end."""
    return bar.end - 1 if type(bar.start) is int and type(bar.end) is int else bar.end


def edge(at: Value) -> str:
    return str(at)[:10] if isinstance(at, str) else kit.number(at)


def together(found: Correlations) -> Iterator[kit.Html]:
    if found.strongest:
        rows = [
            [kit.value(pair.first, 40), kit.value(pair.second, 40), NAMES[pair.measure], kit.coefficient(pair.value)]
            for pair in found.strongest
        ]
        yield kit.table(["One", "Other", "Measure", "Strength"], rows, numeric=[3])
    else:
        yield kit.paragraph("No two columns go together noticeably.")
    for heading, label, names, values in (
        ("Numbers, by rank (Spearman)", "Spearman's coefficients", found.numbers, found.spearman),
        ("Categories (Cramér's V)", "Cramér's V", found.categories, found.cramers_v),
    ):
        if len(names) >= 2:
            yield kit.tag("h3", heading)
            yield kit.heatmap(names[:heatmap_most], [row[:heatmap_most] for row in values[:heatmap_most]], label)


def method(profile: Profile) -> kit.Html:
    file = profile.file
    sentences = ["Counts, extremes, means and deviations are exact over all rows."]
    if file.sampled_rows < file.rows:
        sample = f"a sample of {kit.count_noun(file.sampled_rows, 'row')}"
        sentences.append(f"Quantiles, histograms and commonest values are of {sample}; distinct values are estimated.")
    else:
        sentences.append("So are quantiles, histograms and commonest values.")
    if profile.correlations:
        sentences.append(f"Correlations are measured on {kit.count_noun(profile.correlations.rows, 'row')}.")
    sentences.append("Outliers are further than 1.5 times the width of the middle half from it.")
    return kit.details("How this was measured", kit.paragraph(" ".join(sentences)))
