"""The speech model: its process, in which Moonshine hears recordings; sample recordings, and how well they are heard.

Its libraries are imported only in its process.
"""

import json
import re
from pathlib import Path
from typing import Any

from holdfast.apps.providers.local.process import Alive, Answer, serve

SAMPLES = Path(__file__).parent / "samples"


def sample_recordings() -> list[tuple[Path, str]]:
    """Each sample recording, with the text that is spoken in it."""
    texts: dict[str, str] = json.loads((SAMPLES / "transcripts.json").read_text())
    return [(SAMPLES / name, text) for name, text in texts.items()]


def word_error_rate(reference: str, heard: str) -> float:
    """How many words are missing, wrong or too many, for each word of the reference: 0 if all are right."""
    expected, got = split_words(reference), split_words(heard)
    if not expected:
        return float(bool(got))
    row = list(range(len(got) + 1))  # edits from the reference so far to each beginning of what was heard
    for number, word in enumerate(expected, 1):
        before, row[0] = row[0], number
        for place, other in enumerate(got, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (word != other))
    return row[-1] / len(expected)


def split_words(text: str) -> list[str]:
    """The words of a text, whatever their capitals and punctuation."""
    return re.findall(r"\w+", text.lower().replace("'", "").replace("\u2019", ""))


def load() -> Answer:
    import numpy as np

    # Not from the package itself, which offers a microphone: that takes PortAudio, which servers do not have.
    from moonshine_voice.moonshine_api import ModelArch  # type: ignore[import-untyped]
    from moonshine_voice.transcriber import Transcriber  # type: ignore[import-untyped]
    from moonshine_voice.utils import get_model_path  # type: ignore[import-untyped]

    from holdfast.apps.providers.local.audio import RATE, cut, read_recording

    rest = np.zeros(RATE // 2, np.float32)  # with it, 12.5 % of 152 words were wrong instead of 13.8 %
    model = Transcriber(str(get_model_path("tiny-en")), ModelArch.TINY)

    def transcribe(request: dict[str, Any], alive: Alive) -> dict[str, Any]:
        segments: list[dict[str, Any]] = []
        seconds = 0.0
        for piece in cut(read_recording(Path(request["path"]))):
            seconds = piece.end
            if len(piece.samples):
                for line in model.transcribe_without_streaming(np.append(piece.samples, rest), RATE).lines:
                    start = piece.start + line.start_time
                    end = min(start + line.duration, piece.end)
                    if text := " ".join(line.text.split()):
                        segments.append({"start": round(start, 2), "end": round(end, 2), "text": text})
            alive()
        return {
            "transcript": " ".join(one["text"] for one in segments),
            "segments": segments,
            "seconds": round(seconds, 2),
            "language_code": "en",
        }

    return transcribe


if __name__ == "__main__":
    serve(load)
