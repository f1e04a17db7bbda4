"""Plausible English about made-up things, out of templates."""

import random
from dataclasses import dataclass

SYLLABLES = (
    "bal", "bren", "cor", "dax", "dru", "fen", "gor", "hil", "jas", "kel", "lum", "mav", "nor", "ox", "pel", "quin",
    "ras", "sel", "tor", "ul", "vex", "wim", "yar", "zun",
)  # fmt: skip
ENDINGS = ("adine", "ectra", "ifar", "omira", "undel", "yste", "oveen", "akket")

# What a topic is about: the things in it, who works on them, what they do, where, and what is measured.
TOPICS: dict[str, tuple[str, ...]] = {
    "harbours": ("quay wall|dredged channel|breakwater|container crane|tidal gate", "port engineers|pilots", "estuary"),
    "beekeeping": ("hive|brood frame|nectar flow|queen cell|swarm", "beekeepers|pollen analysts", "heathland"),
    "glaciers": (
        "ice tongue|meltwater lake|moraine|crevasse field|firn layer",
        "glaciologists|surveyors",
        "high valley",
    ),
    "railways": ("signal box|switch|catenary|timetable|sleeper", "dispatchers|track crews", "junction"),
    "bread": ("sourdough|oven floor|rye malt|proofing basket|crust", "bakers|millers", "old mill"),
    "telescopes": ("mirror segment|dome|spectrograph|guide star|detector", "astronomers|opticians", "plateau"),
    "libraries": ("card catalogue|reading room|manuscript|binding|shelf mark", "archivists|conservators", "old town"),
    "orchards": ("rootstock|frost candle|cider press|graft|blossom", "growers|pomologists", "river terrace"),
    "vaccines": ("cold chain|trial arm|antigen|dosing interval|vial", "immunologists|nurses", "field clinic"),
    "bridges": ("stay cable|bearing|pier footing|expansion joint|deck plate", "inspectors|welders", "gorge"),
    "coral reefs": ("polyp|bleaching event|larval drift|reef crest|algae mat", "divers|marine biologists", "atoll"),
    "textiles": ("loom|indigo vat|warp tension|carding drum|selvage", "weavers|dyers", "mill district"),
    "volcanoes": ("magma chamber|gas plume|tilt meter|ash layer|lava dome", "volcanologists|wardens", "crater rim"),
    "chess clubs": ("endgame study|opening book|score sheet|clock|pairing table", "arbiters|coaches", "town hall"),
    "wind farms": (
        "rotor blade|gearbox|yaw drive|substation|wake model",
        "technicians|meteorologists",
        "coastal ridge",
    ),
    "opera houses": ("fly tower|orchestra pit|libretto|stage lift|chorus", "conductors|stagehands", "capital"),
}
SENTENCES = (
    "For {years} years the {thing} of the {place} was looked after by {people}, who wrote down every change.",
    "In the {season} of {year} the {people} found that the {thing} had been misjudged by about {percent} percent.",
    "A {thing} is cheap to replace but hard to understand, and most {people} learn that only by loss.",
    "The {other} matters more than its size suggests: without it the {thing} fails within {days} days.",
    "Visitors to the {place} rarely notice the {other}, although half of all work on {topic} goes into it.",
    "Records from {year} show {number} repairs, most of them to the {thing}, and only a few to the {other}.",
    "When the {people} compared notes, they saw that the {other} and the {thing} had failed on the same day.",
    "Nobody disputes that {topic} cost money; what is disputed is who pays for the {thing}.",
    "The report on {topic} recommends a second {other}, at a distance of at least {number} metres.",
    "Since then the {people} of the {place} check the {thing} each {season}, and the {other} every {days} days.",
    "An early study of {topic} counted {number} cases and explained {percent} percent of them by the {other}.",
    "Older {people} remember how the {thing} was carried to the {place} by hand, piece by piece.",
)
FACTS = (
    "The {name} {object} was completed in {year} and holds exactly {number} {unit}.",
    "In {year} the {name} {object} was measured at {number} {unit}, a record that stands.",
    "Only the {name} {object} has ever reached {number} {unit}, and that was in {year}.",
)
OBJECTS = ("archive", "index", "ledger", "beacon", "protocol", "reservoir", "treaty", "engine")
UNITS = ("litres", "entries", "tonnes", "steps", "volts", "pages")
TITLES = (
    "Notes on {topic} and the {thing}",
    "What the {people} of the {place} know about {topic}",
    "The {thing} in {topic}: a report",
    "A short history of the {other} in {topic}",
)


@dataclass(frozen=True)
class Prose:
    """What a paper says. The fact is a sentence of one of its paragraphs."""

    title: str
    fact: str
    paragraphs: tuple[str, ...]
    figures: tuple[tuple[str, str], ...]


def write_prose(dice: random.Random, names: set[str]) -> Prose:
    """A paper on one topic, with a fact about a name that is not among these yet, and then is."""
    topic = dice.choice(sorted(TOPICS))
    name = new_name(dice, names)
    fact = dice.choice(FACTS).format(
        name=name, object=dice.choice(OBJECTS), year=dice.randrange(1820, 2020),
        number=f"{dice.randrange(1000, 99999):,}", unit=dice.choice(UNITS),
    )  # fmt: skip
    paragraphs = [[fill(dice, topic, text) for text in dice.sample(SENTENCES, dice.randrange(3, 6))] for _ in range(4)]
    paragraphs[dice.randrange(4)].insert(dice.randrange(4), fact)
    things = TOPICS[topic][0].split("|")
    figures = tuple((thing.capitalize(), f"{dice.randrange(10, 5000):,}") for thing in dice.sample(things, 3))
    title = fill(dice, topic, dice.choice(TITLES))
    return Prose(title, fact, tuple(" ".join(sentences) for sentences in paragraphs), figures)


def new_name(dice: random.Random, names: set[str]) -> str:
    while True:
        name = ("".join(dice.sample(SYLLABLES, 2)) + dice.choice(ENDINGS)).capitalize()
        if name not in names:
            names.add(name)
            return name


def fill(dice: random.Random, topic: str, template: str) -> str:
    things, people, place = TOPICS[topic]
    thing, other = dice.sample(things.split("|"), 2)
    text = template.format(
        topic=topic, thing=thing, other=other, people=dice.choice(people.split("|")), place=place,
        season=dice.choice(("spring", "summer", "autumn", "winter")), year=dice.randrange(1850, 2020),
        years=dice.randrange(3, 60), days=dice.randrange(2, 90), percent=dice.randrange(3, 60),
        number=dice.randrange(12, 900),
    )  # fmt: skip
    return text[0].upper() + text[1:]
