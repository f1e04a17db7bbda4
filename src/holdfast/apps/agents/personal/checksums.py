"""Numbers that carry their own proof: payment cards, bank accounts, national ids, addresses of machines.

A check here says that a text can be such a number, never that a person has it. A number without a check digit, such as
the US social security number, is refused only where the issuing rules exclude it.
"""

import ipaddress
import re
from collections.abc import Callable

# Length of an IBAN by country (the registry of SWIFT); a country that is not listed is refused.
_iban_lengths = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "CH": 21,
    "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FO": 18,
    "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23,
    "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "MC": 27,
    "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18, "NO": 15, "PK": 24, "PL": 28, "PS": 29,
    "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "TN": 24, "TR": 26,
    "UA": 29, "VG": 24, "XK": 20,
}  # fmt: skip


def digits_of(text: str) -> str:
    """The ASCII digits of a text, in order."""
    return "".join(c for c in text if c in "0123456789")


def passes_luhn(text: str) -> bool:
    """Whether the digits end in the check digit that payment cards carry."""
    digits = digits_of(text)
    doubled = (int(d) * 2 for d in digits[-2::-2])
    total = sum(int(d) for d in digits[-1::-2]) + sum(d - 9 if d > 9 else d for d in doubled)
    return bool(digits) and total % 10 == 0


def is_card(text: str) -> bool:
    """Whether this can be the number of a payment card: length, first digits and check digit."""
    digits = digits_of(text)
    issued = re.match(r"4|5[1-5]|2[2-7]|3[4-9]|30|6", digits)
    return 13 <= len(digits) <= 19 and issued is not None and len(set(digits)) > 1 and passes_luhn(digits)


def is_iban(text: str) -> bool:
    """Whether this is an IBAN: a known country, its length, and the remainder 1 of ISO 7064."""
    compact = re.sub(r"[ -]", "", text).upper()
    if not re.fullmatch(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}", compact) or _iban_lengths.get(compact[:2]) != len(compact):
        return False
    return int("".join(str(int(c, 36)) for c in compact[4:] + compact[:4])) % 97 == 1


def _us_ssn(text: str) -> bool:
    area, group, serial = text[:3], text[4:6], text[7:]
    return area not in {"000", "666"} and area < "900" and group != "00" and serial != "0000"


def _uk_nino(text: str) -> bool:
    compact = text.replace(" ", "").upper()
    return compact[:2] not in {"BG", "GB", "KN", "NK", "NT", "TN", "ZZ"}


def _es_dni(text: str) -> bool:
    number = text[:-1].replace("-", "").upper().replace("X", "0").replace("Y", "1").replace("Z", "2")
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == text[-1].upper()


def _br_cpf(text: str) -> bool:
    numbers = [int(d) for d in digits_of(text)]
    if len(set(numbers)) == 1:
        return False
    return all(
        sum(n * (size + 1 - i) for i, n in enumerate(numbers[:size])) * 10 % 11 % 10 == numbers[size]
        for size in (9, 10)
    )


def _ch_ahv(text: str) -> bool:
    numbers = [int(d) for d in digits_of(text)]
    return (10 - sum(n * (3 if i % 2 else 1) for i, n in enumerate(numbers[:12])) % 10) % 10 == numbers[12]


_on_odd_places = (
    1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10,
    22, 25, 24, 23,
)  # fmt: skip


def _it_codice_fiscale(text: str) -> bool:
    even = sum(int(c) if c.isdigit() else int(c, 36) - 10 for c in text[1:15:2])
    return (even + sum(_on_odd_places[int(c, 36)] for c in text[0:15:2])) % 26 == int(text[15], 36) - 10


# What each looks like, and whether one that looks so can exist.
national_ids: dict[str, tuple[str, Callable[[str], bool]]] = {
    "US social security number": (r"[0-9]{3}-[0-9]{2}-[0-9]{4}", _us_ssn),
    "UK national insurance number": (
        r"[A-CEGHJ-PR-TW-Za-ceghj-pr-tw-z][A-CEGHJ-NPR-TW-Za-ceghj-npr-tw-z] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-Da-d]",
        _uk_nino,
    ),
    "Spanish DNI or NIE": (r"(?:[0-9]{8}|[XYZxyz]-?[0-9]{7})-?[A-HJ-NP-TV-Za-hj-np-tv-z]", _es_dni),
    "Brazilian CPF": (r"[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}", _br_cpf),
    "Swiss AHV number": (r"756\.?[0-9]{4}\.?[0-9]{4}\.?[0-9]{2}", _ch_ahv),
    "Italian codice fiscale": (
        r"[A-Za-z]{6}[0-9]{2}[A-EHLMPR-Ta-ehlmpr-t][0-9]{2}[A-Za-z][0-9]{3}[A-Za-z]", _it_codice_fiscale,
    ),
}  # fmt: skip

national_id_shape = "|".join(shape for shape, _ in national_ids.values())


def national_id(text: str) -> str | None:
    """Which country's personal number this can be, if any."""
    for name, (shape, possible) in national_ids.items():
        if re.fullmatch(shape, text) and possible(text):
            return name
    return None


def is_address_of_a_machine(text: str) -> bool:
    """Whether this is an IPv4 or IPv6 address that a machine can have: not a mask, not loopback, not unspecified."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (found.is_loopback or found.is_unspecified or found.is_multicast or text.startswith("255."))
