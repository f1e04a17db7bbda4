"""Text that becomes HTML: everything is escaped unless it is `Html`, which only this package makes.

Cell values come from strangers. They cannot leave their element: markup is escaped, control characters are shown as
symbols, the direction of writing ends where the value does, and what is long is cut.
"""

import html
from collections.abc import Iterable

clip_characters = 80

# Control characters as the symbols that Unicode has for them; halves of characters as the replacement character.
SHOWN = {code: 0x2400 + code for code in range(32) if code not in (9, 10)}
SHOWN |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD) | dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)
SHOWN |= dict.fromkeys((0xFFFE, 0xFFFF), 0xFFFD)


class Html(str):
    """Markup that may stand in a page as it is."""

    __slots__ = ()


def text(given: object) -> Html:
    """Anything as escaped text; Html stays as it is."""
    if isinstance(given, Html):
        return given
    return Html(html.escape(str(given).translate(SHOWN), quote=True))


def joined(parts: Iterable[object]) -> Html:
    """Parts one after the other, each escaped unless it is Html."""
    return Html("".join(text(part) for part in parts))


def tag(name: str, *content: object, **attributes: object) -> Html:
    """An element. `class_` is class, `aria_label` is aria-label; an attribute that is None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{written}>{joined(content)}</{name}>")


def clip(given: object, most: int = clip_characters) -> str:
    """At most so many characters, with an ellipsis for the rest."""
    said = str(given)
    return said if len(said) <= most else said[: most - 1].rstrip() + "…"


def value(given: object, most: int = clip_characters) -> Html:
    """A value from the data: isolated, in one line, cut if it is long."""
    if given is None:
        return tag("span", "missing", class_="none")
    said = " ".join(clip(given, most).split())
    return tag("bdi", said, class_="value") if said else tag("span", "empty text", class_="none")
