"""Find what a text names: dates, money, shares, addresses, numbers to call, organisations, persons, places, languages.

By rules and a list of names, without a model: what has a shape or is known is found, with the same answer each time,
and a person without a title or a firm without its legal form is not. Where two findings overlap the longer one stays.
No text takes time out of proportion to its length: every rule is bounded, and looks at a window at a time.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from holdfast.apps.documents.chunk import split_windows


@dataclass(frozen=True)
class Entity:
    """`value` is the same for every way to write the thing; `text` is how it is written, at `start` to `end`."""

    kind: str
    value: str
    text: str
    start: int
    end: int


window_characters = 100_000
most_entities = 20_000


def find_entities(text: str) -> list[Entity]:
    """What the text names, in its order, none overlapping another: the first 20,000."""
    found: list[Entity] = []
    for start, end in split_windows(text, window_characters):
        found += (
            replace(each, start=start + each.start, end=start + each.end)
            for each in keep_longest(text[start:end], candidates(text[start:end]))
        )
        if len(found) >= most_entities:
            return found[:most_entities]
    return found


def candidates(text: str) -> Iterator[Entity]:
    """All that any rule finds; of two of the same length the earlier rule's counts."""
    yield from find_by_shape(text)
    people = list(find_persons(text))
    yield from people
    yield from find_organisations(text, people)
    yield from find_known_names(text)


def keep_longest(text: str, found: Iterator[Entity]) -> list[Entity]:
    """Those that no longer one overlaps, in the order of the text."""
    taken = bytearray(len(text))
    kept = []
    for each in sorted(found, key=lambda each: each.start - each.end):
        # None that was taken is shorter, so what overlaps covers the first or the last character.
        if not taken[each.start] and not taken[each.end - 1]:
            taken[each.start : each.end] = b"\x01" * (each.end - each.start)
            kept.append(each)
    return sorted(kept, key=lambda each: each.start)


MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar janvier enero gennaio januari",
            "february feb februar février febrero febbraio februari",
            "march mar märz mars marzo maart", "april apr avril abril aprile", "may mai mayo maggio mei",
            "june jun juni juin junio giugno", "july jul juli juillet julio luglio",
            "august aug août agosto augustus", "september sep sept septembre septiembre settembre",
            "october oct oktober octobre octubre ottobre", "november nov novembre noviembre",
            "december dec dezember décembre diciembre dicembre",
        ),
        1,
    )
    for name in names.split()
}  # fmt: skip
MONTH = r"(?=[ADEFGJLMNOSadefgjlmnos])(?P<month>(?i:" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r"))\.?"
DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th|\.|er|º)?"
YEAR = r"(?P<year>[12]\d{3})"
DATES = [
    re.compile(rf"(?<![\w.,/-]){YEAR}(?P<mark>[-/.])(?P<month>[01]?\d)(?P=mark)(?P<day>[0-3]?\d)(?!\d|[-/]\d)"),
    re.compile(rf"(?<![\w.,/-])(?P<day>[0-3]?\d)(?P<mark>[./-])(?P<month>[0-3]?\d)(?P=mark){YEAR}(?![\w/-])"),
    re.compile(rf"(?<![\w.,/-]){DAY}\s{{1,2}}(?:of\s|de\s)?{MONTH},?\s{{1,2}}(?:de\s|del\s)?{YEAR}(?!\w)"),
    re.compile(rf"(?<!\w){MONTH}\s{{1,2}}{DAY},?\s{{1,2}}{YEAR}(?!\w)"),
    re.compile(rf"(?<!\w){MONTH},?\s{{1,2}}(?:de\s)?{YEAR}(?!\w)"),
]

NUMBER = r"\d{1,15}(?:[,.' \u00a0\u202f\u2019]\d{3}){0,5}(?:[.,]\d{1,4})?"
SCALES = {
    "thousand": 3, "k": 3, "million": 6, "millions": 6, "mn": 6, "m": 6, "mio": 6, "billion": 9, "billions": 9, "bn": 9,
    "mrd": 9, "trillion": 12, "tn": 12,
}  # fmt: skip
SCALE = r"(?:[ \u00a0]?(?P<scale>" + "|".join(sorted(SCALES, key=len, reverse=True)) + r")(?!\w)\.?)?"
SIGNS = {
    "€": "EUR", "$": "USD", "US$": "USD", "A$": "AUD", "C$": "CAD", "NZ$": "NZD", "HK$": "HKD", "S$": "SGD", "£": "GBP",
    "¥": "JPY", "₹": "INR", "₩": "KRW", "₽": "RUB", "₺": "TRY", "zł": "PLN", "Rs": "INR", "kr": "SEK", "R$": "BRL",
}  # fmt: skip
CODES = (
    "EUR", "USD", "GBP", "JPY", "CNY", "CHF", "INR", "CAD", "AUD", "NZD", "SEK", "NOK", "DKK", "PLN",
    "CZK", "HUF", "RUB", "BRL", "MXN", "ZAR", "KRW", "SGD", "HKD", "TRY", "ILS",
)  # fmt: skip
WORDS = {
    "euro": "EUR", "euros": "EUR", "dollar": "USD", "dollars": "USD", "pounds": "GBP", "yen": "JPY", "yuan": "CNY",
    "rupees": "INR", "francs": "CHF", "zloty": "PLN", "roubles": "RUB", "rubles": "RUB", "pesos": "MXN",
}  # fmt: skip
CURRENCIES = {**SIGNS, **{code: code for code in CODES}, **WORDS}
BEFORE = "|".join(re.escape(sign) for sign in sorted({*SIGNS, *CODES} - {"zł", "kr"}, key=len, reverse=True))
AFTER = "|".join(re.escape(sign) for sign in sorted({*SIGNS, *CODES, *WORDS}, key=len, reverse=True))
MONEY = [
    re.compile(rf"(?<![\w$])(?P<currency>{BEFORE})[ \u00a0]?(?P<number>{NUMBER})(?!\d){SCALE}"),
    re.compile(rf"(?<![\w.,$€£])(?P<number>{NUMBER}){SCALE}[ \u00a0]?(?P<currency>{AFTER})(?![\w$])"),
]
SHARE = re.compile(
    r"(?<![\w.,%])(?P<number>[-+\u2212]?\d{1,9}(?:[.,]\d{1,6})?)\s?(?:%|percent(?!\w)|per\scent(?!\w)|Prozent(?!\w))"
)
EMAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]{1,64}@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}(?![\w@-])")
URL = re.compile(r"(?<!\w)(?:https?://|www\.)[^\s<>\"“”„«»|\\^`{}]{1,2000}")
PHONE = re.compile(r"(?<![\w+])\+[1-9](?:(?:[ \u00a0./-]|\(0\)|[()]){0,3}\d){6,14}(?![\w])")
ACCOUNT = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")


def find_by_shape(text: str) -> Iterator[Entity]:
    """All of them."""
    rules: list[tuple[str, re.Pattern[str], Callable[[re.Match[str]], str | None]]] = [
        *(("date", pattern, day) for pattern in DATES),
        *(("money", pattern, money) for pattern in MONEY),
        ("percentage", SHARE, share),
        ("email", EMAIL, lambda found: found[0].lower()),
        ("phone", PHONE, lambda found: "+" + re.sub(r"\D", "", found[0].replace("(0)", ""))),
        ("iban", ACCOUNT, account),
    ]
    for kind, pattern, normalised in rules:
        for found in pattern.finditer(text):
            if value := normalised(found):
                yield Entity(kind, value, found[0], found.start(), found.end())
    for found in URL.finditer(text):
        written = trim_url(found[0])
        if value := address(written):
            yield Entity("url", value, written, found.start(), found.start() + len(written))


def day(found: re.Match[str]) -> str | None:
    """2026-11-16, or 2026-11 where no day is named; None for no such day, or for one of two that both may be meant."""
    parts = found.groupdict()
    year, month = int(parts["year"]), MONTHS.get(parts["month"].lower()) or int(parts["month"])
    if parts.get("day") is None:
        return f"{year}-{month:02}"
    number = int(parts["day"])
    if parts.get("mark") in ("/", "-") and found.start("day") < found.start("year") and month != number:
        if month <= 12 and number <= 12:
            return None  # 03/04/2026: of March or of April?
        if month > 12:
            month, number = number, month
    try:
        return date(year, month, number).isoformat()
    except ValueError:
        return None


def money(found: re.Match[str]) -> str:
    """The code of the currency and the amount: EUR 1250000."""
    scale = SCALES[found["scale"]] if found["scale"] else 0
    return f"{CURRENCIES[found['currency']]} {amount(found['number']).scaleb(scale).normalize():f}"


def share(found: re.Match[str]) -> str:
    number = found["number"].replace(",", ".").replace("\u2212", "-")
    return f"{Decimal(number).normalize():f}%"


def amount(written: str) -> Decimal:
    """What is written in any of the usual ways: 1,250.50 and 1.250,50 and 1 250,5."""
    digits = re.sub(r"[ \u00a0\u202f'\u2019]", "", written)
    marks = [mark for mark in digits if mark in ",."]
    if marks and (len(set(marks)) == 2 or (len(marks) == 1 and not re.search(r"[,.]\d{3}$", digits))):
        whole, _, part = digits.rpartition(marks[-1])
        return Decimal(re.sub(r"[,.]", "", whole) + "." + part)
    return Decimal(re.sub(r"[,.]", "", digits))


def trim_url(url: str) -> str:
    """Without what belongs to the sentence around it: a full stop, or a bracket that was opened before."""
    while url and (url[-1] in ".,;:!?'\u2019*_" or (url[-1] == ")" and url.count(")") > url.count("("))):
        url = url[:-1]
    return url


def address(written: str) -> str | None:
    """With its scheme, and the host in small letters. None if it has no host."""
    try:
        parts = urlsplit(written if "://" in written else f"http://{written}")
        host = parts.hostname
    except ValueError:
        return None
    if not host or "." not in host.strip("."):
        return None
    return parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower()).geturl()


def account(found: re.Match[str]) -> str | None:
    """An IBAN whose check digits are right, without spaces."""
    number = found[0].replace(" ", "")
    digits = "".join(str(int(character, 36)) for character in number[4:] + number[:4])
    return number if 15 <= len(number) <= 34 and int(digits) % 97 == 1 else None


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


def find_persons(text: str) -> Iterator[Entity]:
    """`Dr. Ada Lovelace`; the value is the name without the title."""
    for title in TITLE.finditer(text):
        names = following_names(text, title.end())
        while names and names[-1][0].islower():  # a particle leads to a name, it does not end one
            names.pop()
        if names and len(names[-1][0].rstrip(".")) > 1:
            end = names[-1].end()
            yield Entity("person", " ".join(name[0] for name in names), text[title.start() : end], title.start(), end)


def following_names(text: str, at: int) -> list[re.Match[str]]:
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


def find_organisations(text: str, people: list[Entity]) -> Iterator[Entity]:
    """`Harbour & Sons Ltd.`: the words with capitals before a legal form, but for the people before them."""
    named = [person.end for person in people]
    for form in LEGAL_FORM.finditer(text):
        at = bisect_left(named, form.start() - 1)  # who stands right before the form is whom it is named after
        first = max(form.start() - look_back_characters, named[at - 1] if at else 0, 0)
        start = name_start(list(WORD.finditer(text, first, form.start()))[-words_at_most:])
        if start is not None and not text[start - 1 : start].isalnum():
            written = text[start : form.end()]
            value = " ".join(written.split())
            yield Entity(
                "organisation", value[:-1] if value.endswith(ABBREVIATED) else value, written, start, form.end()
            )


def name_start(words: list[re.Match[str]]) -> int | None:
    """Where a name begins that ends with the last of these words. None if that is not a name."""
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


def find_known_names(text: str) -> Iterator[Entity]:
    """Each known name that stands as whole words, written as in the list."""
    automaton, meant = load()
    for number, start, end in automaton.find_matches_as_indexes(text, overlapping=True):
        if not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
            kind, value = meant[number]
            yield Entity(kind, value, text[start:end], start, end)


@cache
def load() -> tuple[Any, list[tuple[str, str]]]:
    """What finds the names, and the kind and the value of each."""
    from ahocorasick_rs import AhoCorasick

    names: list[str] = []
    meant: list[tuple[str, str]] = []
    for line in files(__package__).joinpath("names.tsv").read_text("utf-8").splitlines():
        kind, value, variants = line.split("\t")
        for name in variants.split("|"):
            names.append(name)
            meant.append((kind, value))
    return AhoCorasick(names), meant
