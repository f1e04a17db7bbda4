"""A brief as a page and as Markdown.

The page is one file that loads nothing: no script, no font, no picture, and a policy that forbids them.
Whatever feeds wrote is text: it cannot become markup, and only http and https become links. The same brief makes the
same bytes.
"""

import html
import re
from datetime import datetime
from urllib.parse import quote, urlsplit

from holdfast.apps.newsroom.article import Brief, Entry, Section
from holdfast.apps.newsroom.duplicates import same_link
from holdfast.apps.newsroom.sentences import quotes

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
NAME = "The Morning Brief"
UNSEEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]")
MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#|~!&])")
INSIDE_A_WORD = re.compile(r"(?<=[^\W\d_])'(?=[^\W\d_])")
SCORE = re.compile(r"(?<![\w-])\d{1,4}-\d{1,3}(?:-\d{1,2})?(?![\w-])")
HELD_TOGETHER = re.compile(
    r"(?<=\d) (?=(?:million|billion|trillion|per cent|percent|%|crowns|euros|(?:"
    + "|".join(MONTHS)
    + r"))(?!\w))|(?<=\bDr) (?=[A-Z])|(?<=\bSt) (?=[A-Z])"
)
BEGINS_A_LIST = re.compile(r"^([-+=]|\d+(?=[.)]))")

STYLE = """
:root { color-scheme: light dark; --paper: #fbfaf7; --ink: #1d1c1a; --quiet: #66625b; --line: #dedad1;
  --accent: #8a3b12; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #161513; --ink: #e9e5dc; --quiet: #a29c91; --line: #35322d; --accent: #e5a37c; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body { margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: anywhere;
  font: 1.0625rem/1.6 "Iowan Old Style", "Palatino Linotype", Palatino, Charter, Georgia, "DejaVu Serif", serif; }
.sheet { max-width: 68ch; margin: 0 auto; padding: 3rem 1.25rem 4rem; }
header { text-align: center; border-bottom: 3px double var(--line); padding-bottom: 1.5rem; }
h1 { font-size: clamp(2rem, 7vw, 3.1rem); line-height: 1.1; font-weight: 600; letter-spacing: -.015em; margin: 0; }
.date { font-style: italic; font-size: 1.125rem; margin: .6rem 0 0; }
.figures, .toc, .meta, footer, .count {
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
.figures { color: var(--quiet); font-size: .8125rem; margin: .35rem 0 0; }
.toc ul { list-style: none; display: flex; flex-wrap: wrap; justify-content: center; gap: .25rem 1.5rem; margin: 0;
  padding: .75rem 0; border-bottom: 1px solid var(--line); font-size: .875rem; }
.toc a { display: inline-block; padding: .3rem 0; text-decoration: none; color: var(--ink); }
.toc a:hover { color: var(--accent); }
.count { color: var(--quiet); font-size: .8125rem; font-weight: 400; letter-spacing: 0; }
section { margin-top: 2.25rem; }
h2 { font-size: .875rem; font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  letter-spacing: .09em; text-transform: uppercase; color: var(--accent); margin: 0; padding-bottom: .5rem;
  border-bottom: 1px solid var(--line); scroll-margin-top: 1rem; }
article { padding: 1.35rem 0 1.25rem; }
article + article { border-top: 1px solid var(--line); }
h3 { font-size: 1.3125rem; line-height: 1.3; font-weight: 600; margin: 0; text-wrap: balance; }
section:first-of-type article:first-of-type h3 { font-size: clamp(1.5rem, 5vw, 1.9rem); line-height: 1.2; }
h3 a { color: inherit; text-decoration: none; }
h3 a:hover { text-decoration: underline; text-decoration-color: var(--accent); text-decoration-thickness: 2px;
  text-underline-offset: .15em; }
a:focus-visible { outline: 2px solid var(--accent); outline-offset: 3px; }
.summary { margin: .5rem 0 0; text-wrap: pretty; }
.meta { display: flex; flex-wrap: wrap; column-gap: 1.2em; overflow: hidden; margin: .6rem 0 0; color: var(--quiet);
  font-size: .8125rem; line-height: 1.5; }
.meta > * { position: relative; max-width: 100%; }
.meta > * + *::before { content: "·"; position: absolute; left: -.75em; }
.meta .source { color: var(--ink); font-weight: 600; }
.meta .address { display: none; }
.whole { white-space: nowrap; }
footer { margin-top: 3rem; padding-top: 1.25rem; border-top: 3px double var(--line); color: var(--quiet);
  font-size: .8125rem; }
footer p { margin: 0 0 .5rem; }
.empty { text-align: center; color: var(--quiet); font-style: italic; margin: 3rem 0; }
@media (max-width: 480px) { .sheet { padding: 1.75rem 1.125rem 3rem; } section { margin-top: 1.75rem; } }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
@page { margin: 16mm 15mm; }
@media print {
  :root { --paper: #fff; --ink: #000; --quiet: #444; --line: #bbb; --accent: #000; }
  body { font-size: 9.5pt; line-height: 1.45; } .sheet { max-width: none; padding: 0; } .toc { display: none; }
  header { padding-bottom: 8pt; } h1 { font-size: 26pt; } .date { font-size: 11pt; margin-top: 4pt; }
  main { columns: 2; column-gap: 9mm; column-rule: 1px solid var(--line); padding-top: 10pt; }
  section { margin: 0 0 8pt; } h2 { font-size: 8.5pt; padding-bottom: 3pt; break-after: avoid; }
  article { padding: 7pt 0; break-inside: avoid; }
  h3, section:first-of-type article:first-of-type h3 { font-size: 12pt; line-height: 1.25; }
  section:first-of-type article:first-of-type h3 { font-size: 15pt; }
  .summary { margin-top: 3pt; } .figures, .meta, footer { font-size: 7.5pt; } .meta { margin-top: 3pt; }
  .meta .address { display: block; flex-basis: 100%; }
  footer { margin-top: 10pt; padding-top: 8pt; break-inside: avoid; }
}
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def as_html(brief: Brief) -> str:
    """A page of its own, complete."""
    day = f"<p class=date>{_day(brief.date)}</p>" if brief.date else ""
    year = brief.date.year if brief.date else None
    sections = "\n".join(_section(number, section, year) for number, section in enumerate(brief.sections, 1))
    items = "".join(_item(number, section) for number, section in enumerate(brief.sections, 1))
    contents = f'<nav class=toc aria-label="Topics"><ul>{items}</ul></nav>' if items else ""
    return f"""<!doctype html>
<html lang=en>
<meta charset=utf-8>
<meta name=viewport content="width=device-width, initial-scale=1">
<meta http-equiv=Content-Security-Policy content="{POLICY}">
<meta name=referrer content=no-referrer>
<title>{NAME}{f", {_day(brief.date)}" if brief.date else ""}</title>
<style>{STYLE}</style>
<div class=sheet>
<header>
<h1>{NAME}</h1>
{day}
<p class=figures>{_figures(brief)}</p>
</header>
{contents}
<main>
{sections or "<p class=empty>No articles today.</p>"}
</main>
<footer>{_footer(brief)}</footer>
</div>
</html>
"""


def as_markdown(brief: Brief) -> str:
    """The same for those who read text."""
    parts = [f"# {NAME}"]
    if brief.date:
        parts.append(f"*{_day(brief.date)}*")
    parts.append(_figures(brief))
    for section in brief.sections:
        parts.append(f"## {_mark(_heading(section.topic))}")
        for entry in section.entries:
            link = _web(entry.link)
            title = _mark(entry.title)
            parts.append(f"### [{title}](<{link}>)" if link else f"### {title}")
            if entry.summary.strip():
                parts.append(_mark(entry.summary))
            about = " · ".join(detail for _, detail in _about(entry, brief.date.year if brief.date else None))
            parts.append(f"*{_mark(about)}*")
    if not brief.sections:
        parts.append("No articles today.")
    return "\n\n".join(parts) + "\n"


def _item(number: int, section: Section) -> str:
    count = f"<span class=count>{len(section.entries)}</span>"
    return f'<li><a href="#topic-{number}">{_text(_heading(section.topic))}</a> {count}'


def _section(number: int, section: Section, year: int | None) -> str:
    heading = f'<h2 id="topic-{number}" dir=auto>{_text(_heading(section.topic))}</h2>'
    entries = "\n".join(_article(entry, year) for entry in section.entries)
    return f'<section aria-labelledby="topic-{number}">\n{heading}\n{entries}\n</section>'


def _article(entry: Entry, year: int | None) -> str:
    link = _web(entry.link)
    title = _prose(entry.title)
    if link:
        title = f'<a href="{html.escape(link)}" rel="noopener noreferrer nofollow">{title}</a>'
    summary = f"\n<p class=summary dir=auto>{_prose(entry.summary)}</p>" if entry.summary.strip() else ""
    meta = [f"<{element}>{_text(detail)}</{element.split()[0]}>" for element, detail in _about(entry, year)]
    if link:
        meta.append(f"<span class=address>{html.escape(link)}</span>")
    return f"<article>\n<h3 dir=auto>{title}</h3>{summary}\n<p class=meta>{''.join(meta)}</p>\n</article>"


def _about(entry: Entry, year: int | None) -> list[tuple[str, str]]:
    """What is said about an article, each with the element that it is on the page."""
    about = [("span class=source", entry.source or "Unknown source")]
    if entry.published:
        about.append((f'time datetime="{entry.published.date()}"', _date(entry.published, year)))
    if entry.softened:
        about.append(("span", f"{_count_noun(entry.softened, 'expression')} softened"))
    return about


def _figures(brief: Brief) -> str:
    softened = sum(entry.softened for entry in brief.entries)
    figures = f"{_count_noun(len(brief.entries), 'article')} from {_count_noun(len(brief.sources), 'source')}"
    return f"{figures}, {_count_noun(softened, 'expression')} softened" if softened else figures


def _footer(brief: Brief) -> str:
    sources = f"<p>Sources: {_text(', '.join(brief.sources))}</p>" if brief.sources else ""
    return f"{sources}<p>Loaded wording is softened; quotes, names and numbers are as the sources have them.</p>"


def _count_noun(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _heading(topic: str) -> str:
    return topic[:1].upper() + topic[1:]


def _day(date: datetime) -> str:
    return f"{DAYS[date.weekday()]}, {_date(date)}"


def _date(date: datetime, year: int | None = None) -> str:
    """In full; without the year if it is the brief's own."""
    day = f"{date.day} {MONTHS[date.month - 1]}"
    return day if date.year == year else f"{day} {date.year}"


def _text(text: str) -> str:
    return html.escape(_make_visible(text))


def _prose(text: str) -> str:
    """With printers' quotation marks, and with no line's end in "4-2", "2.4 million" or "Dr Moss"."""
    seen = _make_visible(text)
    for one in reversed(quotes(seen)):
        if one.closed and seen[one.start] == '"':
            seen = f"{seen[: one.start]}“{seen[one.start + 1 : one.end - 1]}”{seen[one.end :]}"
    escaped = html.escape(INSIDE_A_WORD.sub("\u2019", seen), quote=False)
    return SCORE.sub(r"<span class=whole>\g<0></span>", HELD_TOGETHER.sub("\u00a0", escaped))


def _make_visible(text: str) -> str:
    """On one line, and without what turns a line around or ends a file."""
    return " ".join(UNSEEN.sub("", text).split())


def _mark(text: str) -> str:
    return BEGINS_A_LIST.sub(r"\\\1", MARKDOWN.sub(r"\\\1", _make_visible(text)))


def _web(link: str | None) -> str | None:
    """The address if it is one of the web, with nothing in it that could end it early."""
    link = (link or "").strip()
    return quote(urlsplit(link).geturl(), safe="/:?#[]@!$&'()*+,;=%~-._") if same_link(link) else None
