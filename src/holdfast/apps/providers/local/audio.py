"""Recordings as samples: one channel, 16,000 floats a second, as PyAV (the libraries of FFmpeg) decodes them.

They come block by block, so that no recording is too long for the memory there is, and are cut into pieces that a model
can take, in the pauses of speech. A piece begins where it gets loud: after a pause the model is prone to hear a word
that was not spoken (a second of it made 22 % of 152 words wrong instead of 14 %).
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np

from holdfast.errors import SchemaInvalid

Samples = np.ndarray[Any, np.dtype[np.float32]]

RATE = 16_000
longest_seconds = 4 * 3600
block_frames = 1 << 16

longest_piece_seconds, shortest_piece_seconds = 28, 12
frame_samples = RATE // 50
frames_at_rest = 10  # a cut lies in the quietest fifth of a second
frames_before = 5  # what is left of a pause before speech
silent = 0.001  # of full scale, -60 dB: quieter than any recorded speech

FORMATS = "mp3,flac,ogg,matroska,webm,mov,mp4,m4a,3gp,aac,aiff,caf,amr,wav,au,asf"  # none follows links in a file
CLOSED = {"format_whitelist": FORMATS, "protocol_whitelist": "none"}
"""Whatever a file says, no other file and no address is opened for it."""


def read_recording(path: Path) -> Iterator[Samples]:
    """The mean of all channels, block by block. Raises SchemaInvalid for what is not a recording, or is too long."""
    if not path.stat().st_size:
        raise SchemaInvalid("The recording is empty: it has no bytes.", code="empty")
    left = longest_seconds * RATE
    for block in decode(path):
        left -= len(block)
        if left < 0:
            raise SchemaInvalid(f"The recording is longer than {longest_seconds // 3600} hours. Cut it.", code="long")
        yield block


def decode(path: Path) -> Iterator[Samples]:
    """The samples as the file has them, at our rate. Raises SchemaInvalid."""
    resampler = av.AudioResampler(format="fltp", rate=RATE, frame_size=block_frames)
    try:
        with path.open("rb") as file, av.open(file, "r", options=CLOSED) as recording:
            if not recording.streams.audio:
                raise SchemaInvalid("The file has no sound.", code="audio")
            for packet in recording.demux(audio=0):
                frames: list[av.AudioFrame] = []
                with contextlib.suppress(av.InvalidDataError):  # a broken packet is left out, as all players do
                    frames = packet.decode()
                for frame in frames:
                    yield from map(mix_channels, resampler.resample(frame))
            yield from map(mix_channels, resampler.resample(None))
    except (av.FFmpegError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SchemaInvalid(f"The recording cannot be read: {reason[:200]}.", code="audio") from error


def mix_channels(frame: av.AudioFrame) -> Samples:
    samples: Samples = frame.to_ndarray().mean(axis=0, dtype=np.float32)
    return np.clip(np.nan_to_num(samples, posinf=0, neginf=0), -1, 1)


# Pieces


@dataclass(frozen=True)
class Piece:
    """A part of a recording; without samples if nothing in it can be heard."""

    start: float
    """Where its samples begin, in seconds from the beginning of the recording."""
    end: float
    samples: Samples


def cut(blocks: Iterable[Samples]) -> Iterator[Piece]:
    """The pieces of a recording, one after the other."""
    longest, held, start = longest_piece_seconds * RATE, np.zeros(0, np.float32), 0
    for block in blocks:
        held = np.concatenate([held, block])
        while len(held) > longest:
            at = quietest_place(held[:longest])
            yield make_piece(held[:at], start)
            held, start = held[at:], start + at
    if len(held):
        yield make_piece(held, start)


def quietest_place(samples: Samples) -> int:
    """Where to cut: in the middle of the longest pause, or at least of the quietest moment, far enough on."""
    first = shortest_piece_seconds * RATE // frame_samples
    smooth = np.convolve(loudness(samples)[first:], np.full(frames_at_rest, 1 / frames_at_rest), "valid")
    return (first + int(smooth.argmin()) + frames_at_rest // 2) * frame_samples


def make_piece(samples: Samples, start: int) -> Piece:
    loud = loudness(samples)
    heard = np.flatnonzero(loud > max(silent, 0.02 * float(loud.max(initial=0)))) if len(loud) else loud
    end = (start + len(samples)) / RATE
    if not len(heard):
        return Piece(start / RATE, end, samples[:0])
    skipped = max(int(heard[0]) - frames_before, 0) * frame_samples
    return Piece((start + skipped) / RATE, end, samples[skipped:])


def loudness(samples: Samples) -> Samples:
    """The mean loudness of each fiftieth of a second."""
    whole = len(samples) - len(samples) % frame_samples
    means: Samples = np.sqrt(np.mean(np.square(samples[:whole].reshape(-1, frame_samples)), axis=1))
    return means
