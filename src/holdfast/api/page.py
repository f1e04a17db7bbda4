"""The page at `/`: what is running, on one screen.

Operators see tasks; callers with a key, or that need none, see the database; all others see that the server is there.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from string import Template
from typing import Any

from fastapi.responses import HTMLResponse

from holdfast import __version__
from holdfast.api.readiness import Ready
from holdfast.engine.store.records import Count
from holdfast.errors import DatabaseError
from holdfast.http.html_page import html_page

STYLE = """\
main { max-width: 72rem; }
h1 { font-size: 1.75rem; letter-spacing: -0.02em; }
.state { margin: 0.5rem 0 2rem; color: var(--faint); }
.state b { color: var(--good); } .state b.bad { color: var(--bad); }
dl { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 0.4rem 1.25rem; }
dl div { display: grid; grid-template-columns: 9rem 1fr; gap: 1rem; padding: 0.65rem 0; }
dl div + div { border-top: 1px solid var(--line); }
dt { color: var(--faint); } dd { overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
h2 { font-size: 1.1rem; margin: 2rem 0 0.75rem; }
figure { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.25rem;
  margin-bottom: 1rem; }
figcaption { font-weight: 600; margin-bottom: 0.5rem; } figcaption a { font-weight: 400; margin-left: 0.75rem; }
table { width: 100%; border-collapse: collapse; background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 0.45rem 1.25rem; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
thead th { border-top: 0; color: var(--faint); font-weight: 400; }
.counts { display: flex; flex-wrap: wrap; gap: 0.5rem 1.5rem; margin-bottom: 0.75rem; padding: 0; list-style: none; }
.counts b { font-variant-numeric: tabular-nums; }
img { display: block; max-width: 100%; height: auto; }
nav { margin-top: 1.5rem; display: flex; flex-wrap: wrap; gap: 0.25rem 1.5rem; }
a { color: var(--good); } a:focus-visible { outline: 2px solid; outline-offset: 3px; border-radius: 2px; }
@media (max-width: 30rem) { dl div { grid-template-columns: 1fr; gap: 0; } }"""

BODY = Template("""\
<h1>Holdfast</h1>
<p class="state"><b$mark>$sign $headline</b> $sentence</p>
<dl>
$rows
</dl>
$work
$pictures
<nav><a href="health">Health</a><a href="ready">Readiness</a><a href="metrics">Metrics</a>
<a href="api/openapi.json">OpenAPI</a></nav>""")

PICTURE = Template("""\
<figure><figcaption>$name<a href="api/v1/lifecycles/$name?format=matrix">matrix</a></figcaption>
<a href="api/v1/lifecycles/$name?format=svg">
<img src="api/v1/lifecycles/$name?format=svg" alt="The lifecycle $name, drawn"></a>
</figure>""")


TABLE = Template("""\
<h2>Tasks</h2>
<ul class="counts">$counts</ul>
<table><thead><tr><th>task<th>state<th>attempt<th>queue<th>since</tr></thead><tbody>
$rows
</tbody></table>""")

ROW = Template("""\
<tr><td><a href="api/v1/tasks/$id">$name</a><td>$state<td>$attempt of $max_attempts<td>$queue<td>$since</tr>""")

tasks_listed = 12


@dataclass(frozen=True)
class Work:
    """What is there to be seen of tasks: how many are in each state, the newest, and who works."""

    counts: Sequence[Count]
    newest: Sequence[dict[str, Any]]
    workers: int


def describe(state: Ready, database: str, started_at: datetime) -> dict[str, str]:
    """The server and its database, for known callers."""
    return {
        "Version": __version__,
        "Database": database,
        "Postgres": f"{state.postgres}",
        "Schema": f"release {state.schema_version}, migrations applied: {state.migrations}",
        "Database time": f"{state.database_time:%Y-%m-%d %H:%M:%S} UTC",
        "Server up since": f"{started_at:%Y-%m-%d %H:%M:%S} UTC",
    }


def render_page(
    rows: dict[str, str],
    *,
    lifecycles: Sequence[str] = (),
    work: Work | None = None,
    error: DatabaseError | None = None,
) -> HTMLResponse:
    if error:
        sign, headline, mark = "✕", "Not ready.", ' class="bad"'
        sentence = f"{error.title} It is asked again every ten seconds."
    else:
        sign, headline, mark = "✓", "Ready.", ""
        sentence = "The database answers and its schema is in place."
    if work:
        rows["Workers"] = str(work.workers) if work.workers else "none; start one: holdfast worker --app module:hf"
    body = BODY.substitute(
        headline=headline,
        sign=sign,
        mark=mark,
        sentence=html.escape(sentence),
        work=render_work(work) if work else "",
        pictures="\n".join(
            ["<h2>Lifecycles</h2>" if lifecycles else "", *(PICTURE.substitute(name=name) for name in lifecycles)]
        ),
        rows="\n".join(f"<div><dt>{name}</dt><dd>{html.escape(value)}</dd></div>" for name, value in rows.items()),
    )
    return html_page(f"Holdfast: {headline}", body, style=STYLE, head='<meta http-equiv="refresh" content="10">')


def render_work(work: Work) -> str:
    counts = [
        f"<li>{html.escape(one.lifecycle)} {html.escape(one.state)} <b>{one.number}{'+' * one.capped}</b></li>"
        for one in work.counts
        if one.number
    ]
    rows = [
        ROW.substitute(
            {name: html.escape(str(value)) for name, value in task.items()},
            since=f"{datetime.fromisoformat(task['entered_at']):%H:%M:%S} UTC",
        )
        for task in work.newest
    ]
    nothing = "<tr><td colspan=5>No tasks yet. Start one: holdfast start NAME '{}'</tr>"
    return TABLE.substitute(counts="".join(counts), rows="\n".join(rows) or nothing)
