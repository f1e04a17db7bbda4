"""Those who want work done: `python -m tests.crash.client ROLE FOLDER ADDRESS SEED`, until the file `over` is there.

submit   batches of tasks, most with keys, some of them twice at once
http     the same, one by one, over HTTP
cancel   tasks that are cancelled again around the time they end
"""

import asyncio
import contextlib
import random
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Submission, Submitted
from holdfast.errors import DatabaseError
from holdfast.sdk.task import Task
from tests.crash import storm_app as app
from tests.crash.history import History
from tests.crash.patience import answer_within_seconds, patient_store

open_at_most = 600
open_when_calm = 20
batch_size = 24

SHAPES: dict[Task[[int], Any], float] = {
    app.quick: 160, app.plain: 6, app.slow: 6, app.long: 0.5, app.blocking: 4, app.stepped: 7, app.charged: 6,
    app.shaky: 5, app.limited: 3, app.held: 8, app.foreign: 4, app.join: 6,
}  # fmt: skip


class Client:
    def __init__(self, role: str, folder: Path, seed: int) -> None:
        self.history = History(folder, role)
        self.rng = random.Random(seed)  # noqa: S311
        self._over = folder / "over"
        self._calm = folder / "calm"
        self._number = seed % 10 * 10**6
        self.open: set[UUID] = set()

    @property
    def over(self) -> bool:
        return self._over.exists()

    def number(self) -> int:
        self._number += 1
        return self._number

    def submission(self, task: Task[[int], Any], **options: Any) -> Submission:
        if task is app.limited:
            options |= {"limit_key": "narrow", "limit_to": app.limited_at_once}
        elif task is app.quick and self.rng.random() < 0.1:
            options |= {"delay": timedelta(seconds=self.rng.uniform(0.2, 2))}
        return task.opts(**options).submission(self.number())

    def batch(self) -> list[Submission]:
        """Some tasks; one that joins others comes right after them."""
        made: list[Submission] = []
        keyed = self.rng.random() < 0.8
        for task in self.rng.choices(list(SHAPES), list(SHAPES.values()), k=batch_size):
            key = f"{self.history.name}-{self._number}" if keyed else None
            one = self.submission(task, key=key)
            if task is app.join:
                before = range(max(0, len(made) - 3), len(made))
                one = replace(one, after=list(before), on_failure="ignore")
            made.append(one)
        return made

    async def submit(self, store: Store, tasks: list[Submission], *, again: bool = False) -> list[UUID]:
        """Their ids; none if nobody knows whether they were made. With keys it is asked until it is known."""
        while True:
            call = self.history.invoke("submit", tasks=[described(one) for one in tasks], again=again)
            try:
                made = await store.submit(*tasks)
            except DatabaseError as error:
                self.history.say("submit", "info", call=call, error=type(error).__name__)
                if not all(one.key for one in tasks):
                    return []
                await asyncio.sleep(self.rng.uniform(0.02, 0.3))
                continue
            return self._answered(call, made)

    def _answered(self, call: str, made: list[Submitted]) -> list[UUID]:
        ids = [one.id for one in made if one.id]
        self.history.say("submit", "ok", call=call, ids=ids, created=[one.created for one in made])
        return ids

    async def watch(self, store: Store) -> None:
        """Notice what has ended: only so many are open at once."""
        while not self.over:
            with contextlib.suppress(DatabaseError):
                self.open -= set(await store.outcomes(list(self.open)))
            await asyncio.sleep(0.15)

    async def wait_for_space(self) -> None:
        while len(self.open) > self._most() and not self.over:  # noqa: ASYNC110 - others end them
            await asyncio.sleep(0.05)

    def _most(self) -> int:
        return open_when_calm if self._calm.exists() else open_at_most

    async def submitting(self, store: Store) -> None:
        while not self.over:
            await self.wait_for_space()
            tasks = self.batch()
            asked = [self.submit(store, tasks)]
            if tasks[0].key and self.rng.random() < 0.15:
                asked.append(self.submit(store, tasks, again=True))
            for ids in await asyncio.gather(*asked):
                self.open.update(ids)

    async def posting(self, client: httpx2.AsyncClient) -> None:
        """One by one over HTTP, each asked until somebody says that it is there."""
        tasks = [app.quick, app.plain, app.stepped]
        while not self.over:
            one = self.submission(self.rng.choice(tasks), key=f"{self.history.name}-{self._number}")
            body = {"task": one.name, "payload": one.payload, "key": one.key}
            if one.delay:
                body["delay"] = one.delay.total_seconds()
            while not self.over:
                known = await self.post(client, one, body)
                await asyncio.sleep(self.rng.uniform(0, 0.1) if known else 0.3)
                if known:
                    break

    async def post(self, client: httpx2.AsyncClient, task: Submission, body: dict[str, Any]) -> bool:
        call = self.history.invoke("submit", tasks=[described(task)], again=False)
        try:
            answer = await client.post("/dispatch/tasks", json=body)
        except httpx2.HTTPError as error:
            self.history.say("submit", "info", call=call, error=type(error).__name__)
            return False
        if answer.status_code >= 500:
            self.history.say("submit", "info", call=call, error=answer.status_code)
            return False
        if answer.status_code not in (200, 201):
            raise AssertionError(answer.text)
        created = answer.headers.get("Idempotency-Replayed") != "true"
        self.history.say("submit", "ok", call=call, ids=[answer.json()["task_id"]], created=[created])
        return True

    async def cancelling(self, store: Store) -> None:
        tasks = [app.quick, app.plain, app.slow, app.blocking, app.stepped, app.charged, app.limited]
        while not self.over:
            one = self.submission(self.rng.choice(tasks), key=f"{self.history.name}-{self._number}")
            (task,) = await self.submit(store, [one])
            await asyncio.sleep(self.rng.choice([0, 0.01, 0.05, 0.3, 0.8]))
            while True:
                call = self.history.invoke("cancel", task=task)
                try:
                    effect = await store.cancel(task, by=self.history.name)
                except DatabaseError as error:
                    self.history.say("cancel", "info", call=call, task=task, error=type(error).__name__)
                    await asyncio.sleep(self.rng.uniform(0.02, 0.3))
                    continue
                self.history.say("cancel", "ok", call=call, task=task, effect=effect)
                break


def described(task: Submission) -> dict[str, Any]:
    return {
        "name": task.name, "number": task.payload["number"], "key": task.key, "after": list(task.after),
        "delay": task.delay.total_seconds() if task.delay else 0,
    }  # fmt: skip


async def together(role: Callable[[Any], Coroutine[Any, Any, None]], by: Any, times: int) -> None:
    await asyncio.gather(*(role(by) for _ in range(times)))


async def main(role: str, folder: Path, address: str, seed: int) -> None:
    client = Client(role, folder, seed)
    if role == "http":
        async with httpx2.AsyncClient(base_url=address, timeout=answer_within_seconds) as web:
            await together(client.posting, web, 2)
        return
    async with patient_store(address) as store:
        if role == "cancel":
            await together(client.cancelling, store, 5)
        else:
            await asyncio.gather(client.watch(store), together(client.submitting, store, 3))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
