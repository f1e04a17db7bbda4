"""What an editor would write for sentences as loud papers write them, and that the shipped papers come out so."""

import re
from datetime import UTC, datetime

import pytest

from holdfast.apps.newsroom.article import Article, Thresholds
from holdfast.apps.newsroom.brief import assemble
from holdfast.apps.newsroom.neutralize import soften
from holdfast.apps.newsroom.page import as_html, as_markdown
from tests.lifecycles.pipeline.newsroom.print_shop import shipped_articles
from tests.tiers import deep_after

HEADLINES = [
    ("SHOCKING U-turn: Premier caves in to radical fringe!", "U-turn: Premier gives way to minority"),
    ("Catastrophic slime? Scientists find paint devoured", "Slime? Scientists find paint consumed"),
    ("Disgraceful! Lunne crash out and coach blames the grass", "Lunne go out and coach blames the grass"),
    ("Greedy bosses axe 240 jobs at cannery", "Managers cut 240 jobs at cannery"),
    ("Council wastes another fortune on the absurd “vanity pier”", "Council spends more on the pier"),
    ("Fury as tyrant of Karesh jails observers", "Anger as leader of Karesh jails observers"),
    ("Hospital horror: patients left on trolleys for 14 hours!", "Hospital: patients left on trolleys for 14 hours"),
    ("Spy in your kitchen! Creepy fridges secretly phone home", "Spy in your kitchen: Fridges phone home"),
    ("Island rowers humiliate the mainland in a crushing regatta", "Island rowers defeat the mainland in a regatta"),
    ("Museum butchers beloved ship paintings in monstrous new show", "Museum reworks ship paintings in new show"),
    ("Ministers blast plan as rivals mock premier", "Ministers criticise plan as rivals criticise premier"),
    ("Minister Slams Absurd And Shameful Tax Plan", "Minister Criticises Tax Plan"),
]  # fmt: skip
SENTENCES = [
    ("In a humiliating climbdown, she dropped the bill.", "In a change of course, she dropped the bill."),
    ("Outrageous: smart fridges were sending photos.", "Smart fridges were sending photos."),
    ("Heartless managers shamefully blamed the flu.", "Managers blamed the flu."),
    ("The bloated owners are callously closing the plant.", "The owners are closing the plant."),
    ("They are throwing 240 workers onto the street.", "They are dismissing 240 workers."),
    ("The brutal regime has thrown six observers into prison.", "The government has jailed six observers."),
    ("Rebels threw Mara Lund into prison.", "Rebels jailed Mara Lund."),
    ("What a pathetic collapse! They lost.", "They lost."),
    ("They finished a pitiful fifth.", "They finished fifth."),
    ("It cost a staggering 40 million crowns.", "It cost 40 million crowns."),
    ("Voters are furious, and rightly so!", "Voters are angry."),
    ("Coach Hart had the nerve to blame the pitch.", "Coach Hart blamed the pitch."),
    ("They squandered a lead and threw away their place.", "They lost a lead and lost their place."),
    ("He was caught in a shameful, cowardly and vile lie.", "He was caught in a lie."),
    ("The spineless council rubber-stamped the budget.", "The council approved the budget."),
    ("A tiny band of radical backbenchers met.", "A group of backbenchers met."),
    ("The firm hyped products; the hyped machines failed.", "The firm promoted products; the machines failed."),
    ("The embattled minister is embattled.", "The minister is under pressure."),
    ("Cash-strapped councils are cash-strapped.", "Councils are short of money."),
    ("The absurd plan is absurd.", "The plan is questionable."),
    ("It would be stupid to leave.", "It would be unwise to leave."),
    ("It was a disastrous evening for the club.", "It was an unsuccessful evening for the club."),
    ("Ministers came under fire.", "Ministers faced criticism."),
    ("The ruling outraged residents.", "The ruling angered residents."),
    ("Soaring prices have plummeted since.", "Rising prices have dropped since."),
    ("The plan faced a backlash.", "The plan faced criticism."),
    ("Police promised to slash the nightmare queues.", "Police promised to cut the queues."),
    ("The hype was public; managers hype the plan.", "The publicity was public; managers promote the plan."),
    ("Union bosses met angry crowds.", "Union leaders met angry crowds."),
]  # fmt: skip
# Blanks before a mark, two articles, or the wrong one.
BROKEN = re.compile(r" [,.;:]|  |,,|\b(?:a|an|the) (?:a|an|the)\b|\ba [aeio]|\ban [^aeiouhAEIOUFHLMNRSX8]")
LITERAL = [
    "He took an axe to the tree.",
    "The train derailed near Lunne.",
    "She lectured at the university.",
    "He had a brain haemorrhage.",
    "The volcano spewed ash.",
    "Local butchers say that meat is dear.",
    "They sold mandarins and a mammoth tusk.",
    "The troops came under fire.",
    "School bullies were told that bullying hurts.",
    "The bridge is not completely closed.",
    "It is enforced more brutally than before.",
    "Two men were crushed in the crowd.",
    "Police fired back at the gunman, and dogs barked.",
    "She threw the ball into the garden.",
]


@pytest.mark.parametrize(("loud", "sober"), HEADLINES)
def test_a_headline_reads_as_an_agency_would_write_it(loud: str, sober: str) -> None:
    assert soften(Article("a", "Beacon", loud, ""), 0.5).title == sober


@pytest.mark.parametrize(("loud", "sober"), SENTENCES)
def test_a_sentence_reads_as_an_agency_would_write_it(loud: str, sober: str) -> None:
    assert soften(Article("a", "Beacon", "Title", loud), 0.5).text == sober


@pytest.mark.parametrize("sentence", LITERAL)
def test_what_is_meant_literally_stays(sentence: str) -> None:
    assert soften(Article("a", "Beacon", "Title", sentence), 0.5).text == sentence


@pytest.mark.parametrize("word", deep_after(1, ["slammed! ", "absurd ", "absurd, ", "utterly ", "What a ", "throw "]))
@pytest.mark.timeout(30)
def test_a_long_text_of_one_word_takes_seconds(word: str) -> None:
    soften(Article("a", "Beacon", "Title", word * (60_000 // len(word))), 0.0)


def test_the_shipped_papers_come_out_whole_and_keep_every_number() -> None:
    for article in shipped_articles():
        neutral = soften(article, Thresholds().softening)
        softened = f"{neutral.title}\n{neutral.text}"
        assert re.findall(r"\d+", softened) == re.findall(r"\d+", f"{article.title}\n{article.text}")
        assert not BROKEN.search(softened), softened
        assert not re.search(r"(?:^|[.?!] |\n)[a-zà-ÿ]", neutral.text), softened


def test_the_page_has_printers_marks_and_no_line_ends_inside_a_score_or_an_amount() -> None:
    text = 'Lunne won 4-2. "It cost 2.4 million," said Dr Moss of Ward\'s.'
    brief = assemble([Article("a", "Beacon", "Title", text)], [], [], 3)
    page = as_html(brief)
    assert "<span class=whole>4-2</span>" in page
    assert "“It cost 2.4\u00a0million,” said Dr\u00a0Moss of Ward\u2019s." in page
    assert '"It cost 2.4 million,"' in as_markdown(brief)


def test_an_entry_has_its_year_only_if_it_is_not_that_of_the_brief() -> None:
    dates = [datetime(2026, 1, 2, tzinfo=UTC), datetime(2025, 12, 31, tzinfo=UTC)]
    articles = [Article(f"a{date.year}", "Beacon", "Title", "Text.", published=date) for date in dates]
    brief = assemble(articles, [], [], 1)
    assert re.findall(r"<time[^>]*>([^<]*)<", as_html(brief)) == ["2 January", "31 December 2025"]
    assert re.findall(r"Beacon · ([\w ]+)", as_markdown(brief)) == ["2 January", "31 December 2025"]
