"""What a text names is found: written in many ways, with one value, and never at the cost of time without end."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.apps.documents import entities
from holdfast.apps.documents.entities import Entity, find_entities, load


def found(text: str) -> list[tuple[str, str]]:
    return [(each.kind, each.value) for each in find_entities(text)]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-11-16", "2026-11-16"),
        ("2026/11/16", "2026-11-16"),
        ("16.11.2026", "2026-11-16"),
        ("31/12/2025", "2025-12-31"),
        ("12/31/2025", "2025-12-31"),
        ("07/07/2025", "2025-07-07"),
        ("16 November 2026", "2026-11-16"),
        ("16th of November, 2026", "2026-11-16"),
        ("November 16, 2026", "2026-11-16"),
        ("Nov. 16th 2026", "2026-11-16"),
        ("16. Dezember 2024", "2024-12-16"),
        ("1er juillet 1999", "1999-07-01"),
        ("3 de mayo de 1808", "1808-05-03"),
        ("May 2020", "2020-05"),
        ("16\nNovember 2026", "2026-11-16"),
    ],
)
def test_a_day_has_one_value_however_it_is_written(written: str, meant: str) -> None:
    assert found(f"It was on {written}, they say.") == [("date", meant)]


@pytest.mark.parametrize(
    "written", ["03/04/2026", "2026-02-30", "31.11.2026", "99/99/2026", "1.2.3.2026", "16-11-20261"]
)
def test_what_is_no_day_or_may_be_either_of_two_is_none(written: str) -> None:
    assert found(f"It says {written} here") == []


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("€1.250,50", "EUR 1250.5"),
        ("$1,250.50", "USD 1250.5"),
        ("1 250,50 €", "EUR 1250.5"),
        ("$3.5 million", "USD 3500000"),
        ("US$ 5bn", "USD 5000000000"),
        ("CHF 12'000", "CHF 12000"),
        ("1,000 euros", "EUR 1000"),
        ("20 million dollars", "USD 20000000"),
        ("£7", "GBP 7"),
        ("¥12,345,678", "JPY 12345678"),
    ],
)
def test_money_has_a_currency_and_an_amount(written: str, meant: str) -> None:
    assert found(f"They paid {written}, no less.") == [("money", meant)]


@pytest.mark.parametrize(
    ("text", "kind", "value", "written"),
    [
        ("some 12.5% of it", "percentage", "12.5%", "12.5%"),
        ("minus: −3,25 % in all", "percentage", "-3.25%", "−3,25 %"),  # noqa: RUF001
        ("by 20 per cent.", "percentage", "20%", "20 per cent"),
        ("write to Ada.L@Example.ORG.", "email", "ada.l@example.org", "Ada.L@Example.ORG"),
        ("see (https://A.org/Tide_(water)).", "url", "https://a.org/Tide_(water)", "https://A.org/Tide_(water)"),
        ("at www.example.org/a?b=c, where", "url", "http://www.example.org/a?b=c", "www.example.org/a?b=c"),
        ("call +44 (0)20 7946 0958 now", "phone", "+442079460958", "+44 (0)20 7946 0958"),
        ("to DE89 3704 0044 0532 0130 00 please", "iban", "DE89370400440532013000", "DE89 3704 0044 0532 0130 00"),
        ("said Dr. Ada Lovelace, who", "person", "Ada Lovelace", "Dr. Ada Lovelace"),
        ("said Prof. Dr. med. Jan van Eyck.", "person", "Jan van Eyck", "Prof. Dr. med. Jan van Eyck"),
        ("by Ms. J. K. Rowling and", "person", "J. K. Rowling", "Ms. J. K. Rowling"),
        ("with Mrs. de la Cruz in", "person", "de la Cruz", "Mrs. de la Cruz"),
        ("Then Harbour & Sons Ltd. came", "organisation", "Harbour & Sons Ltd", "Harbour & Sons Ltd."),
        ("the Alte Fähren\nGmbH & Co. KG.", "organisation", "Alte Fähren GmbH & Co. KG", "Alte Fähren\nGmbH & Co. KG"),
        ("of Foo, Inc. in", "organisation", "Foo, Inc", "Foo, Inc."),
        ("in Côte d'Ivoire.", "country", "Côte d'Ivoire", "Côte d'Ivoire"),
        ("the Ivory Coast, too", "country", "Côte d'Ivoire", "Ivory Coast"),
        ("in Köln-Mülheim", "city", "Cologne", "Köln"),
        ("in Washington, D.C. today", "city", "Washington, D.C.", "Washington, D.C."),
        ("they speak Haitian Creole there", "language", "Haitian Creole", "Haitian Creole"),
        ("in pounds sterling or", "currency", "GBP", "pounds sterling"),
    ],
    ids=lambda value: "".join(character for character in value if character.isascii())[:24].strip(),
)  # fmt: skip
def test_a_thing_is_found_where_it_stands_with_its_value(text: str, kind: str, value: str, written: str) -> None:
    start = text.index(written)
    assert find_entities(text) == [Entity(kind, value, written, start, start + len(written))]


@pytest.mark.parametrize(
    "text",
    [
        "DE88 3704 0044 0532 0130 00",  # the check digits are wrong
        "an Omani, a Chadian, Nigeriana, XParis, Paris2",
        "germany and paris in small letters",
        "Mr. and Dr. 7 and Ms. who",
        "the company, a limited company, Ltd, and: Inc.",
        "a@b, @example.org, someone@localhost",
        "http://, www., https://localhost:80",
        "+49 12, 0301234567, 1 + 1234567",
        "5 of 10, 1,000 and 3.14",
    ],
)
def test_what_only_resembles_a_thing_is_none(text: str) -> None:
    assert find_entities(text) == []


def test_of_two_that_overlap_the_longer_one_stays() -> None:
    assert found("New York City") == [("city", "New York")]
    assert found("the Bank of Ireland Ltd in Ireland") == [
        ("organisation", "Bank of Ireland Ltd"), ("country", "Ireland"),
    ]  # fmt: skip
    assert found("New York Cityscape") == [("city", "New York")]
    assert found("South Sudan, Sudan, Guinea-Bissau, Papua New Guinea") == [
        ("country", "South Sudan"), ("country", "Sudan"), ("country", "Guinea-Bissau"), ("country", "Papua New Guinea"),
    ]  # fmt: skip
    assert found("Dr. Ada Lovelace of Harbour Ltd and the Dr. Oetker GmbH") == [
        ("person", "Ada Lovelace"), ("organisation", "Harbour Ltd"), ("organisation", "Oetker GmbH"),
    ]  # fmt: skip


@given(
    st.lists(
        st.sampled_from(
            [
                "Dr.",
                "Ada",
                "van",
                "Ltd.",
                "Acme",
                "&",
                "of",
                "5",
                "%",
                "$",
                "€",
                ",",
                ".",
                " ",
                "\n",
                "2026",
                "-11",
                "-16",
                "May",
                "16 ",
                "/",
                "+49",
                "1234567",
                "a@b.org",
                "http://",
                "www.a.b",
                "Paris",
                "New York",
                "é",
                "🙂",
                "(",
                ")",
            ]
        ),
        max_size=60,
    ).map("".join)
)
@settings(max_examples=200, deadline=None)
def test_findings_are_in_order_and_overlap_nowhere(text: str) -> None:
    last = 0
    for each in find_entities(text):
        assert last <= each.start < each.end
        assert text[each.start : each.end] == each.text
        assert each.value
        last = each.end
    assert find_entities(text) == find_entities(text)


def test_a_long_text_is_read_to_its_end_and_places_count_from_its_beginning() -> None:
    text = "The tide came in and went out again. " * 6_000 + "It was seen in Lisbon on 16 November 2026."
    assert [(text[each.start : each.end], each.kind) for each in find_entities(text)] == [
        ("Lisbon", "city"), ("16 November 2026", "date"),
    ]  # fmt: skip


def test_of_very_many_the_first_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entities, "most_entities", 100)
    monkeypatch.setattr(entities, "window_characters", 50)
    assert [each.start for each in find_entities("5% " * 1000)] == [3 * number for number in range(100)]


@pytest.mark.timeout(50)
@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "1 ",
        ",000",
        "a@",
        "b.",
        "Aa ",
        "A-",
        "Dr. ",
        "Dr. A. ",
        "de ",
        " Ltd",
        "http://",
        ".)",
        "+1 (",
        "DE89 ",
        "1.1.",
        "\n",
        "may ",
        "the ",
    ],
)
def test_no_text_takes_time_out_of_proportion(piece: str) -> None:
    find_entities(piece * (100_000 // len(piece)))


def test_a_name_in_the_list_means_one_thing() -> None:
    _, meant = load()
    lines = Path(entities.__file__).with_name("names.tsv").read_text("utf-8").splitlines()
    names = [name for line in lines for name in line.split("\t")[2].split("|")]
    assert len(names) == len(set(names)) == len(meant)
    assert {line.split("\t")[0] for line in lines} == {"country", "city", "currency", "language"}
