"""A model that does what its input says: a real process like the others, but quick and made to break."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

from holdfast.apps.providers.local.process import Alive, Answer, serve
from holdfast.errors import Fatal


def load() -> Answer:
    def answer(request: dict[str, Any], alive: Alive) -> Any:
        what, _, rest = Path(request["path"]).read_text().partition(" ")
        print("a library that prints")  # noqa: T201
        match what:
            case "say":
                return rest
            case "count":
                with Path(rest).open("a") as log:
                    log.write("x")
                return "counted"
            case "refuse":
                raise Fatal(rest)
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "hang":
                if rest:
                    Path(rest).touch()
                threading.Event().wait()
        raise ValueError(what)

    return answer


if __name__ == "__main__":
    serve(load)
