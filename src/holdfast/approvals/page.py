"""The page behind a link: the question, two buttons and a field for a note.

To look at it answers nothing: mail programs and chats open links before people do.
"""

import html
from datetime import datetime

from fastapi.responses import HTMLResponse

from holdfast.approvals.store import LinkedQuestion
from holdfast.errors import HoldfastError
from holdfast.http.html_page import html_page

STYLE = """\
main { max-width: 38rem; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.75rem; }
h1 { font-size: 1.4rem; letter-spacing: -0.01em; white-space: pre-wrap; overflow-wrap: anywhere; }
.from, .state { color: var(--faint); overflow-wrap: anywhere; } .state { margin-top: 1.25rem; }
label { display: block; margin: 1.5rem 0 0.35rem; color: var(--faint); }
textarea { width: 100%; min-height: 5rem; padding: 0.6rem; font: inherit; color: inherit; background: var(--ground);
  border: 1px solid var(--line); border-radius: 8px; }
.buttons { display: flex; gap: 0.75rem; margin-top: 1rem; }
button { flex: 1; padding: 0.7rem; font: inherit; font-weight: 600; border-radius: 8px; cursor: pointer;
  border: 1px solid currentColor; background: none; color: var(--bad); }
button.good { background: var(--good); border-color: var(--good); color: var(--paper); }
button:focus-visible, textarea:focus-visible { outline: 2px solid; outline-offset: 2px; }"""

FORM = """\
<form method="post">
<label for="note">A note, if you like</label>
<textarea id="note" name="note" maxlength="2000"></textarea>
<div class="buttons"><button class="good" name="approved" value="true">Approve</button>
<button name="approved" value="false">Deny</button></div>
</form>"""


def question_page(asked: LinkedQuestion) -> HTMLResponse:
    """The question, and how it stands."""
    states = {
        "open": f"It can be answered until {moment(asked.until)}.",
        "answered": f"It was answered at {moment(asked.answered_at)}. There is nothing left to do.",
        "late": f"It had to be answered until {moment(asked.until)}. No task waits for it any more.",
        "closed": "The task that asked has ended. No task waits for it any more.",
    }
    asker = f'<p class="from">{html.escape(asked.name)} asks</p>\n' if asked.name else ""
    body = f'{asker}<h1>{html.escape(asked.question)}</h1>\n<p class="state">{states[asked.state]}</p>'
    return render_page(asked.question[:80], f"{body}\n{FORM}" if asked.state == "open" else body)


def refusal_page(error: HoldfastError) -> HTMLResponse:
    """Why an answer does not count."""
    body = f'<h1>{html.escape(error.title)}</h1>\n<p class="state">{html.escape(error.detail)}</p>'
    return render_page(error.title, body, error.http_status)


def render_page(title: str, body: str, status: int = 200) -> HTMLResponse:
    head = '<meta name="robots" content="noindex">'
    return html_page(html.escape(title), body, style=STYLE, head=head, status=status, form=True)


def moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC" if at else ""
