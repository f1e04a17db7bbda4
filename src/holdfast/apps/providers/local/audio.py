"""Recordings as samples: one channel, 16,000 floats a second, as PyAV (the libraries of FFmpeg) decodes them.

They come block by block, so that no recording is too long for the memory there is.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np

from holdfast.errors import SchemaInvalid

Samples = np.ndarray[Any, np.dtype[np.float32]]

RATE = 16_000
longest_seconds = 4 * 3600
block_frames = 1 << 16
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
                    yield from map(mono, resampler.resample(frame))
            yield from map(mono, resampler.resample(None))
    except (av.FFmpegError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SchemaInvalid(f"The recording cannot be read: {reason[:200]}.", code="audio") from error


def mono(frame: av.AudioFrame) -> Samples:
    samples: Samples = frame.to_ndarray().mean(axis=0, dtype=np.float32)
    return np.clip(np.nan_to_num(samples, posinf=0, neginf=0), -1, 1)
