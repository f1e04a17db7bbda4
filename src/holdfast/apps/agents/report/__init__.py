"""A small kit for reports: one HTML file that can be sent to anyone and opened anywhere.

    report = page(
        "Profile of orders.csv",
        section("Columns", table(["Column", "Missing"], [[value("price"), share(0.02)]], numeric=[1])),
        figures=[Figure("Rows", number(1_000_000))],
    )

Everything that is not `Html` is escaped; what comes from the data is shown by `value`. The parts are functions that
return `Html`, so that they can be put into each other.
"""

from holdfast.apps.agents.report.markup import Html as Html
from holdfast.apps.agents.report.markup import clip as clip
from holdfast.apps.agents.report.markup import joined as joined
from holdfast.apps.agents.report.markup import tag as tag
from holdfast.apps.agents.report.markup import text as text
from holdfast.apps.agents.report.markup import value as value
from holdfast.apps.agents.report.numbers import coefficient as coefficient
from holdfast.apps.agents.report.numbers import counted as counted
from holdfast.apps.agents.report.numbers import number as number
from holdfast.apps.agents.report.numbers import share as share
from holdfast.apps.agents.report.numbers import size as size
from holdfast.apps.agents.report.page import page as page
from holdfast.apps.agents.report.parts import Figure as Figure
from holdfast.apps.agents.report.parts import Notice as Notice
from holdfast.apps.agents.report.parts import Tone as Tone
from holdfast.apps.agents.report.parts import badge as badge
from holdfast.apps.agents.report.parts import card as card
from holdfast.apps.agents.report.parts import columns as columns
from holdfast.apps.agents.report.parts import details as details
from holdfast.apps.agents.report.parts import facts as facts
from holdfast.apps.agents.report.parts import key_figures as key_figures
from holdfast.apps.agents.report.parts import notices as notices
from holdfast.apps.agents.report.parts import paragraph as paragraph
from holdfast.apps.agents.report.parts import section as section
from holdfast.apps.agents.report.parts import strip as strip
from holdfast.apps.agents.report.parts import table as table
from holdfast.apps.agents.report.plots import Band as Band
from holdfast.apps.agents.report.plots import Bin as Bin
from holdfast.apps.agents.report.plots import bars as bars
from holdfast.apps.agents.report.plots import gauge as gauge
from holdfast.apps.agents.report.plots import heatmap as heatmap
from holdfast.apps.agents.report.plots import histogram as histogram
