"""Seven stages that write into a ledger that they ran; in one of them, each job waits until a gate is open."""

from collections.abc import Callable, Coroutine
from typing import Any

from holdfast import Holdfast
from tests.lifecycles.pipeline.app import NAMES
from tests.worker.app import note, until_open

hf = Holdfast()
watched = hf.pipeline("watched")


def stage(name: str) -> Callable[..., Coroutine[Any, Any, str]]:
    async def waits(held: str) -> str:
        note(f"{held}:{name}")
        if held == name:
            await until_open("all")
        return name

    return waits


for each in NAMES:
    watched.stage(each)(stage(each))
