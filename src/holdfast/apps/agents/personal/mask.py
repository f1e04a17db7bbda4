"""How personal values are shown: enough to recognise the problem, never the value."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from holdfast.apps.agents.personal.kinds import KINDS, KindName

shown_most_characters = 60


def _but_ends(text: str, first: int, last: int) -> str:
    """Letters and digits as stars, except the first and last few; what separates them stays."""
    places = [i for i, c in enumerate(text) if c.isalnum()]
    kept = set(places[:first] + places[len(places) - last :]) if len(places) > 2 * (first + last) else set()
    return "".join(c if i in kept or not c.isalnum() else "*" for i, c in enumerate(text))


def mask(kind: KindName, text: str) -> str:
    """A value of this kind, in a form that may be shown: a***@example.org, **** **** **** 1111."""
    text = text.strip()
    match kind:
        case "email":
            before, at, domain = text.partition("@")
            return f"{before[:1] if len(before) > 1 else ''}***{at}{domain}" if at else "***"
        case "card":
            return _but_ends(text, 0, 4)
        case "iban":
            return _but_ends(text, 2, 2)
        case "phone" | "national_id":
            return _but_ends(text, 0, 2)
        case "ip_address":
            head, dot, _ = re.split(r"([.:])", text, maxsplit=1) if re.search(r"[.:]", text) else ("", "", "")
            return f"{head}{dot}***"
        case "birth_date" | "location":
            return _but_ends(text, 2, 0)
        case "name" | "postal_address":
            return " ".join(f"{word[0]}***" if len(word) > 1 else "***" for word in text.split()[:4])
        case "secret":
            scheme = re.match(r"https?://|-----BEGIN|[A-Za-z]{2,6}[_-]", text)
            return f"{scheme[0] if scheme else ''}***"
        case "special_category":
            return "***"


def redact(text: str) -> str:
    """A text in which whatever looks personal is masked."""
    for name, kind in KINDS.items():
        if kind.shape and re.search(kind.shape, text):
            text = re.sub(kind.shape, partial(_masked, name), text)
    return text


def _masked(kind: KindName, found: re.Match[str]) -> str:
    # Words can look like an IBAN. A card or id with a wrong check digit is masked all the same: it may be a slip.
    return found[0] if kind == "iban" and not KINDS[kind].proof(found[0]) else mask(kind, found[0])


@dataclass(frozen=True)
class Curtain:
    """What stands between a table's values and a reader: columns known as personal are masked, all others redacted."""

    columns: Mapping[str, KindName] = field(default_factory=dict)

    def show(self, column: str, value: object) -> str:
        """A value of this column as it may be shown, on one line and not too long."""
        text = str(value)[: 4 * shown_most_characters]
        kind = self.columns.get(column)
        text = mask(kind, text) if kind else redact(text)
        return text if len(text) <= shown_most_characters else text[: shown_most_characters - 1] + "…"

    def show_all(self, column: str, values: Iterable[object]) -> list[str]:
        """Several values of this column as they may be shown."""
        return [self.show(column, value) for value in values]
