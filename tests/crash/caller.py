"""A client that knows several servers: `python -m tests.crash.caller FOLDER SEED SERVER...`, its key in HOLDFAST_KEY.

Each task is asked for, with an Idempotency-Key, of one server after the other until somebody says that it is there;
also those that are still unknown when the file `over` is.
"""

import asyncio
import sys
from collections import deque
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import httpx2

from holdfast.engine.task import Submission
from holdfast.sdk.task import Task
from holdfast.settings import read_settings
from tests.crash import storm_app as app
from tests.crash.client import Client, described

answer_within_seconds = 3.0
callers = 8
pauses_seconds = 0.05, 0.4

SHAPES: dict[Task[[int], Any], float] = {
    app.quick: 2, app.slow: 8, app.blocking: 3, app.stepped: 4, app.shaky: 2, app.long: 1,
}  # fmt: skip


class Caller(Client):
    async def open_server(self, servers: deque[httpx2.AsyncClient]) -> None:
        """Stay with a server as long as it answers."""
        while not self.over:
            (task,) = self.rng.choices(list(SHAPES), list(SHAPES.values()))
            await self.ask(servers, self.submission(task, key=f"{self.history.name}-{self._number}"))
            await asyncio.sleep(self.rng.uniform(*pauses_seconds))

    async def ask(self, servers: deque[httpx2.AsyncClient], task: Submission) -> None:
        """Until it is answered."""
        for tried in count():
            call = self.history.invoke("submit", tasks=[described(task)], again=False)
            answer = await self.answer(servers[0], task)
            if isinstance(answer, httpx2.Response) and answer.is_success:
                created = answer.headers.get("Idempotency-Replayed") != "true"
                ids = [answer.json()["task_id"]]
                self.history.say("submit", "ok", call=call, ids=ids, created=[created], tried=tried)
                return
            self.history.say("submit", "info", call=call, error=repr(answer), server=str(servers[0].base_url))
            servers.rotate()
            await asyncio.sleep(self.rng.uniform(*pauses_seconds))

    async def answer(self, server: httpx2.AsyncClient, task: Submission) -> httpx2.Response | httpx2.HTTPError:
        """What it says. A client may be told that it cannot be served now, and nothing else."""
        body = {"task": task.name, "payload": task.payload}
        if task.delay:
            body["delay"] = task.delay.total_seconds()
        try:
            answer = await server.post("/dispatch/tasks", json=body, headers={"Idempotency-Key": task.key or ""})
        except httpx2.HTTPError as error:
            return error
        if not answer.is_success and answer.status_code != 503:
            raise AssertionError(f"{answer.status_code}: {answer.text}")
        return answer


async def main(folder: Path, seed: int, addresses: list[str]) -> None:
    headers = {"Authorization": f"Bearer {read_settings().key}"}
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(
                httpx2.AsyncClient(base_url=one, headers=headers, timeout=answer_within_seconds)
            )
            for one in addresses
        ]
        caller = Caller("caller", folder, seed)
        orders = [deque(servers) for _ in range(callers)]
        for number, order in enumerate(orders):
            order.rotate(number)
        await asyncio.gather(*(caller.open_server(order) for order in orders))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
