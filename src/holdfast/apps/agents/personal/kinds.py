"""The kinds of personal data and secrets: the shape of each, the column names that hint at it, and how it is masked.

Shapes are written in what Rust's and Python's regular expressions have in common: the first searches, the second masks.
A masked value is enough to recognise the problem, never the value.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from holdfast.apps.agents.personal.checksums import (
    digits_of,
    is_address_of_a_machine,
    is_card,
    is_iban,
    national_id,
    national_id_shape,
)

KindName = Literal[
    "secret", "card", "national_id", "iban", "special_category", "email", "phone", "birth_date", "postal_address",
    "name", "ip_address", "location",
]  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """One kind: `shape` finds candidates in a text, `proof` drops those that cannot be, `hint` is met by column names.

    Without a shape, only the column's name (and what its content looks like) tells. Where `sure` is false, a shape
    without a hinting name counts only if at least half of the candidates pass the proof.
    """

    label: str
    severity: float
    advice: str
    hint: str = ""
    shape: str = ""
    proof: Callable[[str], bool] = bool  # of any text that has the shape
    sure: bool = True

    def is_hinted(self, column: str) -> bool:
        """Whether the column's name suggests this kind."""
        return bool(self.hint) and re.search(self.hint, normalized_name(column)) is not None


def normalized_name(column: str) -> str:
    """A column's name as lower-case words between underscores: CustomerEmail becomes _customer_email_."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column)
    return "_" + re.sub(r"[^0-9a-zà-ÿß]+", "_", spaced.lower()).strip("_") + "_"


def _iban_begins(text: str) -> bool:
    compact = re.sub(r"[ -]", "", text)
    return any(is_iban(compact[:length]) for length in range(15, min(len(compact), 34) + 1))


def _is_phone(text: str) -> bool:
    if re.fullmatch(r"\s*(\d{1,2}[-/. ]\d{1,2}[-/. ]\d{2,4}|\d{4}[-/. ]\d{1,2}[-/. ]\d{1,2})\s*", text):
        return False  # a date
    return 8 <= len(digits_of(text)) <= 15


_phone_shape = (
    r"\+[1-9][0-9](?:[ ().\-/]{0,2}[0-9]){6,13}\b"
    r"|\([2-9][0-9]{2}\) ?[0-9]{3}[ .\-][0-9]{4}\b"
    r"|\b[2-9][0-9]{2}[ .\-][2-9][0-9]{2}[ .\-][0-9]{4}\b"
    r"|\b0[1-9][0-9]{0,3}[ /\-][0-9]{3,4}[ \-]?[0-9]{3,5}\b"
)
_credential_shape = (
    r"https?://[^\s/@:]+:[^\s/@]+@[^\s]+"
    r"|https?://[^\s]+[?&#](?:access_token|refresh_token|id_token|token|api_?key|apikey|key|secret|client_secret|sig"
    r"|signature|password|passwd|pwd|auth|session|X-Amz-Signature)=[^\s&]{6,}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}\b|\bgithub_pat_[A-Za-z0-9_]{22,}\b"
    r"|\bsk-[A-Za-z0-9_\-]{20,}|\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}\b|\bxox[abprs]-[A-Za-z0-9\-]{10,}"
    r"|\bAIza[0-9A-Za-z_\-]{35}|\bglpat-[A-Za-z0-9_\-]{20,}|\bhf_[A-Za-z0-9]{30,}\b"
    r"|\beyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----|\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}|\$argon2id?\$[^\s]{20,}"
)
_ip_shape = (
    r"\b(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\b"
    r"|\b(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}\b|\b(?:[0-9A-Fa-f]{1,4}:){1,6}(?::[0-9A-Fa-f]{1,4}){1,6}\b"
)

# In the order in which a text is masked: the longest and gravest first, so that a phone is not cut out of a card.
KINDS: Final[dict[KindName, Kind]] = {
    "secret": Kind(
        "secret or access token", 0.9, "Revoke and replace these credentials now, then remove the column.",
        hint=r"_(password|passwd|pwd|passwort|kennwort|secret|api_?key|private_key|access_token|auth_token)_",
        shape=_credential_shape,
    ),
    "iban": Kind(
        "bank account (IBAN)", 0.7, "Drop it, or replace each account by a keyed hash (HMAC) before sharing.",
        hint=r"_(iban|bank_account)_", proof=_iban_begins,
        shape=r"\b[A-Za-z]{2}[0-9]{2}(?:[ \-]?[A-Za-z0-9]{4}){2,7}(?:[ \-]?[A-Za-z0-9]{1,3})?\b",
    ),
    "card": Kind(
        "payment card number", 0.85, "Remove it or keep the last four digits: PCI DSS forbids keeping it in clear.",
        hint=r"_(card|cc|credit_card|creditcard|pan|card_number|cardnumber)_", proof=is_card, sure=False,
        shape=r"\b[0-9](?:[ \-]?[0-9]){12,18}\b",
    ),
    "national_id": Kind(
        "national id", 0.85, "Drop it; if rows must stay linkable, replace it by a keyed hash (HMAC).",
        hint=r"_(ssn|social_security|nino|dni|nie|cpf|ahv|avs|codice_fiscale|national_id|tax_id|passport)_",
        shape=rf"\b(?:{national_id_shape})\b", proof=lambda text: national_id(text) is not None, sure=False,
    ),
    "email": Kind(
        "email address", 0.5, "Drop it, or replace it by a keyed hash (HMAC); the domain alone is often enough.",
        hint=r"_(e_?mail|mail)_",
        shape=r"[^\s@<>,;:\x22'()\[\]=/&?]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9\-]{0,62})\.)+[A-Za-z]{2,24}",
    ),
    "ip_address": Kind(
        "IP address", 0.3, "Truncate it (the last octet of IPv4, the last 80 bits of IPv6), or drop it.",
        hint=r"_(ip|ip_?addr(ess)?|ipv[46]|remote_addr)_", shape=_ip_shape, proof=is_address_of_a_machine, sure=False,
    ),
    "phone": Kind(
        "phone number", 0.5, "Drop it, or keep the country prefix only.",
        hint=r"_(phone|telephone|tel|mobile|cell|fax|telefon|handy|telefono|telephone_number|msisdn)_",
        shape=_phone_shape, proof=_is_phone, sure=False,
    ),
    "special_category": Kind(
        "specially protected trait", 0.6, "Share it only with a legal ground (GDPR, article 9); otherwise drop it.",
        hint=r"_(religion|ethnicity|race|diagnosis|disease|disability|sexual_orientation|political_party|union_member"
             r"|hiv|icd10?|blood_type|krankheit|konfession)_",
    ),
    "birth_date": Kind(
        "date of birth", 0.4, "Keep the year, or an age group.",
        hint=r"_(dob|birth|birthdate|birthday|birth_date|date_of_birth|born|geburtsdatum|geburtstag|naissance|nacimiento)_",
    ),
    "postal_address": Kind(
        "postal address", 0.4, "Keep the region, or the first digits of the postal code.",
        hint=r"_(address|addr|street|strasse|straße|adresse|direccion|zip|zipcode|zip_code|postcode|postal|plz)_",
    ),
    "name": Kind(
        "person's name", 0.4, "Drop it, or replace it by an artificial id.",
        hint=r"_(first_?name|last_?name|full_?name|sur_?name|given_?name|family_?name|middle_?name|customer_name"
             r"|patient_name|employee_name|contact_name|user_?name|person|vorname|nachname|prenom|nombre|apellidos?)_",
    ),
    "location": Kind(
        "precise location", 0.3, "Round to two decimals (about a kilometre), or keep the region.",
        hint=r"_(lat|latitude|lon|lng|long|longitude|gps|geo)_",
    ),
}  # fmt: skip


most_characters = 60


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
            return " ".join(f"{part[0]}***" if len(part) > 1 else "***" for part in text.split()[:4])
        case "secret":
            scheme = re.match(r"https?://|-----BEGIN|[A-Za-z]{2,6}[_-]", text)
            return f"{scheme[0] if scheme else ''}***"
        case "special_category":
            return "***"


def redact(text: str) -> str:
    """A text in which whatever looks personal is masked."""
    for name, kind in KINDS.items():
        if kind.shape and re.search(kind.shape, text):
            text = re.sub(kind.shape, partial(_mask, name), text)
    return text


def _mask(kind: KindName, found: re.Match[str]) -> str:
    # Words can look like an IBAN. A card or id with a wrong check digit is masked all the same: it may be a slip.
    return found[0] if kind == "iban" and not KINDS[kind].proof(found[0]) else mask(kind, found[0])


@dataclass(frozen=True)
class Curtain:
    """What stands between a table's values and a reader: columns known as personal are masked, all others redacted."""

    columns: Mapping[str, KindName] = field(default_factory=dict)

    def show(self, column: str, value: object) -> str:
        """A value of this column as it may be shown, on one line and not too long."""
        text = str(value)[: 4 * most_characters]
        kind = self.columns.get(column)
        text = mask(kind, text) if kind else redact(text)
        return text if len(text) <= most_characters else text[: most_characters - 1] + "…"

    def show_all(self, column: str, values: Iterable[object]) -> list[str]:
        """Several values of this column as they may be shown."""
        return [self.show(column, value) for value in values]
