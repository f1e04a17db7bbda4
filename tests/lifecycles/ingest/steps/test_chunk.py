"""A text is cut into chunks: nothing is lost, nothing is too long, and no text takes for ever."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.apps.documents.chunk import Chunk, chunk

CHARACTERS = " \n\t.,;:()'\"-/aB9é的。\u00a0\u3000\x1c\u200b🙂"
PARAGRAPH = "The tide comes in twice a day. It lifts the boats, and then it leaves them on the mud again. "


def texts_of(text: str, chunks: list[Chunk]) -> list[str]:
    return [text[each.start : each.end] for each in chunks]


@given(
    text=st.text(alphabet=st.one_of(st.sampled_from(CHARACTERS), st.characters(codec="utf-8"))),
    copies=st.sampled_from([1, 7, 300]),
    words=st.sampled_from([1, 3, 20, 160]),
    overlap=st.sampled_from([0.0, 0.1, 0.5, 0.99]),
)
@example(text="", copies=1, words=160, overlap=0.1)
@example(text="a" * 1201, copies=1, words=160, overlap=0.1)
@example(text="a\n" + "\n" * 9000 + "b", copies=1, words=160, overlap=0.1)
@settings(max_examples=80, deadline=None)
def test_every_character_is_in_a_chunk_and_every_chunk_is_good(
    text: str, copies: int, words: int, overlap: float
) -> None:
    text *= copies
    chunks = chunk(text, words=words, overlap=overlap)
    covered = bytearray(len(text))
    for each in chunks:
        covered[each.start : each.end] = b"\x01" * (each.end - each.start)
        cut = text[each.start : each.end]
        assert cut == cut.strip() != ""
        assert len(cut.split()) <= words
        assert len(cut) <= max(words * 7.5, 1)
    assert [each.number for each in chunks] == list(range(len(chunks)))
    assert all(a.start < b.start and a.end < b.end for a, b in pairwise(chunks))
    assert not [at for at, there in enumerate(covered) if not there and not text[at].isspace()]
    assert chunks == chunk(text, words=words, overlap=overlap)


def test_a_text_is_cut_between_paragraphs_where_it_can_be() -> None:
    paragraphs = [f"Number {number}. " + (PARAGRAPH * 6).strip() for number in range(5)]
    cut = texts_of("\n\n".join(paragraphs), chunk("\n\n".join(paragraphs), overlap=0))
    assert cut == paragraphs


def test_a_heading_stays_with_what_it_heads() -> None:
    text = "Tides\n\n" + PARAGRAPH * 6 + "\n\nBread\n\n" + "Flour, water, salt. " * 30
    first, second = texts_of(text, chunk(text))
    assert first.startswith("Tides\n\nThe tide")
    assert "Bread\n\nFlour" in second


def test_a_chunk_begins_with_the_last_words_of_the_one_before() -> None:
    text = " ".join(f"word{number}" for number in range(1000))
    cut = texts_of(text, chunk(text, words=100, overlap=0.1))
    for before, after in pairwise(cut):
        shared = set(before.split()) & set(after.split())
        assert 5 <= len(shared) <= 10
        assert after.split()[0] in shared


def test_without_overlap_nothing_stands_twice() -> None:
    text = PARAGRAPH * 40
    cut = texts_of(text, chunk(text, overlap=0))
    assert " ".join(cut).split() == text.split()


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a" * 1_000_000, id="one letter"),
        pytest.param("\n" * 1_000_000, id="newlines"),
        pytest.param("潮汐一天两次" * 160_000, id="Chinese without spaces"),
        pytest.param(",." * 500_000, id="punctuation"),
        pytest.param("".join("a" + "\n" * run for run in range(1, 1400)), id="every run longer than the last"),
        pytest.param("".join("a" + " " * run for run in range(1, 120)) * 60, id="runs of every length"),
    ],
)
def test_no_text_takes_time_out_of_proportion(text: str) -> None:
    chunks = chunk(text)
    assert all(each.end - each.start <= 1200 for each in chunks)
    assert bool(chunks) == bool(text.strip())


@pytest.mark.parametrize(("words", "overlap"), [(0, 0.1), (160, 1.0), (160, -0.1)])
def test_what_cannot_be_meant_is_refused(words: int, overlap: float) -> None:
    with pytest.raises(ValueError, match="there must be a word"):
        chunk("a", words=words, overlap=overlap)
