"""Recordings of every kind, written byte by byte."""

import struct
from pathlib import Path
from typing import Any

import numpy as np

Samples = np.ndarray[Any, np.dtype[np.float64]]


def tone(hertz: float, rate: int, seconds: float = 1.0) -> Samples:
    wave: Samples = 0.5 * np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)
    return wave


def at_rate(samples: Samples, old: int, new: int) -> Samples:
    """The same sound at another rate, by way of its spectrum: nothing of ours is in it."""
    count = round(len(samples) * new / old)
    spectrum = np.fft.rfft(samples)
    kept = np.zeros(count // 2 + 1, complex)
    shared = min(len(spectrum), len(kept))
    kept[:shared] = spectrum[:shared]
    sound: Samples = np.fft.irfft(kept, count) * (count / len(samples))
    return sound


def packed(samples: Samples, kind: str) -> bytes:
    whole = np.clip(samples, -1, 1)
    match kind:
        case "u8":
            return np.round(whole * 127 + 128).astype(np.uint8).tobytes()
        case "i16":
            return np.round(whole * 32767).astype("<i2").tobytes()
        case "i24":
            return np.round(whole * 8388607).astype("<i4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()
        case "i32":
            return np.round(whole * 2147483647).astype("<i4").tobytes()
        case "f32":
            return whole.astype("<f4").tobytes()
        case _:
            return whole.astype("<f8").tobytes()


WIDTHS = {"u8": 1, "i16": 2, "i24": 3, "i32": 4, "f32": 4, "f64": 8}


def wav(
    samples: Samples, *, rate: int = 16_000, kind: str = "i16", channels: int = 1, extensible: bool = False
) -> bytes:
    """A WAV file with the same sound on each channel, and a part in front of it that nobody knows."""
    width = WIDTHS[kind]
    tag = 3 if kind[0] == "f" else 1
    data = packed(np.repeat(samples, channels), kind)
    frame = width * channels
    layout = struct.pack("<HHIIHH", 0xFFFE if extensible else tag, channels, rate, rate * frame, frame, width * 8)
    if extensible:
        layout += struct.pack("<HHIH", 22, width * 8, 0, tag) + bytes.fromhex("000000001000800000aa00389b71")
    parts = [(b"junk", b"odd"), (b"fmt ", layout), (b"data", data)]
    body = b"".join(name + struct.pack("<I", len(value)) + value + b"\0" * (len(value) % 2) for name, value in parts)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WAVE" + body


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
