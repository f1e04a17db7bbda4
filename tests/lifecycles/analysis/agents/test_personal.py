import random

import polars as pl
import pytest

from holdfast.apps.agents.personal import curtain_for, find_personal, mask, redact
from holdfast.apps.agents.personal.checksums import (
    is_address_of_a_machine,
    is_card,
    is_iban,
    national_id,
    passes_luhn,
)


@pytest.mark.parametrize("text", ["4111 1111 1111 1111", "5500-0055-5555-5559", "378282246310005", "6011111111111117"])
def test_the_number_of_a_card_is_known_by_its_check_digit(text: str) -> None:
    assert is_card(text)


@pytest.mark.parametrize("text", ["4111 1111 1111 1112", "1234567890123456", "0000000000000000", "411111111111", ""])
def test_what_cannot_be_a_card_is_none(text: str) -> None:
    assert not is_card(text)


def test_luhn_takes_one_last_digit_of_ten() -> None:
    assert [d for d in range(10) if passes_luhn(f"7992739871{d}")] == [3]


@pytest.mark.parametrize(
    "text", ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432", "fr1420041010050500013m02606"]
)
def test_an_iban_is_known_by_country_length_and_check_number(text: str) -> None:
    assert is_iban(text)


@pytest.mark.parametrize(
    "text",
    [
        "DE89 3704 0044 0532 0130 01",
        "DE8937040044053201300",
        "ZZ89370400440532013000",
        "GB82 WEST 1234 5698 7654 3",
        "",
    ],
)
def test_what_cannot_be_an_iban_is_none(text: str) -> None:
    assert not is_iban(text)


@pytest.mark.parametrize(
    ("text", "country"),
    [
        ("123-45-6789", "US"), ("AB 12 34 56 C", "UK"), ("12345678Z", "Spanish"), ("X1234567L", "Spanish"),
        ("111.444.777-35", "Brazilian"), ("756.9217.0769.85", "Swiss"), ("RSSMRA85T10A562S", "Italian"),
    ],
)  # fmt: skip
def test_national_ids_are_known(text: str, country: str) -> None:
    assert (national_id(text) or "").startswith(country)


@pytest.mark.parametrize(
    "text",
    ["000-12-3456", "666-12-3456", "900-12-3456", "123-00-6789", "123-45-0000", "12345678A", "111.444.777-36",
     "756.9217.0769.86", "RSSMRA85T10A562T", "GB123456A", "2024-01-05"],
)  # fmt: skip
def test_what_was_never_issued_is_no_national_id(text: str) -> None:
    assert national_id(text) is None


def test_addresses_of_machines_are_not_masks_or_loopback() -> None:
    assert [is_address_of_a_machine(one) for one in ("8.8.8.8", "2001:db8::1")] == [True, True]
    assert not any(is_address_of_a_machine(one) for one in ("127.0.0.1", "255.255.255.0", "0.0.0.0", "1.2.3", "::1"))  # noqa: S104


TRUE = {
    "email": ["anna@example.org", "bob.smith@mail.example.co.uk"],
    "phone": ["+49 170 1234567", "(212) 555-0123", "030 1234567"],
    "iban": ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432"],
    "card": ["4111 1111 1111 1111", "5500005555555559"],
    "national_id": ["123-45-6789", "219-09-9999"],
    "ip_address": ["8.8.8.8", "2001:0db8:0000:0000:0000:0000:0000:0001"],
    "secret": [
        "https://example.org/x?token=abcdef123456",
        "AKIAABCDEFGHIJKLMNOP",
        "https://user:hunter22@example.org/",
    ],
}


@pytest.mark.parametrize("kind", TRUE)
def test_each_kind_is_found_by_its_form_whatever_the_column_is_called(kind: str) -> None:
    (seen,) = find_personal(pl.DataFrame({"x": TRUE[kind] * 5}))
    assert (seen.kind, seen.rows, seen.share, seen.within) == (kind, 5 * len(TRUE[kind]), 1.0, False)


@pytest.mark.parametrize("kind", TRUE)
def test_each_kind_is_found_inside_longer_texts(kind: str) -> None:
    texts = [f"the customer wrote to us on Monday and said {one} and then good bye" for one in TRUE[kind]]
    found = find_personal(pl.DataFrame({"note": texts}))
    assert [seen.kind for seen in found] == [kind]
    assert found[0].within


@pytest.mark.parametrize(
    "values",
    [
        ["2024-01-05", "2024-02-06", "05.06.2024", "05/06/2024"],
        ["1.2.3", "10.20.1", "2.0.0"],
        ["1234567", "8901234", "12345.67"],
        ["blue widget", "red widget", "green widget"],
        ["https://example.org/a", "https://example.org/b?page=2"],
        ["10:30", "11:45", "23:59"],
        ["@home", "user@", "a @ b"],
        ["4111111111111112", "4111111111111113", "4111111111111114"],
        ["ab12 some text here more", "cd34 word word word"],
    ],
)
def test_what_only_looks_a_little_like_it_is_not_personal(values: list[str]) -> None:
    assert find_personal(pl.DataFrame({"x": values * 5})) == []


def test_random_long_numbers_are_no_cards_though_one_in_ten_passes_the_check() -> None:
    rng = random.Random(5)  # noqa: S311
    numbers = [str(rng.randrange(4 * 10**15, 5 * 10**15)) for _ in range(500)]
    assert 20 < sum(map(is_card, numbers)) < 100
    assert find_personal(pl.DataFrame({"order": numbers})) == []
    assert find_personal(pl.DataFrame({"order": [int(number) for number in numbers]})) == []


@pytest.mark.parametrize(
    ("column", "values", "kind"),
    [
        ("first_name", ["Anna", "Bob", "Zoë"], "name"),
        ("name", ["Ada Lovelace", "Alan Turing", "Grace Hopper", "Kurt Gödel", "Emmy Noether", "Jan van Eyck"], "name"),
        ("dateOfBirth", ["1980-01-01", "1975-05-05"], "birth_date"),
        ("Street Address", ["12 Main Street", "Hauptstraße 5"], "postal_address"),
        ("zip", ["10115", "80331"], "postal_address"),
        ("mobile", ["1701234567", "1709876543"], "phone"),
        ("password", ["hunter22", "correct-horse"], "secret"),
        ("diagnosis", ["flu", "cold"], "special_category"),
        ("lat", [52.5, 48.1], "location"),
        ("SSN", ["123456789", "987654321"], "national_id"),
    ],
)  # fmt: skip
def test_the_name_of_a_column_and_its_content_tell_together(column: str, values: list[object], kind: str) -> None:
    assert [seen.kind for seen in find_personal(pl.DataFrame({column: values * 5}))] == [kind]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("product_name", ["Blue Widget", "Red Widget", "Green Gadget", "Big Box", "Small Box", "Old Hat"]),
        ("birth_place", ["Berlin", "Paris"]),
        ("platform", ["web", "ios"]),
        ("shipping", ["fast", "slow"]),
        ("female", ["yes", "no"]),
    ],
)
def test_a_name_that_hints_is_not_enough(column: str, values: list[str]) -> None:
    assert find_personal(pl.DataFrame({column: values * 5})) == []


@pytest.mark.parametrize("kind", TRUE)
def test_a_mask_hides_the_value_and_redaction_finds_it(kind: str) -> None:
    for text in TRUE[kind]:
        hidden = mask(kind, text)  # type: ignore[arg-type]
        assert "*" in hidden
        assert text not in hidden
        assert sum(c.isdigit() for c in hidden) <= 4
        assert text not in redact(f"see {text} there")


def test_masks_are_these() -> None:
    assert mask("email", "anna@example.org") == "a***@example.org"
    assert mask("card", "4111 1111 1111 1111") == "**** **** **** 1111"
    assert mask("iban", "DE89 3704 0044 0532 0130 00") == "DE** **** **** **** **** 00"
    assert mask("national_id", "123-45-6789") == "***-**-**89"
    assert mask("name", "Ada Lovelace") == "A*** L***"
    assert mask("phone", "123") == "***"


def test_a_curtain_masks_the_column_and_redacts_the_others() -> None:
    frame = pl.DataFrame(
        {"name": ["Ada Lovelace"] * 9, "note": ["write to ada@example.org, please, whenever you like"] * 9}
    )
    curtain = curtain_for(find_personal(frame.rename({"name": "full_name"})))
    assert curtain.show("full_name", "Ada Lovelace") == "A*** L***"
    assert curtain.show("note", "write to ada@example.org") == "write to a***@example.org"
    assert len(curtain.show("other", "x" * 1000)) <= 60
