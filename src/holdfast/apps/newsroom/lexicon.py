"""The loaded expressions of data/lexicon.tsv, by their first word; and the lists of words that the rules need.

English only. An expression stands for itself, whatever the sentence means: who writes of a grand slam needs an entry
of the kind "kept", and irony is not seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DATA = Path(__file__).parent / "data"
KEPT = "kept"
GAP = "…"
"""Where an expression has a few words of the sentence in its middle, as in "throw … into prison"."""
SPARED = "~"
VERB_ONLY = "^"


@dataclass(frozen=True)
class Expression:
    """Words that are loaded, how much from 0 to 1, and what says the same without the load; empty: nothing."""

    words: tuple[str, ...]
    instead: str
    strength: float
    kind: str
    spared: bool = False
    """Whether it is left out before a noun, and `instead` stands elsewhere: "an absurd plan", "it is absurd"."""
    verb_only: bool = False
    """Whether it is also a harmless noun, so that only what can be nothing but a verb is meant: "bosses axe jobs"."""

    @property
    def parts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words before the gap and behind it. Where there is no gap, all are before it."""
        at = self.words.index(GAP) if GAP in self.words else len(self.words)
        return self.words[:at], self.words[at + 1 :]


@cache
def lexicon() -> Mapping[str, Sequence[Expression]]:
    """All expressions by their first word, the longest first."""
    by_first: dict[str, list[Expression]] = {}
    for line in (DATA / "lexicon.tsv").read_text("utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        kind, strength, forms, instead = line.split("\t")
        loaded = forms.split("|")
        replacements = instead.split("|") if instead else [""] * len(loaded)
        for form, replacement in zip(loaded, replacements, strict=True):
            words = tuple(form.removeprefix(VERB_ONLY).split())
            made = Expression(
                words=words,
                instead=replacement.removeprefix(SPARED),
                strength=float(strength),
                kind=kind,
                spared=replacement.startswith(SPARED),
                verb_only=form.startswith(VERB_ONLY),
            )
            by_first.setdefault(words[0], []).append(made)
    return {
        first: sorted(found, key=lambda one: (-len(one.words), one.kind != KEPT, one.words))
        for first, found in by_first.items()
    }


_, *LISTS = (DATA / "words.txt").read_text("utf-8").split("\n\n")
WORD_LISTS = {name: frozenset(words.split()) for name, _, words in (each.partition(":\n") for each in LISTS)}
"""All lists of data/words.txt by name."""
