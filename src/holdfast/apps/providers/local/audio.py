"""Recordings as samples: one channel, 16,000 floats a second.

They come block by block, so that no recording is too long for the memory there is.

WAV is read here. For what else there is, ffmpeg is asked if this machine has it, and only for files that begin as a
known kind of recording does: a text that is called .wav never gets there.
"""

import itertools
import math
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from holdfast.errors import Fatal, SchemaInvalid

Samples = np.ndarray[Any, np.dtype[np.float32]]

RATE = 16_000
longest_seconds = 4 * 3600
block_frames = 1 << 16
gathered_at_once = 4096
crossings = 12  # zero crossings of the sinc on either side: -80 dB beyond the edge, which speech cannot tell from all

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
OTHERS = {
    b"ID3": "MP3", b"fLaC": "FLAC", b"OggS": "Ogg", b"\x1aE\xdf\xa3": "Matroska or WebM", b"caff": "CAF",
    b"#!AMR": "AMR", b"RF64": "RF64", b".snd": "AU", b"0&\xb2u": "WMA",
}  # fmt: skip
READERS = "mp3,flac,ogg,matroska,webm,mov,mp4,m4a,3gp,aac,aiff,caf,amr,wav,au,asf"  # none that follows links in a file
HOW = "Install ffmpeg on the workers (on Debian and Ubuntu: apt-get install ffmpeg), or convert it to WAV."


@dataclass(frozen=True)
class Layout:
    """How the samples lie in a WAV file."""

    kind: int
    width: int
    """Bytes of one sample."""
    channels: int
    rate: int
    start: int
    bytes: int


def read_recording(path: Path) -> Iterator[Samples]:
    """The samples, block by block. Raises SchemaInvalid for what is no recording, Fatal where ffmpeg is missing."""
    with path.open("rb") as file:
        head = file.read(16)
        if not head:
            raise SchemaInvalid("The recording is empty: it has no bytes.", code="empty")
        if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
            layout = read_layout(file)
            if layout:
                yield from bounded(resampled(read_frames(file, layout), layout.rate))
                return
        kind = other_kind(head)
    if kind is None:
        raise SchemaInvalid("This is no recording that is known here: WAV, MP3, FLAC, Ogg, MP4, ...", code="audio")
    yield from bounded(decoded(path, kind))


def other_kind(head: bytes) -> str | None:
    """What a file that begins like this is, if ffmpeg can read it."""
    for start, kind in OTHERS.items():
        if head.startswith(start):
            return kind
    if head[4:8] == b"ftyp":
        return "MP4"
    if head[:4] == b"FORM" and head[8:11] == b"AIF":
        return "AIFF"
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "WAV of a kind that is not PCM"
    return "MP3 or AAC" if len(head) > 2 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0 and head[1] != 0xFF else None


# WAV


def read_layout(file: BinaryIO) -> Layout | None:
    """How the samples lie; None if they are compressed. Raises SchemaInvalid for what is cut off or makes no sense."""
    file.seek(0, 2)
    size = file.tell()
    place, format_ = 12, b""
    while place + 8 <= size:
        file.seek(place)
        name, length = (head := file.read(8))[:4], int.from_bytes(head[4:], "little")
        if name == b"fmt ":
            format_ = file.read(min(length, 40))
        if name == b"data":
            # Whoever writes while recording does not know the length yet, and says 0 or the most there is.
            there = size - place - 8
            return layout_of(format_, place + 8, min(length, there) if length else there)
        place += 8 + length + length % 2
    raise SchemaInvalid("The WAV file is cut off: no samples follow its header.", code="audio")


def layout_of(format_: bytes, start: int, length: int) -> Layout | None:
    if len(format_) < 16:
        raise SchemaInvalid("The WAV file does not say how its samples lie: the part 'fmt ' is missing.", code="audio")
    kind, channels = int.from_bytes(format_[0:2], "little"), int.from_bytes(format_[2:4], "little")
    rate, frame = int.from_bytes(format_[4:8], "little"), int.from_bytes(format_[12:14], "little")
    if kind == EXTENSIBLE and len(format_) >= 26:
        kind = int.from_bytes(format_[24:26], "little")
    if kind not in (PCM, FLOAT):
        return None
    width = frame // channels if channels else 0
    fits = width in ((1, 2, 3, 4) if kind == PCM else (4, 8)) and width * channels == frame
    if not fits or not 1 <= channels <= 64 or not 4_000 <= rate <= 384_000:
        said = f"{channels} channels of {width} bytes at {rate} Hz"
        raise SchemaInvalid(f"The header of the WAV file makes no sense: {said}.", code="audio")
    return Layout(kind, width, channels, rate, start, length)


def read_frames(file: BinaryIO, layout: Layout) -> Iterator[Samples]:
    """One channel, the mean of all, at the file's own rate."""
    file.seek(layout.start)
    frame = layout.width * layout.channels
    left = layout.bytes - layout.bytes % frame
    while left and (raw := file.read(min(left, block_frames * frame))):
        left -= len(raw)
        samples = as_floats(raw[: len(raw) - len(raw) % frame], layout)
        mono = samples.reshape(-1, layout.channels).mean(axis=1, dtype=np.float32)
        yield np.clip(np.nan_to_num(mono, posinf=0, neginf=0), -1, 1)


def as_floats(raw: bytes, layout: Layout) -> Samples:
    match layout.kind, layout.width:
        case (3, width):
            return np.frombuffer(raw, f"<f{width}").astype(np.float32)
        case (_, 1):
            return np.frombuffer(raw, np.uint8).astype(np.float32) / np.float32(128) - np.float32(1)
        case (_, 3):
            whole = np.zeros((len(raw) // 3, 4), np.uint8)
            whole[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
            return whole.view("<i4").ravel().astype(np.float32) / np.float32(2**31)
        case (_, width):
            scale = np.float32(2 ** (8 * width - 1))
            return np.frombuffer(raw, f"<i{width}").astype(np.float32) / scale


def resampled(blocks: Iterable[Samples], rate: int) -> Iterator[Samples]:
    """The same sound at 16,000 samples a second: a windowed sinc, one row of weights for each phase that occurs."""
    if rate == RATE:
        yield from blocks
        return
    shared = math.gcd(RATE, rate)
    up, down = RATE // shared, rate // shared
    table = weights(up, down)
    taps = table.shape[1]
    held = np.zeros(taps // 2 - 1, np.float32)  # before the beginning and after the end is silence
    made = dropped = 0
    for block in itertools.chain(blocks, [np.zeros(taps // 2, np.float32)]):
        held = np.concatenate([held, block])
        ready = -(-(dropped + len(held) - taps + 1) * up // down)  # so many have all their surroundings here
        while made < ready:
            numbers = np.arange(made, min(made + gathered_at_once, ready))
            surroundings = sliding_window_view(held, taps)[numbers * down // up - dropped]
            yield np.einsum("ij,ij->i", surroundings, table[numbers * down % up])
            made += len(numbers)
        gone = min(made * down // up - dropped, len(held))
        held, dropped = held[gone:], dropped + gone


def weights(up: int, down: int) -> Samples:
    """How much each neighbour counts, for each of the places that a new sample can have between two old ones."""
    cutoff = min(1.0, up / down)
    half = math.ceil(crossings / cutoff)
    away = np.arange(1 - half, half + 1) - np.arange(up)[:, None] / up
    window = np.i0(8 * np.sqrt(np.clip(1 - (away / half) ** 2, 0, None)))
    table = np.sinc(away * cutoff) * window
    rows: Samples = (table / table.sum(axis=1, keepdims=True)).astype(np.float32)
    return rows


# What is no WAV


def decoded(path: Path, kind: str) -> Iterator[Samples]:
    """What ffmpeg makes of it. It may open this file and nothing else, whatever the file says."""
    program = shutil.which("ffmpeg")
    if program is None:
        raise Fatal(f"The recording is {kind}, which takes ffmpeg to read. {HOW}", code="ffmpeg-missing")
    command = [
        program, "-nostdin", "-v", "error", "-protocol_whitelist", "file", "-format_whitelist", READERS,
        "-i", f"file:{path}", "-map", "0:a:0", "-f", "f32le", "-ac", "1", "-ar", str(RATE), "pipe:1",
    ]  # fmt: skip
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints) as process,
    ):
        ended = False
        try:
            assert process.stdout is not None  # noqa: S101
            while raw := process.stdout.read(block_frames * 4):
                samples = np.frombuffer(raw[: len(raw) - len(raw) % 4], "<f4")
                yield np.clip(np.nan_to_num(samples, posinf=0, neginf=0), -1, 1)
            ended = True
        finally:
            if not ended:
                process.kill()
        if process.wait():
            complaints.seek(0)
            said = complaints.read().decode("utf-8", "replace").replace(str(path), "it").split("\n")
            raise SchemaInvalid(f"The recording ({kind}) cannot be read: {said[0][:200]}", code="audio")


def bounded(blocks: Iterable[Samples]) -> Iterator[Samples]:
    """The same. Raises SchemaInvalid where it gets too long."""
    left = longest_seconds * RATE
    for block in blocks:
        left -= len(block)
        if left < 0:
            raise SchemaInvalid(f"The recording is longer than {longest_seconds // 3600} hours. Cut it.", code="long")
        yield block
