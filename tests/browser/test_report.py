"""A report in a real browser: it asks for nothing, complains of nothing, and can be read in both themes and on phones.

Each test opens the report of a table with hostile cells, made by the agent itself.
"""

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from holdfast.apps.agents import UNIFIED_PROFILER
from holdfast.lifecycles.analysis.tools import InputFile, Job

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = "<img src=https://evil.example/x onerror=alert(1)><script>alert(1)</script>"

pytestmark = [pytest.mark.deep, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed here")]

# Every element that has text of its own, with its colour and all backgrounds under it.
TEXTS = """
() => [...document.querySelectorAll('body *')].filter(one => one.checkVisibility()
  && [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())).map(one => {
    const grounds = [];
    for (let at = one; at; at = at.parentElement) grounds.push(getComputedStyle(at).backgroundColor);
    const style = getComputedStyle(one);
    const inked = one.namespaceURI.endsWith('svg') ? style.fill : style.color;
    const box = one.getBoundingClientRect();
    return {text: one.textContent.trim().slice(0, 40), tag: one.localName, ink: inked, grounds,
            size: parseFloat(style.fontSize), left: box.left, right: box.right};
  })
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a table that has something of everything."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "output").mkdir()
    rows = [
        {
            "order_id": number,
            "day": f"2024-{number % 12 + 1:02}-11",
            "price": round(1.03**number, 2),
            "half": round(1.03**number / 2, 2),
            "country": ["Germany", "France", HOSTILE, "\u202eItaly"][number % 4],
            "paid": number % 3 == 0,
            "note": None if number % 3 else f"{HOSTILE} {'unbroken' * 60} {number}",
            "a_rather_long_name_without_any_blank_in_it_" * 3: number * number % 17,
            "same": "EUR",
        }
        for number in range(200)
    ]
    path = folder / "orders.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    UNIFIED_PROFILER.run(Job(InputFile(path, f"{HOSTILE}.jsonl"), folder / "output"))
    return folder / "output" / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(params=["light", "dark"])
def page(browser: Browser, report: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The report, opened in one of the themes; at the end nothing may have been asked for and nothing complained of."""
    context = browser.new_context(color_scheme=request.param, viewport={"width": 1200, "height": 900})
    page = context.new_page()
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    page.on("console", lambda one: complaints.append(one.text))
    page.on("pageerror", lambda one: complaints.append(str(one)))
    page.on("dialog", lambda one: complaints.append(one.message))
    page.goto(report.as_uri())
    yield page
    context.close()
    assert asked == [report.as_uri()]
    assert complaints == []


def colour(report: str) -> tuple[float, float, float, float]:
    """rgb(1, 2, 3) or rgba(1, 2, 3, 0.5) as numbers."""
    red, green, blue, *alpha = (float(part) for part in report.partition("(")[2].rstrip(")").split(","))
    return red, green, blue, alpha[0] if alpha else 1.0


def luminance(rgb: tuple[float, ...]) -> float:
    parts = [part / 255 for part in rgb[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(text: dict[str, Any]) -> float:
    """How much a text stands out from the first ground under it that is not see-through."""
    ground = next(rgb for rgb in map(colour, text["grounds"]) if rgb[3] == 1)
    light, dark = sorted((luminance(colour(text["ink"])), luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_every_text_stands_out_from_its_ground(page: Page) -> None:
    texts = page.evaluate(TEXTS)
    assert len(texts) > 200
    pale = {(text["tag"], text["text"], round(contrast(text), 2)) for text in texts if contrast(text) < 4.5}
    assert not pale


def test_the_themes_differ(browser: Browser, report: Path) -> None:
    grounds = set()
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        opened = context.new_page()
        opened.goto(report.as_uri())
        grounds.add(opened.evaluate("getComputedStyle(document.body).backgroundColor"))
        context.close()
    assert len(grounds) == 2


@pytest.mark.parametrize("width_px", [390, 320, 768])
def test_nothing_is_wider_than_a_phone(page: Page, width_px: int) -> None:
    page.set_viewport_size({"width": width_px, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= width_px
    outside = """() => [...document.querySelectorAll('main *')].filter(one => !one.closest('.wide')
        && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 80))"""
    assert page.evaluate(outside) == []


def test_text_is_large_enough_to_read(page: Page) -> None:
    assert all(text["size"] >= 12 or text["tag"] == "span" for text in page.evaluate(TEXTS))


def test_it_can_be_walked_without_eyes(page: Page) -> None:
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(one => +one.localName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.title()
    assert page.evaluate("document.querySelectorAll('main').length") == 1
    assert page.evaluate("[...document.querySelectorAll('svg')].every(one => one.ariaLabel || one.ariaHidden)")
    assert page.evaluate("[...document.querySelectorAll('th')].every(one => one.scope)")
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))
    links = page.evaluate("[...document.querySelectorAll('a')].map(one => one.getAttribute('href').slice(1))")
    assert set(links) <= set(ids)


def test_hostile_cells_are_text(page: Page) -> None:
    assert page.evaluate("document.images.length + document.scripts.length") == 0
    assert HOSTILE in page.inner_text("h1")


def test_it_is_printed_dark_on_white(page: Page) -> None:
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(0, 0, 0)"
