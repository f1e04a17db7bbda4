"""The process of the speech model: Moonshine, whose weights come with its wheel."""

from pathlib import Path
from typing import Any

import numpy as np

from holdfast.apps.providers.local.audio import RATE, read_recording
from holdfast.apps.providers.local.pieces import cut
from holdfast.apps.providers.local.serving import Alive, Answer, serve


def load() -> Answer:
    # Not from the package itself, which offers a microphone: that takes PortAudio, which servers do not have.
    from moonshine_voice.moonshine_api import ModelArch  # type: ignore[import-untyped]
    from moonshine_voice.transcriber import Transcriber  # type: ignore[import-untyped]
    from moonshine_voice.utils import get_model_path  # type: ignore[import-untyped]

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
