"""A small kit for reports: one HTML file that can be sent to anyone and opened anywhere.

    report = page(
        "Profile of orders.csv",
        section("Columns", table(["Column", "Missing"], [[value("price"), share(0.02)]], numeric=[1])),
        figures=[Figure("Rows", number(1_000_000))],
    )

Everything that is not `Html` is escaped; what comes from the data is shown by `value`. The parts are functions that
return `Html`, so that they can be put into each other.
"""

from holdfast.lifecycles.analysis.agents.report.markup import Html as Html
from holdfast.lifecycles.analysis.agents.report.markup import clip as clip
from holdfast.lifecycles.analysis.agents.report.markup import joined as joined
from holdfast.lifecycles.analysis.agents.report.markup import tag as tag
from holdfast.lifecycles.analysis.agents.report.markup import text as text
from holdfast.lifecycles.analysis.agents.report.markup import value as value
from holdfast.lifecycles.analysis.agents.report.numbers import coefficient as coefficient
from holdfast.lifecycles.analysis.agents.report.numbers import counted as counted
from holdfast.lifecycles.analysis.agents.report.numbers import number as number
from holdfast.lifecycles.analysis.agents.report.numbers import share as share
from holdfast.lifecycles.analysis.agents.report.numbers import size as size
from holdfast.lifecycles.analysis.agents.report.page import page as page
from holdfast.lifecycles.analysis.agents.report.parts import Figure as Figure
from holdfast.lifecycles.analysis.agents.report.parts import Notice as Notice
from holdfast.lifecycles.analysis.agents.report.parts import Tone as Tone
from holdfast.lifecycles.analysis.agents.report.parts import badge as badge
from holdfast.lifecycles.analysis.agents.report.parts import card as card
from holdfast.lifecycles.analysis.agents.report.parts import columns as columns
from holdfast.lifecycles.analysis.agents.report.parts import details as details
from holdfast.lifecycles.analysis.agents.report.parts import facts as facts
from holdfast.lifecycles.analysis.agents.report.parts import key_figures as key_figures
from holdfast.lifecycles.analysis.agents.report.parts import notices as notices
from holdfast.lifecycles.analysis.agents.report.parts import paragraph as paragraph
from holdfast.lifecycles.analysis.agents.report.parts import section as section
from holdfast.lifecycles.analysis.agents.report.parts import strip as strip
from holdfast.lifecycles.analysis.agents.report.parts import table as table
from holdfast.lifecycles.analysis.agents.report.plots import Band as Band
from holdfast.lifecycles.analysis.agents.report.plots import Bin as Bin
from holdfast.lifecycles.analysis.agents.report.plots import bars as bars
from holdfast.lifecycles.analysis.agents.report.plots import gauge as gauge
from holdfast.lifecycles.analysis.agents.report.plots import heatmap as heatmap
from holdfast.lifecycles.analysis.agents.report.plots import histogram as histogram
