"""A report is one file that loads nothing and runs nothing, whatever stands in the data."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.apps.agents import UNIFIED_PROFILER
from holdfast.apps.agents import report as kit
from tests.lifecycles.analysis.agents.conftest import MakeJob

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=https://evil.example/x onerror=alert(1)>",
    "\"><svg onload=alert(1)>",
    "' onmouseover='alert(1)",
    "</title></style></script><b>",
    "\u202egnp.exe\u2066",
    "שלום עולם",
    "😀👩‍👩‍👧‍👦",
    "&lt;b&gt; &amp;",
    "javascript:alert(1)",
    "url(https://evil.example)",
    "long" * 2000,
    "tab\there \x07 bell \x1b[31m",
]  # fmt: skip

VOID = {"meta", "rect", "polyline", "path", "line"}


class Seen(HTMLParser):
    """What a browser would find in a page: its elements, attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.text += data


def assert_harmless(page: str) -> Seen:
    seen = Seen(page)
    assert not seen.open
    assert not {"script", "iframe", "object", "embed", "link", "img", "form", "base", "foreignobject"} & set(seen.tags)
    for tag, name, value in seen.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name not in ("src", "srcset", "action", "data", "xlink:href", "style"), (tag, name)
        if name == "href":
            assert value.startswith("#")
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style
    assert not re.search(r"url\(|@import|https?:", style[1])
    policies = [value for _, name, value in seen.attributes if name == "content"]
    assert any(policy.startswith("default-src 'none'") for policy in policies)
    return seen


@pytest.fixture
def hostile_report(make_job: MakeJob) -> str:
    """The report of a table whose name, header and cells are all written by an enemy."""
    lines = [
        json.dumps({"n": number, **{f"{bad} {place}": bad for place, bad in enumerate(HOSTILE)}, "each": bad})
        for number, bad in enumerate(HOSTILE * 3)
    ]
    job = make_job("<script>alert('name')</script>.jsonl", "\n".join(lines))
    UNIFIED_PROFILER.run(job)
    return (job.folder / "report.html").read_text(encoding="utf-8")


def test_hostile_values_stay_text(hostile_report: str) -> None:
    seen = assert_harmless(hostile_report)
    for bad in HOSTILE[:5]:
        assert bad in seen.text
    assert "\x07" not in hostile_report
    assert "\x1b" not in hostile_report
    assert "long" * 100 not in seen.text


@pytest.mark.deep
@given(st.text(), st.text())
def test_any_text_comes_out_as_it_went_in_and_does_nothing_else(name: str, content: str) -> None:
    page = kit.page(
        name,
        kit.section(name, kit.paragraph(content), lead=content),
        kit.table([name, content], [[kit.value(name), content]], numeric=[1], caption=content),
        kit.notices([kit.Notice("high", content, name)]),
        kit.card(name, kit.facts([(name, content)]), badges=[kit.badge(content, "low")]),
        kit.bars([(name, 3.0), (content, 0.0)], content, total=3),
        kit.histogram([kit.Bin(name, content, 2), kit.Bin(content, name, 0)], name, beside=[1, 2], note=content),
        kit.heatmap([name, content], [[1.0, -0.5], [None, 1.0]], content),
        kit.gauge(40, name, bands=[kit.Band(50, "good", content), kit.Band(100, "high", name)]),
        kit.details(content, name),
        kit.strip([(name, content)], content),
        subtitle=content,
        figures=[kit.Figure(name, content, name)],
        foot=content,
    )
    seen = assert_harmless(page)
    letters = "".join(character for character in content if character.isalnum())
    assert letters in "".join(character for character in seen.text if character.isalnum())


def test_tones_are_written_as_text(tmp_path: Path) -> None:
    for tone in ("high", "medium", "low"):
        assert tone.capitalize() in Seen(kit.notices([kit.Notice(tone, "x")])).text


def test_plots_have_a_name_for_those_who_do_not_see_them() -> None:
    plots = [
        kit.histogram([kit.Bin("1", "2", 3)], "Histogram of price"),
        kit.heatmap(["a", "b"], [[1.0, 0.2], [0.2, 1.0]], "Coefficients"),
        kit.gauge(12, "Risk"),
    ]
    for plot in plots:
        names = {name: value for tag, name, value in Seen(plot).attributes if tag == "svg"}
        assert names["role"] == "img"
        assert names["aria-label"]


def test_a_histogram_without_counts_is_drawn() -> None:
    assert_harmless(kit.page("x", kit.histogram([], "nothing"), kit.histogram([kit.Bin("0", "0", 0)], "zero")))


@pytest.mark.parametrize(
    ("given_", "text"),
    [
        (0, "0"), (1234567, "1,234,567"), (-3, "\N{MINUS SIGN}3"), (1234.5678, "1,235"), (0.012346, "0.01235"),
        (12.5, "12.5"), (1e20, "1.000e+20"), (0.00000123, "1.230e\N{MINUS SIGN}06"), (None, "\N{EN DASH}"),
        (float("nan"), "\N{EN DASH}"), (2.0, "2"), (99999.9, "100,000"),
    ],
)  # fmt: skip
def test_numbers_have_no_more_digits_than_say_something(given_: float | None, text: str) -> None:
    assert kit.number(given_) == text


@pytest.mark.parametrize(
    ("given_", "text"), [(0, "0 %"), (1, "100 %"), (0.00001, "< 0.1 %"), (0.99999, "> 99.9 %"), (0.123, "12.3 %")]
)
def test_a_share_is_nothing_or_all_only_if_it_is(given_: float, text: str) -> None:
    assert kit.share(given_) == text


def test_sizes_have_the_unit_that_suits_them() -> None:
    assert [kit.size(n) for n in (12, 1_500, 99_406_496, 21_474_836_480)] == [
        "12 bytes",
        "1.5 kB",
        "99.4 MB",
        "21.5 GB",
    ]
