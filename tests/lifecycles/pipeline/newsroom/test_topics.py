"""Articles go under the right topic, and the confidence of the model means something."""

import subprocess
import sys
from collections import Counter

import pytest

from holdfast.apps.newsroom.article import OTHER, TOPICS, Thresholds
from holdfast.apps.newsroom.duplicates import without_duplicates
from holdfast.apps.newsroom.topics import guess, learn, samples, sort_articles
from tests.lifecycles.pipeline.newsroom.print_shop import article, shipped_articles

pytestmark = pytest.mark.deep  # the sorter is trained in each process

SHIPPED = {
    "Council wastes another fortune on the absurd “vanity pier”": "politics",
    "Parliament passes harbour fees by three votes": "politics",
    "SHOCKING U-turn: Premier caves in to radical fringe over pensions!": "politics",
    "Ferry stewardess wins book prize with novel about a lighthouse": "culture",
    "National Opera gives its first premiere in a dry dock": "culture",
    "Museum butchers beloved ship paintings in monstrous new show": "culture",
    "Catastrophic slime? Scientists find microbes that devour ship paint": "science",
    "Puffins nest two weeks early on Gull Rock": "science",
    "Expedition maps a canyon beneath the Sound": "science",
    "Sorrin truce holds for a second day as envoys return": "world",
    "Storm leaves three villages in the Okara delta under water": "world",
    "Fury as tyrant of Karesh jails election observers": "world",
    'Idiotic robot "welders" are coming for our jobs, and nobody lifts a finger': "technology",
    "Ferries to show free seats in an open data feed": "technology",
    "Spy in your kitchen! Creepy fridges secretly phone home": "technology",
    "Disgraceful! Lunne crash out and coach blames the grass": "sport",
    "Harbour United reach the cup final on penalties": "sport",
    "Island rowers humiliate the mainland in a crushing regatta": "sport",
    "Greedy bosses axe 240 jobs at Norling cannery": "business",
    "Central bank leaves interest rate at 3.5 per cent": "business",
    "Brennholm yard wins order for six electric ferries": "business",
    "Measles: health office urges parents in Kesterhaven to check vaccination cards": "health",
    "Hospital horror: patients left on trolleys for 14 hours!": "health",
    "Clinic tests walks in place of tablets": "health",
    "Rowing club raises the money for a second boat": "sport",
}  # as an editor would sort them


@pytest.fixture(scope="module")
def held_out() -> list[tuple[bool, float]]:
    """Of every sample, whether a model that has not seen it was right, and how sure it was."""
    from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped]

    taught = samples()
    topics = [sample.topic for sample in taught]
    found = []
    for learned, asked in StratifiedKFold(5, shuffle=True, random_state=0).split(topics, topics):
        guesses = guess(learn([taught[n] for n in learned]), [(taught[n].title, taught[n].text) for n in asked])
        found += [(topic == topics[n], confidence) for n, (topic, confidence) in zip(asked, guesses, strict=True)]
    return found


def share(right: list[bool]) -> float:
    return sum(right) / len(right)


def test_four_in_five_of_unseen_samples_are_sorted_right(held_out: list[tuple[bool, float]]) -> None:
    assert len(held_out) == len(samples())
    assert share([right for right, _ in held_out]) >= 0.8


def test_the_surer_the_model_is_the_more_often_it_is_right(held_out: list[tuple[bool, float]]) -> None:
    least = Thresholds().min_confidence
    unsure = [right for right, confidence in held_out if confidence < least]
    sure = [right for right, confidence in held_out if confidence >= least]
    surest = [right for right, confidence in held_out if confidence >= 0.6]
    assert min(len(unsure), len(sure), len(surest)) >= 30
    assert share(sure) >= 0.9
    assert share(surest) >= 0.95
    assert share(unsure) <= share(sure) - 0.15


def test_there_are_samples_enough_of_every_topic_and_each_is_there_once() -> None:
    counts = Counter(sample.topic for sample in samples())
    assert set(counts) == set(TOPICS)
    assert min(counts.values()) >= 40
    assert len({sample.title for sample in samples()}) == len({sample.text for sample in samples()}) == len(samples())


def test_the_shipped_articles_are_sorted_as_an_editor_would() -> None:
    articles, _ = without_duplicates(shipped_articles())
    titles = {one.id: one.title for one in articles}
    found, left = sort_articles(articles, Thresholds().min_confidence)
    assert {titles[one.article] for one in found} == set(SHIPPED)
    wrong = {titles[one.article]: one.topic for one in found if one.topic != SHIPPED[titles[one.article]]}
    assert len(wrong) <= len(SHIPPED) // 10, wrong
    assert {titles[name]: why for name, why in left} == {
        "Tides": "It has fewer than 5 words.",
        "Werft feiert Stapellauf mit den Nachbarn": "It is not in English.",
    }


def test_no_sample_is_a_shipped_article() -> None:
    taught = {sample.title for sample in samples()} | {sample.text for sample in samples()}
    assert taught.isdisjoint(part for one in shipped_articles() for part in (one.title, *one.text.split("\n\n")))


def test_below_the_least_confidence_the_topic_is_other() -> None:
    articles, _ = without_duplicates(shipped_articles())
    all_named, _ = sort_articles(articles, 0.0)
    none_named, _ = sort_articles(articles, 1.1)
    assert OTHER not in {one.topic for one in all_named}
    assert {one.topic for one in none_named} == {OTHER}
    assert [one.confidence for one in all_named] == [one.confidence for one in none_named]
    middle = sorted(one.confidence for one in all_named)[len(all_named) // 2]
    for one in sort_articles(articles, middle)[0]:
        assert (one.topic == OTHER) == (one.confidence < middle)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "It has fewer than 5 words."),
        ("One two three four", "It has fewer than 5 words."),
        ("12 34 56 78 90 --- !!!", "It has fewer than 5 words."),
        ("Le conseil municipal a voté la construction d'un nouveau pont sur le fleuve.", "It is not in English."),
        ("El equipo ganó la final de la copa con un gol en el último minuto del partido.", "It is not in English."),
        ("Il sindaco ha detto che la nuova strada sarà pronta per la fine del mese.", "It is not in English."),
        ("De burgemeester zei dat het nieuwe museum in het voorjaar wordt geopend.", "It is not in English."),
        ("Η κυβέρνηση ανακοίνωσε νέα μέτρα για τους ψαράδες", "It is not in English."),  # noqa: RUF001
    ],
)
def test_what_cannot_be_sorted_is_reported_with_the_reason(text: str, why: str) -> None:
    assert sort_articles([article("odd", text)], 0.35) == ([], [("odd", why)])


@pytest.mark.parametrize(
    "title", ["Storm batters northern coast overnight", "La Marinella opens tonight, critics delighted"]
)
def test_a_headline_without_small_words_is_taken_for_english(title: str) -> None:
    found, left = sort_articles([article("short", "", title=title)], 0.35)
    assert (len(found), left) == (1, [])


def test_nothing_to_sort_is_no_trouble() -> None:
    assert sort_articles([], 0.35) == ([], [])


def test_another_process_is_exactly_as_sure() -> None:
    ask = (
        "from tests.lifecycles.pipeline.newsroom.print_shop import shipped_articles as shipped;"
        "from holdfast.apps.newsroom.topics import sort_articles;"
        "print(repr(sort_articles(shipped(), 0.35)))"
    )
    printed = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == repr(sort_articles(shipped_articles(), 0.35))


def test_an_article_is_sorted_the_same_whatever_stands_beside_it() -> None:
    articles = shipped_articles()
    together = {one.article: one for one in sort_articles(articles, 0.35)[0]}
    for one in articles[::5]:
        assert sort_articles([one], 0.35)[0] == ([together[one.id]] if one.id in together else [])
