"""What is known by its shape: dates, money, shares, e-mail and web addresses, numbers to call, bank accounts."""

import re
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from urllib.parse import urlsplit

from holdfast.apps.documents.steps.entities.entity import Entity

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


def shaped(text: str) -> Iterator[Entity]:
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
        written = trimmed(found[0])
        if value := address(written):
            yield Entity("url", value, written, found.start(), found.start() + len(written))


def day(found: re.Match[str]) -> str | None:
    """2026-11-16, or 2026-11 where no day is named; None for no such day, or for one of two that both may be meant."""
    said = found.groupdict()
    year, month = int(said["year"]), MONTHS.get(said["month"].lower()) or int(said["month"])
    if said.get("day") is None:
        return f"{year}-{month:02}"
    number = int(said["day"])
    if said.get("mark") in ("/", "-") and found.start("day") < found.start("year") and month != number:
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
    return f"{CURRENCIES[found['currency']]} {plain(amount(found['number']).scaleb(scale))}"


def share(found: re.Match[str]) -> str:
    number = found["number"].replace(",", ".").replace("\u2212", "-")
    return f"{plain(Decimal(number))}%"


def amount(written: str) -> Decimal:
    """What is written in any of the usual ways: 1,250.50 and 1.250,50 and 1 250,5."""
    digits = re.sub(r"[ \u00a0\u202f'\u2019]", "", written)
    marks = [mark for mark in digits if mark in ",."]
    if marks and (len(set(marks)) == 2 or (len(marks) == 1 and not re.search(r"[,.]\d{3}$", digits))):
        whole, _, part = digits.rpartition(marks[-1])
        return Decimal(re.sub(r"[,.]", "", whole) + "." + part)
    return Decimal(re.sub(r"[,.]", "", digits))


def plain(number: Decimal) -> str:
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def trimmed(url: str) -> str:
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
