"""A model's own process, seen from inside: a request is a line of JSON, and so is each answer.

It ends when its worker ends, however that happens: its input closes, or it gets another parent. A thread sees to that,
also while the model is at work. This module needs nothing but the standard library.
"""

import json
import os
import queue
import select
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from holdfast.errors import Failure

Alive = Callable[[], None]
Answer = Callable[[dict[str, Any], Alive], Any]

look_seconds = 1.0
nicer = 5  # a model takes all cores it gets; the worker's own heartbeats come first


def serve(load: Callable[[], Answer]) -> NoReturn:
    """Load the model, then answer one request after the other until the worker is gone."""
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(requests, os.getppid()), daemon=True).start()
    says = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries that print do not speak for us
    os.nice(nicer)

    def say(value: dict[str, Any]) -> None:
        says.write(json.dumps(value) + "\n")
        says.flush()

    try:
        answer = load()
    except Exception as error:
        say({"not_loaded": f"{type(error).__name__}: {error}"[:500]})
        sys.exit(1)
    say({"loaded": True})
    while True:
        request = requests.get()
        number = request.pop("number")
        try:
            result = answer(request, lambda number=number: say({"number": number, "alive": True}))  # type: ignore[misc]
            say({"number": number, "result": result})
        except Failure as failure:
            say({"number": number, "error": failure.message, "category": failure.category})
        except Exception as error:
            text = f"The model failed: {type(error).__name__}: {error}"[:500]
            say({"number": number, "error": text, "category": "SchemaInvalid"})


def listen(requests: "queue.SimpleQueue[dict[str, Any]]", parent: int) -> None:
    """Pass requests on, and end everything when nobody can make any more."""
    came = select.poll()
    came.register(0, select.POLLIN | select.POLLHUP)
    held = b""
    while os.getppid() == parent:
        if not came.poll(look_seconds * 1000):
            continue
        if not (read := os.read(0, 1 << 16)):
            break
        *lines, held = (held + read).split(b"\n")
        for line in lines:
            requests.put(json.loads(line))
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)  # with all that a library has started
    os._exit(0)
