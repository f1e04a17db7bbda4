"""Softening by rules: what goes, what stays to the letter, and that a second time changes nothing."""

# ruff: noqa: RUF001 - typographic marks are what this is about

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.apps.newsroom.article import Article, Change, Neutral
from holdfast.apps.newsroom.lexicon import GAP, KEPT, lexicon
from holdfast.apps.newsroom.neutralize import loadedness, soften

NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


def softened(text: str, softening: float = 0.5) -> Neutral:
    return soften(Article("a", "Courier", "Title", text), softening)


def headline(title: str, text: str = "") -> str:
    return soften(Article("a", "Courier", title, text), 0.5).title


@pytest.mark.parametrize(
    ("loaded", "plain"),
    [
        ("The minister slammed the plan.", "The minister criticised the plan."),
        ("They slam it; she slams it.", "They criticise it; she criticises it."),
        ("He is slamming it.", "He is criticising it."),
        ("Slammed by unions, the bill failed.", "Criticised by unions, the bill failed."),
        ("Furious MPs met.", "Angry MPs met."),
        ("It was a disastrous evening.", "It was an unsuccessful evening."),
        ("An utterly useful tool and an absolutely fine one.", "A useful tool and a fine one."),
        ("A shocking hour.", "An unexpected hour."),
        ("The plan, shockingly, failed.", "The plan failed."),
        ("Shockingly, the plan failed.", "The plan failed."),
        ("The plan failed utterly, and they left.", "The plan failed, and they left."),
        ("He was utterly, completely wrong.", "He was wrong."),
        ("It was utterly and totally false.", "It was false."),
        ("They were brutally and quickly removed.", "They were quickly removed."),
        ("They were quickly and brutally removed.", "They were quickly removed."),
        ("The so-called reform and the regime's answer.", "The reform and the government's answer."),
        ("Prices have soared.", "Prices have increased."),
        ("It rained again!! Nobody came!", "It rained again. Nobody came."),
        ("Did they win?!", "Did they win?"),
        ("It is over (!) for them.", "It is over for them."),
        ("This is TOTALLY unfair to UNESCO and NATO.", "This is unfair to UNESCO and NATO."),
        ("The “experts” were late.", "The experts were late."),
        ("The 'reform' and the \"new deal\" failed.", "The reform and the new deal failed."),
    ],
)  # fmt: skip
def test_a_loaded_expression_becomes_a_plain_one_and_the_sentence_stays_whole(loaded: str, plain: str) -> None:
    assert softened(loaded).text == plain


@pytest.mark.parametrize(
    "text",
    [
        'She said: "You slammed a shocking plan!!"',
        "“A shocking, utterly disastrous plan!” he said.",
        "‘It was a disastrous day’, he said.",
        "'It was a disastrous day!' he said.",
        '"This quote goes on, shocking as it is, and nobody closes it.',
        'He called it "shocking".',
        'She described the deal as "utterly disastrous" on Monday.',
        '"Shocking," he said.',
        'They watched "Jaws" again.',
        "Fans of Shocking Blue met at Slam Dunk Records.",
        "Shocking Blue played first.",
        "She won a grand slam and the tax regime stayed.",
        "See https://example.org/slammed-by-shocking!! or mail slam@shocking.example now.",
        "The merger of Yahoo! and another firm.",
        "In mid-1999 it was 5,000.25 m at 10:30.",
        "Absolutely.",
        "Rock 'n' roll.",
        "The Economic Community (ECOWAS) and ECOWAS itself, NSPCC too.",
        "The workers' union met at 6' 2\" tall.",
    ],
)
def test_quotes_names_numbers_and_links_are_never_touched(text: str) -> None:
    assert softened(text, 0.0) == Neutral("a", "Title", text, ())


def test_the_rest_of_a_paragraph_is_a_quote_if_nobody_closes_it_but_the_next_paragraph_is_not() -> None:
    text = 'A disastrous day.\n\n"It was a disastrous day\n\nIt was a disastrous day.'
    assert softened(text).text == 'An unsuccessful day.\n\n"It was a disastrous day\n\nIt was an unsuccessful day.'


def test_every_change_is_reported_with_its_kind() -> None:
    found = softened('He slammed the "deal", utterly wrong!')
    assert found.changes == (
        Change("slammed", "criticised", "verb"),
        Change("utterly", "", "intensifier"),
        Change("!", ".", "punctuation"),
    )
    assert found.text == 'He criticised the "deal", wrong.'


def test_a_headline_with_capitals_everywhere_is_softened_but_for_names_that_the_text_knows() -> None:
    assert headline("Minister Slams Disastrous Tax Plan!") == "Minister Criticises Tax Plan"
    text = "Nobody had heard of Shocking Blue before."
    assert headline("Shocking Blue Tour Slammed By Fans", text) == "Shocking Blue Tour Criticised By Fans"


def test_a_shouted_headline_becomes_a_sentence() -> None:
    assert headline("MINISTER SLAMS THE BUDGET IN LONDON") == "Minister criticises the budget in London"


def test_a_shouted_name_keeps_its_capital_where_the_article_writes_it() -> None:
    assert headline("MARLOW WINS", "The mayor, Marlow, won.") == "Marlow WINS"


def test_only_what_is_loaded_enough_is_softened_and_at_one_nothing_is() -> None:
    text = "A SHOCKING, massive and disastrous plan!"
    assert softened(text, 0.7).text == "An unexpected, massive and unsuccessful plan."
    assert softened(text, 0.2).text == "An unexpected, large and unsuccessful plan."
    assert softened(text, 1.0).text == text


def test_the_lexicon_is_large_and_none_of_its_replacements_is_loaded() -> None:
    entries = [one for found in lexicon().values() for one in found if one.kind != KEPT]
    assert len({(one.instead, one.kind, one.words[0][:4]) for one in entries}) >= 250
    assert all(0 < one.strength < 1 for one in entries)
    assert {one.kind for one in entries} == {"verb", "adjective", "sensation", "alarm", "label", "intensifier"}
    for one in entries:
        sentence = f"they met and {one.instead} again"
        assert softened(sentence, 0.0).text == sentence, one


def test_each_expression_of_the_lexicon_is_found_in_a_sentence() -> None:
    for found in lexicon().values():
        for one in found:
            phrase = " ".join(one.words).replace(GAP, "all 40 of them")
            sentence = f"they met and will {phrase} again" if one.verb_only else f"they met and {phrase} again"
            if one.kind != KEPT:
                assert softened(sentence, 0.0).changes, one


def test_loadedness_grows_with_what_is_loaded_and_forgets_quotes() -> None:
    plain = "The council met on Monday and passed the budget after some debate."
    loaded = plain.replace("passed", "slammed")
    worse = loaded.replace("some", "a shocking")
    assert loadedness("") == loadedness(plain) == 0.0
    assert 0 < loadedness(loaded) < loadedness(worse) < 1
    assert loadedness(f'{plain} "A shocking, disastrous farce," she said.') == 0.0
    assert loadedness(softened(worse).text) == 0.0


QUOTES = ['"You slammed a shocking plan!"', "“Utterly disastrous, 40 times!”", "‘It is a shocking, sad day’"]
PIECES = [
    *("slammed", "SHOCKING", "Shocking", "a", "an", "An", "disastrous", "utterly", "so-called", "and", ",", "."),
    *("!", "!!", "I", "bomb", "time", "fire", "under", "U.S."),
    *("regime's", "the plan", "Minister Mary Jones", "said", "5,000", "3.5 %", "in 2024", "?!", "(!)", ":", "\n\n"),
    *("https://example.org/slam!!", '"experts"', "‘reform’", "LONDON", "grand slam", "Dr. Slam", "—", "(utterly)"),
    *("you won't believe", "shockingly", "brutally", "quickly", "hour", "useful"),
]  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from([*QUOTES, *PIECES]), max_size=25), st.sampled_from([0.0, 0.5, 0.7]))
def test_quotes_and_numbers_survive_and_a_second_time_changes_nothing(pieces: list[str], softening: float) -> None:
    text = " ".join(pieces)
    once = softened(text, softening)
    assert [piece for piece in pieces if piece in QUOTES] == re.findall("|".join(map(re.escape, QUOTES)), once.text)
    assert NUMBER.findall(once.text) == NUMBER.findall(text)
    assert softened(once.text, softening) == Neutral("a", "Title", once.text, ())
    assert "  " not in once.text


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="aA slmMED.,!?'\"“”‘’1-\n", max_size=80), st.text(alphabet="aAn utERly!\"'", max_size=40))
def test_any_text_at_all_is_stable_after_one_time(text: str, title: str) -> None:
    once = soften(Article("a", "Courier", title, text), 0.0)
    again = soften(Article("a", "Courier", once.title, once.text), 0.0)
    assert (again.title, again.text, again.changes) == (once.title, once.text, ())
    assert NUMBER.findall(once.text) == NUMBER.findall(text)
