"""Names that are not known but announced: persons by their title, organisations by their legal form."""

import re
from bisect import bisect_left
from collections.abc import Iterator

from holdfast.apps.documents.steps.entities.entity import Entity

TITLE = re.compile(
    r"(?<!\w)(?:Mr|Mrs|Ms|Mx|Dr|Prof|Professor|Miss|Sir|Dame|Lord|Lady|Captain|Senator|President|Herr|Frau|Monsieur"
    r"|Madame|Mme|Señora?|Signora?)(?!\w)\.?"
)
FURTHER_TITLE = re.compile(r"(?:Dr|Prof|med|jur|phil)\.$")
NEXT = re.compile(r"\s{1,2}(\S{1,40})(?!\S)")
NAME = re.compile(
    r"(?!(?:Dr|Prof)\.)(?:(?:van|von|der|den|de|la|le|da|di|del|bin|ibn|al|zu|y)(?=\s)|[^\W\d_a-z](?:\.|[\w'\u2019-]{1,40}))(?!\w)"
)
NO_NAMES = {
    "The", "A", "An", "And", "In", "On", "At", "Of", "For", "With", "But", "I", "It", "He", "She", "They",
    "We", "You", "Who", "This", "That", "As", "By", "From", "To", "If", "When", "While", "After", "Before",
    "Then", "Today", "Now", "Our", "His", "Her", "Their", "My", "Your", "Its", "Both", "Since", "Under",
    "Meanwhile", "However", "Yesterday", "President",
}  # fmt: skip
parts_at_most = 6

LEGAL_FORM = re.compile(
    r"(?<=\s)(?:(?:Ltd|Inc|Corp|Co|L\.L\.C|e\.V|S\.A|S\.à r\.l|S\.p\.A|S\.r\.l|S\.L|B\.V|N\.V|K\.K|Pty Ltd|Pte Ltd"
    r"|Sp\. z o\.o|s\.r\.o|a\.s|S\.A\. de C\.V)(?!\w)\.?|(?:GmbH & Co\. KG|GmbH|gGmbH|AG|KG|KGaA|OHG|UG|eG|SE|SA|SAS"
    r"|SARL|SpA|Srl|SL|BV|NV|AB|ASA|AS|A/S|ApS|Oy|Oyj|Kft|Zrt|Ltda|Sdn Bhd|LLC|LLP|PLC|plc|Limited|Incorporated"
    r"|Corporation|Company)(?!\w))"
)
ABBREVIATED = ("Ltd.", "Inc.", "Corp.", "Co.")
WORD = re.compile(r"[^\s,;:()\"“”]+,?(?=\s|$)|[^\s]")
CONNECTING = {"&", "and", "of", "for", "de", "du", "des", "der", "und", "et", "y", "+", "the"}
words_at_most = 6
look_back_characters = 120


def persons(text: str) -> Iterator[Entity]:
    """`Dr. Ada Lovelace`; the value is the name without the title."""
    for title in TITLE.finditer(text):
        names = following(text, title.end())
        while names and names[-1][0].islower():  # a particle leads to a name, it does not end one
            names.pop()
        if names and len(names[-1][0].rstrip(".")) > 1:
            end = names[-1].end()
            yield Entity("person", " ".join(name[0] for name in names), text[title.start() : end], title.start(), end)


def following(text: str, at: int) -> list[re.Match[str]]:
    """The words from here on that may be parts of a name, after further titles."""
    names: list[re.Match[str]] = []
    for _ in range(parts_at_most):
        after = NEXT.match(text, at)
        if after is None:
            break
        word = NAME.match(text, after.start(1))
        if word and word[0] not in NO_NAMES and not LEGAL_FORM.match(text, word.start()):
            names.append(word)
            if word.end() < after.end():  # a comma or a full stop ends it
                break
        elif names or not FURTHER_TITLE.match(after[1]):
            break
        at = after.end()
    return names


def organisations(text: str, people: list[Entity]) -> Iterator[Entity]:
    """`Harbour & Sons Ltd.`: the words with capitals before a legal form, but for the people before them."""
    named = [person.end for person in people]
    for form in LEGAL_FORM.finditer(text):
        at = bisect_left(named, form.start() - 1)  # who stands right before the form is whom it is named after
        first = max(form.start() - look_back_characters, named[at - 1] if at else 0, 0)
        start = begin(list(WORD.finditer(text, first, form.start()))[-words_at_most:])
        if start is not None and not text[start - 1 : start].isalnum():
            written = text[start : form.end()]
            value = " ".join(written.split())
            yield Entity(
                "organisation", value[:-1] if value.endswith(ABBREVIATED) else value, written, start, form.end()
            )


def begin(words: list[re.Match[str]]) -> int | None:
    """Where a name begins that ends with the last of these words. None if that is no name."""
    start: int | None = None
    for word in reversed(words):
        plain = word[0].rstrip(",")
        if start is None:
            fits = plain[:1].isupper()
        else:  # a comma stands before the legal form only, and a full stop ends another sentence
            fits = (plain[:1].isupper() or plain[:1].isdigit() or plain in CONNECTING) and word[0][-1] not in ",.!?"
        if not fits:
            break
        if plain not in CONNECTING and plain not in NO_NAMES:
            start = word.start()
    return start
