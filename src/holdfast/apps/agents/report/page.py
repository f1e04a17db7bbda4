"""The page around a report: one file, nothing fetched, no script, light and dark, for screen and paper.

The page forbids itself everything but its own style, by a content security policy, so that even markup which slipped
through the escaping could load nothing and run nothing.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.apps.agents.report.markup import Html, clip, tag, text
from holdfast.apps.agents.report.parts import Figure, key_figures

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")


def page(
    title: str,
    *content: object,
    subtitle: object = "",
    date: str | None = None,
    figures: Iterable[Figure] = (),
    contents: Sequence[tuple[str, str]] = (),
    foot: object = "",
) -> str:
    """A whole page. `date` is shown as given: a report has the same content whenever it is made.

    `contents` are the anchors of sections with their titles.
    """
    given = list(figures)
    above = tag(
        "header",
        tag("p", date, class_="date") if date else "",
        tag("h1", title),
        tag("p", subtitle, class_="subtitle") if subtitle else "",
        key_figures(given) if given else "",
        class_="top",
    )
    links = tag(
        "nav",
        *(tag("a", name, href=f"#{anchor}") for anchor, name in contents),
        aria_label="Contents",
        class_="contents",
    )
    head = [
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{text(POLICY)}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        Html('<meta name="referrer" content="no-referrer">'),
        tag("title", clip(title, 120)),
        Html(f"<style>{STYLE}</style>"),
    ]
    body = tag("main", above, links if contents else "", *content, tag("footer", foot) if foot else "")
    return f'<!doctype html>\n<html lang="en">\n{tag("head", *head)}\n{tag("body", body)}\n</html>\n'
