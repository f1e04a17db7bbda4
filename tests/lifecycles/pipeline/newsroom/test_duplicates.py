"""A story stands in the brief once, and no other story is lost for it."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.apps.newsroom.article import Article
from holdfast.apps.newsroom.duplicates import without_duplicates
from tests.lifecycles.pipeline.newsroom.print_shop import NOON, article, shipped_articles

STORY = (
    "The ferry to the islands ran aground in thick fog on Tuesday morning with ninety passengers aboard. Nobody was "
    "hurt, and a tug pulled the ship free at high tide. The captain said that the radar had failed shortly after six."
)
RETOLD = STORY.replace("in thick fog", "in dense fog").replace("Nobody was hurt", "No one was injured")


def test_the_same_link_is_the_same_story() -> None:
    short = article("1", "Short.", link="https://paper.example/a?utm_source=x")
    long = article("2", "Somewhat longer.", link="http://Paper.example/a#top")
    assert without_duplicates([short, long]) == ([long], 1)


def test_of_a_story_that_comes_twice_the_longer_text_stays() -> None:
    one, two = article("1", STORY, title="Ferry aground"), article("2", RETOLD + " More follows.", title="Fog")
    assert without_duplicates([one, two]) == ([two], 1)


def test_of_texts_equally_long_the_earlier_stays_then_the_first_id() -> None:
    later, earlier = article("1", STORY, at=NOON), article("2", STORY, at=NOON - timedelta(hours=1))
    assert without_duplicates([later, earlier]) == ([earlier], 1)
    assert without_duplicates([article("2", STORY), article("1", STORY)]) == ([article("1", STORY)], 1)


def test_two_stories_about_one_matter_both_stay() -> None:
    other = (
        "Inspectors boarded the ferry that ran aground on Tuesday and took its radar ashore. The line has cancelled "
        "all sailings to the islands until Friday, and angry travellers slept in the terminal."
    )
    assert without_duplicates([article("1", STORY), article("2", other)])[1] == 0


def test_a_column_that_is_printed_every_week_is_no_duplicate() -> None:
    weeks = [article(str(week), STORY, at=NOON + timedelta(weeks=week)) for week in range(3)]
    assert without_duplicates(weeks)[1] == 0


def test_short_notes_are_not_taken_for_one_another() -> None:
    assert (
        without_duplicates([article("1", "Closed today.", "Notice"), article("2", "Closed today.", "Notice")])[1] == 0
    )


def test_the_newest_come_first_and_the_undated_last() -> None:
    hours = [None, NOON, NOON + timedelta(hours=2), NOON, None]
    given_articles = [article(str(9 - number), f"Text {number}.", at=at) for number, at in enumerate(hours)]
    assert [one.id for one in without_duplicates(given_articles)[0]] == ["7", "6", "8", "5", "9"]


SENTENCES = STORY.split(". ")
ARTICLES = st.builds(
    lambda name, picked, at: article(name, ". ".join(picked), at=at and NOON + timedelta(hours=at)),
    st.sampled_from("abcdefgh"),
    st.lists(st.sampled_from([*SENTENCES, *RETOLD.split(". "), "Something else entirely happened"]), max_size=6),
    st.none() | st.integers(1, 300),
)


@given(st.lists(ARTICLES, max_size=8).flatmap(lambda made: st.tuples(st.just(made), st.permutations(made))))
@settings(max_examples=100, deadline=None)
def test_the_order_in_which_they_come_changes_nothing(both: tuple[list[Article], list[Article]]) -> None:
    made, mixed = both
    kept, left_out = without_duplicates(made)
    assert without_duplicates(mixed) == (kept, left_out)
    assert without_duplicates(kept) == (kept, 0)
    assert len(kept) + left_out == len(made)
    assert len({one.id for one in kept}) == len(kept)
    assert set(made) >= set(kept)


def test_three_shipped_stories_come_twice() -> None:
    articles = shipped_articles()
    kept, left_out = without_duplicates(articles)
    assert left_out == 3
    gone = {one.title for one in articles} - {one.title for one in kept}
    assert gone == {
        "Harbour fees scrape through parliament",
        "Lighthouse novel by ferry stewardess snatches book prize",
        "Parents in Kesterhaven told to check vaccination cards after measles cases",
    }
