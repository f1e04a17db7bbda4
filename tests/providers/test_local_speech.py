"""Recordings of many kinds are heard on this machine; what is none says so."""

import asyncio
import os
import signal
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import av
import numpy as np
import pytest

from holdfast.apps.providers.local import audio
from holdfast.apps.providers.local.audio import RATE, cut, read_recording
from holdfast.apps.providers.local.provider import Local
from holdfast.apps.providers.local.speech import sample_recordings, word_error_rate
from holdfast.errors import SchemaInvalid
from holdfast.lifecycles.batch.provider import Input, Result, Usage
from holdfast.objects.local import Folder
from tests.eventually import eventually
from tests.providers.jobs import all_of, finish, job, needs, results
from tests.providers.recordings import Samples, at_rate, tone, wav, write

pytestmark = needs("transcription")


@pytest.fixture(scope="module")
def shared() -> Iterator[Local]:
    """One model for all tests: any event loop may ask it."""
    provider = Local()
    yield provider
    asyncio.run(provider.close())


@pytest.fixture
async def provider(shared: Local) -> Local:
    await eventually(
        lambda: asyncio.to_thread(lambda: shared.speech.process is None or not shared.speech.process.request)
    )
    return shared


@pytest.fixture
def objects(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "objects").open()


def sound(path: Path) -> Samples:
    return np.concatenate([*read_recording(path), np.zeros(0, np.float32)]).astype(np.float64)


async def heard(provider: Local, objects: Folder, *paths: Path) -> list[Result]:
    inputs = [Input(f"r{number}", path.as_uri()) for number, path in enumerate(paths)]
    found = await all_of(provider, job("transcription", objects), inputs)
    return [found[one.key] for one in inputs]


@pytest.mark.deep
async def test_the_samples_are_heard(provider: Local, objects: Folder) -> None:
    found = await heard(provider, objects, *(path for path, _ in sample_recordings()))
    text = " ".join(text for _, text in sample_recordings())
    assert word_error_rate(text, " ".join(one.output["transcript"] for one in found)) < 0.12
    for (path, _), one in zip(sample_recordings(), found, strict=True):
        assert one.output["seconds"] == pytest.approx((path.stat().st_size - 44) / 2 / RATE, abs=0.01)
        assert one.output["language_code"] == "en"
        (segment,) = one.output["segments"]
        assert 0 <= segment["start"] < 0.5 < segment["end"] <= one.output["seconds"]
        assert one.usage == Usage("moonshine-tiny-en", cost_cents=Decimal(0))


@pytest.mark.deep
async def test_layouts_and_rates_are_heard_alike(provider: Local, objects: Folder, tmp_path: Path) -> None:
    path, text = sample_recordings()[2]
    original = sound(path)
    kinds = {
        "phone": wav(at_rate(original, RATE, 8_000), rate=8_000, kind="u8"),
        "disc": wav(at_rate(original, RATE, 44_100), rate=44_100, channels=2),
        "studio": wav(at_rate(original, RATE, 96_000), rate=96_000, kind="f32", channels=6, extensible=True),
    }
    files = [write(tmp_path / f"{name}.wav", content) for name, content in kinds.items()]
    for name, one in zip(kinds, await heard(provider, objects, *files), strict=True):
        assert word_error_rate(text, one.output["transcript"]) < 0.35, name
        assert one.output["seconds"] == pytest.approx(len(original) / RATE, abs=0.02), name


@pytest.mark.deep
async def test_a_long_recording_keeps_its_times(provider: Local, objects: Folder, tmp_path: Path) -> None:
    parts = [sound(sample_recordings()[number][0]) for number in (2, 5)]
    quiet = np.zeros(4 * RATE)
    whole = np.concatenate([quiet, parts[0], quiet, quiet, quiet, quiet, quiet, parts[1], quiet])
    (one,) = await heard(provider, objects, write(tmp_path / "long.wav", wav(whole)))
    begins = [4.0, 4.0 + len(parts[0]) / RATE + 20]
    assert [segment["start"] for segment in one.output["segments"]] == pytest.approx(begins, abs=0.4)
    assert one.output["seconds"] == pytest.approx(len(whole) / RATE, abs=0.02)
    text = f"{sample_recordings()[2][1]} {sample_recordings()[5][1]}"
    assert word_error_rate(text, one.output["transcript"]) < 0.2


async def test_what_is_not_a_recording_fails_alone_and_a_quiet_one_does_not(
    provider: Local, objects: Folder, tmp_path: Path
) -> None:
    good = wav(tone(200, RATE, 0.1))
    odd = {
        "empty": b"",
        "text": b"Dear all, this is a text that somebody called .wav.",
        "no-samples": good[:30],
        "no-layout": b"RIFF\x10\0\0\0WAVEdata\x04\0\0\0\0\0\0\0",
        "nonsense": good.replace((16_000).to_bytes(4, "little"), b"\0\0\0\0"),
    }
    sound = {"nothing": wav(np.zeros(0)), "quiet": wav(np.zeros(3 * RATE)), "short": good}
    files = [write(tmp_path / f"{name}.wav", content) for name, content in {**odd, **sound}.items()]
    found = dict(zip([*odd, *sound], await heard(provider, objects, *files), strict=True))
    assert {name for name, one in found.items() if one.category == "SchemaInvalid"} == set(odd)
    assert [found[name].output["transcript"] for name in sound] == ["", "", ""]
    assert [found[name].output["seconds"] for name in sound] == [0, 3, 0.1]
    assert "empty" in str(found["empty"].error)
    assert "cannot be read" in str(found["no-samples"].error)


@pytest.mark.deep
async def test_a_model_that_is_killed_in_a_recording_hears_it_the_second_time(
    provider: Local, objects: Folder, tmp_path: Path
) -> None:
    whole = np.concatenate([sound(path) for path, _ in sample_recordings()])
    recording = Input("long", write(tmp_path / "long.wav", wav(whole)).as_uri())
    one = job("transcription", objects)
    await provider.submit(one, [recording])
    polling = asyncio.create_task(provider.poll(one))
    await eventually(lambda: asyncio.to_thread(lambda: (at := provider.speech.process) and at.loaded and at.request))
    assert provider.speech.process is not None
    os.kill(provider.speech.process.pid, signal.SIGKILL)
    await polling
    await finish(provider, one)
    (result,) = (await results(provider, one, [recording])).values()
    assert (result.error, len(result.output["segments"]) > 3) == (None, True)


# Reading alone


@pytest.mark.parametrize("kind", ["u8", "i16", "i24", "i32", "f32", "f64"])
def test_every_layout_is_read(tmp_path: Path, kind: str) -> None:
    original = tone(440, RATE)
    for extensible in (False, True):
        read = sound(write(tmp_path / "a.wav", wav(original, kind=kind, channels=3, extensible=extensible)))
        assert np.abs(read - original).max() < (0.01 if kind == "u8" else 0.0001)


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 47_999, 48_000, 96_000])
def test_what_is_heard_stays_and_what_would_fold_back_goes(tmp_path: Path, rate: int) -> None:
    kept = sound(write(tmp_path / "a.wav", wav(tone(1_000, rate, 3), rate=rate, kind="f32")))
    assert len(kept) == pytest.approx(3 * RATE, abs=1)
    inner = slice(RATE, 2 * RATE)  # one of the borders between two blocks lies before, one behind
    assert np.abs(kept - tone(1_000, RATE, 4)[: len(kept)])[inner].max() < 0.002
    if rate > 2 * 9_500:
        gone = sound(write(tmp_path / "b.wav", wav(tone(9_500, rate, 3), rate=rate, kind="f32")))
        assert np.abs(gone[inner]).max() < 0.005


def test_a_recording_that_was_still_written_is_read_as_far_as_it_is_there(tmp_path: Path) -> None:
    whole = wav(tone(440, RATE))
    start = whole.index(b"data") + 4
    for length in (b"\0\0\0\0", b"\xff\xff\xff\xff"):
        cut_off = whole[:start] + length + whole[start + 4 : -1001]
        assert len(sound(write(tmp_path / "a.wav", cut_off))) == RATE - 501


def test_floats_that_are_not_numbers_are_read_as_zero(tmp_path: Path) -> None:
    broken = tone(440, RATE)
    broken[100:200] = np.nan
    assert np.all(sound(write(tmp_path / "a.wav", wav(broken, kind="f32")))[100:200] == 0)


def test_pieces_are_cut_in_the_pauses_and_begin_where_they_end() -> None:
    speech, quiet = tone(300, RATE, 14).astype(np.float32), np.zeros(2 * RATE, np.float32)
    pieces = list(cut([quiet, speech, quiet, speech, speech]))
    assert [round(piece.start) for piece in pieces[:2]] == [2, 18]
    assert 16 < pieces[0].end < 18
    assert all(len(piece.samples) <= 28 * RATE for piece in pieces)
    assert pieces[-1].end == 46


def test_a_recording_of_many_hours_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio, "longest_seconds", 1)
    with pytest.raises(SchemaInvalid, match="longer than"):
        sound(write(tmp_path / "a.wav", wav(tone(440, RATE, 2))))


@pytest.mark.parametrize(("suffix", "codec"), [("flac", "flac"), ("mp3", "mp3"), ("ogg", "libopus"), ("m4a", "aac")])
def test_other_formats_are_read(tmp_path: Path, suffix: str, codec: str) -> None:
    original = tone(440, 48_000, 2)
    path = encode(tmp_path / f"a.{suffix}", codec, original, 48_000)
    read = sound(path)
    assert len(read) == pytest.approx(2 * RATE, abs=2_000)  # some formats add a little at either end
    assert np.sqrt(np.mean(read[RATE // 2 : RATE] ** 2)) == pytest.approx(0.5 / np.sqrt(2), abs=0.02)


def encode(path: Path, codec: str, samples: Samples, rate: int) -> Path:
    with av.open(path, "w") as file:
        stream = file.add_stream(codec, rate=rate, layout="mono")
        assert isinstance(stream, av.AudioStream)
        frame = av.AudioFrame.from_ndarray(samples.astype(np.float32)[None], format="flt", layout="mono")
        frame.sample_rate = rate
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            file.mux(packet)
    return path


def test_a_file_that_leads_to_another_is_not_followed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", wav(tone(440, RATE)))
    for text in (f"ffconcat version 1.0\nfile {path}\n", f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{path}\n"):
        with pytest.raises(SchemaInvalid, match="cannot be read"):
            sound(write(tmp_path / "b.wav", text.encode()))


def test_what_only_begins_like_a_recording_is_refused(tmp_path: Path) -> None:
    for head in (b"ID3\x04", b"fLaC", b"OggS", b"\0\0\0\x20ftypM4A ", b"\xff\xfb\x90\x00"):
        with pytest.raises(SchemaInvalid, match="cannot be read"):
            sound(write(tmp_path / "a.wav", head + bytes(100)))


@pytest.mark.parametrize(
    ("text", "got", "rate"),
    [
        ("one two three four", "One, two - three four!", 0),
        ("one two three four", "one too three four", 0.25),
        ("one two three four", "three four", 0.5),
        ("one two", "well one and two", 1),
        ("it's", "its", 0),
        ("one", "", 1),
        ("", "", 0),
        ("", "one", 1),
    ],
)
def test_the_word_error_rate_counts_words(text: str, got: str, rate: float) -> None:
    assert word_error_rate(text, got) == rate
