"""The profile as a page: what stands out first, then an overview, then each column, then what goes together."""

from collections.abc import Iterator

from holdfast.apps.agents.profiler.findings import NAMES
from holdfast.apps.agents.profiler.shape import (
    Bar,
    ColumnProfile,
    Correlations,
    Histogram,
    Profile,
    Value,
)
from holdfast.apps.agents.report import (
    Bin,
    Figure,
    Html,
    Notice,
    badge,
    bars,
    card,
    coefficient,
    columns,
    counted,
    details,
    facts,
    heatmap,
    histogram,
    joined,
    notices,
    number,
    page,
    paragraph,
    section,
    share,
    size,
    strip,
    table,
    tag,
    value,
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
        section("What stands out", standing_out(profile), anchor="findings"),
        section("Columns at a glance", overview(profile), anchor="overview"),
        section("Each column", *each_column(profile), anchor="columns"),
    ]
    contents = [("findings", "What stands out"), ("overview", "Columns at a glance"), ("columns", "Each column")]
    if profile.correlations and (profile.correlations.numbers or profile.correlations.categories):
        parts.append(section("What goes together", *together(profile.correlations), anchor="together"))
        contents.append(("together", "What goes together"))
    kind = f"{file.format}, compressed with gzip" if file.compressed else file.format
    return page(
        f"Profile of {file.name}",
        *parts,
        subtitle=f"{kind}, {size(file.bytes)}",
        figures=key_figures(profile),
        contents=contents,
        foot=method(profile),
    )


def key_figures(profile: Profile) -> Iterator[Figure]:
    file = profile.file
    yield Figure("Rows", number(file.rows))
    yield Figure("Columns", number(file.columns))
    yield Figure("Missing values", share(file.missing_share), f"{file.missing_cells:,} of {file.rows * file.columns:,}")
    if file.duplicate_rows is not None:
        yield Figure("Duplicate rows", number(file.duplicate_rows), share(file.duplicate_share))


def standing_out(profile: Profile) -> Html:
    return notices(
        [
            Notice(one.severity, one.message, value(one.column) if one.column else "The file")
            for one in profile.warnings
        ],
        "Nothing stands out: no column is mostly missing, constant, mixed or skewed.",
    )


def overview(profile: Profile) -> Html:
    rows = [
        [
            tag("a", value(column.name, 40), href=f"#column-{place}") if place < cards_most else value(column.name, 40),
            badge(column.type),
            share(column.missing.share),
            about(column) + number(column.distinct.count),
            *extremes(column),
        ]
        for place, column in enumerate(profile.columns)
    ]
    head = ["Column", "Type", "Missing", "Distinct", "Least", "Mean", "Greatest"]
    return table(head, rows, numeric=[2, 3, 4, 5, 6])


def about(column: ColumnProfile) -> str:
    return "" if column.distinct.exact else "≈ "


def extremes(column: ColumnProfile) -> list[object]:
    if column.numbers and column.type != "identifier":
        return [number(column.numbers.min), number(column.numbers.mean), number(column.numbers.max)]
    if column.numbers:
        return [str(column.numbers.min), "", str(column.numbers.max)]
    if column.dates:
        return [column.dates.min[:10], "", column.dates.max[:10]]
    return ["", "", ""]


def each_column(profile: Profile) -> Iterator[Html]:
    for place, column in enumerate(profile.columns[:cards_most]):
        yield column_card(column, f"column-{place}")
    if len(profile.columns) > cards_most:
        yield paragraph(f"{len(profile.columns) - cards_most:,} more columns are in profile.json.", quiet=True)


def column_card(column: ColumnProfile, anchor: str) -> Html:
    parts = [facts(column_facts(column))]
    if column.histogram and column.type != "identifier":
        parts.append(drawn(column, column.histogram))
    if column.top_values and column.top_values[0].share >= worth_showing_share and column.type not in UNCOUNTED:
        rows = [(shown(one.value), float(one.count)) for one in column.top_values]
        total = column.top_values[0].count / column.top_values[0].share
        parts.append(bars(rows, "Commonest values", total=total))
    elif column.examples and (column.type == "identifier" or not column.histogram):
        parts.append(facts([("Examples", joined_values(column))]))
    return card(value(column.name), columns(*parts), badges=[badge(column.type)], anchor=anchor)


def joined_values(column: ColumnProfile) -> Html:
    shown_ = [tag("div", shown(one)) for one in column.examples]
    return joined(shown_)


def shown(one: Value) -> Html:
    if isinstance(one, bool):
        return value("true" if one else "false")
    return value(one, 60)


def column_facts(column: ColumnProfile) -> Iterator[tuple[object, object]]:
    missing = f"{column.missing.count:,} ({share(column.missing.share)})" if column.missing.count else "none"
    yield "Missing", missing
    yield "Distinct", about(column) + number(column.distinct.count)
    if (numbers := column.numbers) and column.type in ("integer", "decimal", "constant"):
        yield "Mean", number(numbers.mean)
        if numbers.std is not None:
            yield "Standard deviation", number(numbers.std)
        yield "Range", f"{number(numbers.min)} to {number(numbers.max)}"
        if numbers.skew is not None:
            yield "Skewness", number(numbers.skew, 3)
        if numbers.zeros:
            yield "Zeros", number(numbers.zeros)
        if numbers.negatives:
            yield "Negative", number(numbers.negatives)
        if numbers.outliers and numbers.outliers.count:
            yield "Outliers", f"{numbers.outliers.count:,} ({share(numbers.outliers.share)})"
    if dates := column.dates:
        yield "First", dates.min.replace("T", " ")
        yield "Median", dates.median.replace("T", " ")
        yield "Last", dates.max.replace("T", " ")
    if text := column.text:
        yield "Length", f"{text.shortest:,} to {text.longest:,} characters"
        yield "Mean length", number(text.mean_length, 3)


def drawn(column: ColumnProfile, found: Histogram) -> Html:
    bins = [Bin(edge(bar.start), edge(last_of(bar)), bar.count) for bar in found.bins]
    outside = [f"{amount:,} {side}" for amount, side in ((found.below, "below"), (found.above, "above")) if amount]
    note = f"Not drawn: {' and '.join(outside)}." if outside else ""
    plot = histogram(bins, f"Histogram of {column.name}", note=note)
    if not column.numbers:
        return plot
    quantiles = [(label, number(column.numbers.quantiles[name])) for name, label in QUANTILES.items()]
    return joined([plot, strip(quantiles, f"Quantiles of {column.name}")])


def last_of(bar: Bar) -> Value:
    """The last value that a bar counts, if that can be said: of whole numbers the one before its end."""
    return bar.end - 1 if type(bar.start) is int and type(bar.end) is int else bar.end


def edge(at: Value) -> str:
    return str(at)[:10] if isinstance(at, str) else number(at)


def together(found: Correlations) -> Iterator[Html]:
    if found.strongest:
        rows = [
            [
                value(pair.first, 40),
                value(pair.second, 40),
                NAMES[pair.measure],
                coefficient(pair.value),
            ]
            for pair in found.strongest
        ]
        yield table(["One", "Other", "Measure", "Strength"], rows, numeric=[3])
    else:
        yield paragraph("No two columns go together noticeably.")
    if len(found.numbers) >= 2:
        names = list(found.numbers[:heatmap_most])
        yield tag("h3", "Numbers, by rank (Spearman)")
        yield heatmap(names, [row[:heatmap_most] for row in found.spearman[:heatmap_most]], "Spearman's coefficients")
    if len(found.categories) >= 2:
        names = list(found.categories[:heatmap_most])
        yield tag("h3", "Categories (Cramér's V)")
        yield heatmap(names, [row[:heatmap_most] for row in found.cramers_v[:heatmap_most]], "Cramér's V")


def method(profile: Profile) -> Html:
    file = profile.file
    said = ["Counts, extremes, means and deviations are exact over all rows."]
    if file.sampled_rows < file.rows:
        said.append(
            f"Quantiles, histograms and commonest values are of a sample of {counted(file.sampled_rows, 'row')}; "
            "distinct values are estimated."
        )
    else:
        said.append("So are quantiles, histograms and commonest values.")
    if profile.correlations:
        said.append(f"Correlations are measured on {counted(profile.correlations.rows, 'row')}.")
    said.append("Outliers are further than 1.5 times the width of the middle half from it.")
    return details("How this was measured", paragraph(" ".join(said)))
