"""Cut a text into chunks: long enough to say something, short enough to be found by what they say.

A chunk ends where the text does: at a paragraph if it can, else at a line, a sentence, a word. It begins with the last
words of the chunk before it, so that a sentence on the border is whole in one of the two. Texts are looked at a window
at a time, because no text may take time out of proportion to its length, whatever is in it: one letter five million
times, or runs of empty lines each longer than the last.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import cast

characters_per_word = 7.5
"""Where words are longer than this, or there are none, as in Chinese, a chunk is limited by its characters."""

window_characters = 8_000
PLACES_TO_CUT = ("\n\n", "\n", ". ", "。", " ")
WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Chunk:
    """`text[start:end]`, the chunk of this number, counted from 0."""

    number: int
    start: int
    end: int


def chunk(text: str, *, words: int = 160, overlap: float = 0.1) -> list[Chunk]:
    """The chunks of a text, in order: none empty, no white space around any, and nothing but white space in none.

    A chunk has at most so many `words`, and 7.5 times as many characters; `overlap` is the share of them that it may
    repeat of the chunk before.
    """
    if words < 1 or not 0 <= overlap < 1:
        raise ValueError(f"words={words}, overlap={overlap}: there must be a word, and overlap is from 0 to below 1")
    repeated = int(words * overlap)
    pieces = join_small_pieces(text, cut_pieces(text, words - repeated), words - repeated)
    chunks: list[Chunk] = []
    for number, (start, end) in enumerate(pieces):
        if chunks and repeated:
            start = overlapping_start(text, chunks[-1].start, start, repeated)
        chunks.append(Chunk(number, start, end))
    return chunks


def size(text: str) -> int:
    """What a text counts for: its words, or its characters if these weigh more."""
    return max(len(text.split()), ceil(len(text) / characters_per_word))


def cut_pieces(text: str, words: int) -> Iterator[tuple[int, int]]:
    """Where the pieces begin and end, each of at most so many words."""
    from semchunk.semchunk import chunk as semchunk

    for window_start, window_end in split_windows(text, window_characters):
        window = text[window_start:window_end]
        if window.isspace():
            continue
        _, offsets = semchunk(window, words, size, memoize=False, offsets=True)
        for start, end in cast(list[tuple[int, int]], offsets):
            piece = window[start:end].strip()
            first = window_start + window.index(piece, start)
            yield first, first + len(piece)


def split_windows(text: str, characters: int) -> Iterator[tuple[int, int]]:
    """The text in parts of at most so many characters, each ending at the best place in its second half."""
    start = 0
    while len(text) - start > characters:
        half, limit = start + characters // 2, start + characters
        found = ((text.rfind(place, half, limit), len(place)) for place in PLACES_TO_CUT)
        end = next((at + length for at, length in found if at >= 0), limit)
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)


def join_small_pieces(text: str, pieces: Iterable[tuple[int, int]], words: int) -> list[tuple[int, int]]:
    """The same pieces, but a small one, such as a heading or the end of a long line, stays with its neighbour."""
    joined: list[tuple[int, int]] = []
    for start, end in pieces:
        first, last = joined[-1] if joined else (0, 0)
        small = min(end - start, last - first) * 8 < words * characters_per_word
        if joined and small and size(text[first:end]) <= words:
            joined[-1] = first, end
        else:
            joined.append((start, end))
    return joined


def overlapping_start(text: str, previous: int, start: int, words: int) -> int:
    """Where a chunk begins if it repeats up to so many words of the `previous` one; of a very short one, none."""
    earliest = start - int(words * characters_per_word)
    if earliest <= previous:
        return start
    found = [word.start() for word in WORD.finditer(text, earliest, start)][-words:]
    if len(found) > 1 and found[0] == earliest and not text[earliest - 1].isspace():  # the latter part of a word
        return found[1]
    return found[0] if found else start
