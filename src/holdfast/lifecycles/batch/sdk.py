"""`hf.batch(...)`: a kind of task that a provider does, in jobs that are submitted once and polled until they end."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from holdfast.engine.task import Outcome
from holdfast.errors import AppInvalid, ObjectsUnreachable, Transient
from holdfast.lifecycles.batch.declaration import BATCH, BATCH_STOP
from holdfast.lifecycles.batch.handlers import run_batch, run_stop
from holdfast.lifecycles.batch.provider import Provider
from holdfast.sdk.task import AsyncTask, Prepared, check_task

if TYPE_CHECKING:
    from holdfast.sdk.client import Holdfast

Report = dict[str, Any]


class Batch(Prepared[..., Report]):
    """A kind of task at a provider. Made by `Holdfast.batch`.

    `transcribe.start(urls=["s3://bucket/a.wav"])` makes a batch.
    """

    def __init__(
        self,
        app: "Holdfast",
        task_type: str,
        provider: Provider,
        poll_every: timedelta | None,
        limit: timedelta | None,
        queue: str | None,
    ) -> None:
        self.app = app
        self.task_type = task_type
        self.provider = provider
        if poll_every is not None:
            provider.poll_every = poll_every
        self.limit = provider.limit if limit is None else limit
        self.queue = queue or BATCH.queue
        self.name = f"{task_type}.{provider.name.lower()}"
        if task_type not in provider.task_types:
            raise AppInvalid(f"{provider.name} does no {task_type}.", fix=f"It does: {', '.join(provider.task_types)}.")
        check_task(self.name, self._run, app.tasks, retries=2, limit=self.limit, priority=0, errors=None)
        super().__init__(self._register(self.name, self._run, BATCH.name), time_limit=self.limit)
        stop = f"stop.{provider.name.lower()}"
        if stop not in app.tasks:
            self._register(stop, self._stop, BATCH_STOP.name)

    def __repr__(self) -> str:
        return f"<batch {self.name}>"

    def published(self) -> dict[str, Any]:
        """Its row in the database."""
        one = self.provider
        return {
            "task_type": self.task_type, "provider": one.name, "name": self.name, "queue": self.queue, "offer": {
                "account": one.account, "missing": one.missing(self.task_type),
                "models": list(one.models(self.task_type)), "inputs_per_job": one.inputs_per_job,
                "poll_seconds": one.poll_every.total_seconds(), "limit_seconds": self.limit.total_seconds(),
                "requests_per_minute": one.requests_per_minute,
            },
        }  # fmt: skip

    def _register(self, name: str, function: Any, lifecycle: str) -> AsyncTask[..., Any]:
        task: AsyncTask[..., Any] = AsyncTask(
            self.app, function, name=name, queue=self.queue, retries=None, timeout=None, priority=0,
            lifecycle=lifecycle, errors={ObjectsUnreachable: Transient},
        )  # fmt: skip
        self.app.tasks[name] = task
        return task

    async def _run(
        self,
        urls: Sequence[str] = (),
        dataset_ids: Sequence[str] = (),
        models: Sequence[str] = (),
        task_type: str = "",
        provider: str = "",
        again_of: str | None = None,
        urls_sha256: str | None = None,
    ) -> Report | Outcome:
        return await run_batch(self.provider)

    async def _stop(self, batch: str, provider: str = "") -> Report | Outcome:
        return await run_stop(self.provider)
