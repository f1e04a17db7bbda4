"""Recordings that come with Holdfast, and how well what was heard fits what is said."""

import json
import re
from pathlib import Path

SAMPLES = Path(__file__).parent / "samples"


def samples() -> list[tuple[Path, str]]:
    """Each sample recording, with the words that are said in it."""
    said: dict[str, str] = json.loads((SAMPLES / "words.json").read_text())
    return [(SAMPLES / name, text) for name, text in said.items()]


def word_error_rate(reference: str, heard: str) -> float:
    """How many words are missing, wrong or too many, for each word that was said: 0 if all are right."""
    said, got = words(reference), words(heard)
    if not said:
        return float(bool(got))
    row = list(range(len(got) + 1))  # edits from what was said so far to each beginning of what was heard
    for number, word in enumerate(said, 1):
        before, row[0] = row[0], number
        for place, other in enumerate(got, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (word != other))
    return row[-1] / len(said)


def words(text: str) -> list[str]:
    """The words, whatever their capitals and punctuation."""
    return re.findall(r"\w+", text.lower().replace("'", "").replace("\u2019", ""))
