"""A newspaper's press: its jobs are run to their end, and looked at."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Lease
from holdfast.lifecycles.pipeline.store import Jobs
from holdfast.sdk.handle import Handle
from holdfast.testing.engine import Engine, Ran
from tests.lifecycles.pipeline import app


@dataclass
class Press:
    """Runs jobs of the scripted pipeline."""

    engine: Engine

    @property
    def store(self) -> Store:
        return self.engine.store

    @property
    def jobs(self) -> Jobs:
        return Jobs.over(self.engine.store)

    def run(self, script: dict[str, Any] | None = None, **params: Any) -> Ran[dict[str, Any]]:
        given = {**params, "script": script} if script else params
        return self.engine.run(app.press, **given)

    def start(self, script: dict[str, Any] | None = None, **params: Any) -> Handle[dict[str, Any]]:
        return self.engine.start(app.press, **params, **({"script": script} if script else {}))

    def retry(self, job: UUID, from_stage: str | None = None) -> Ran[Any]:
        return self.engine.run(app.hf.handle(self.engine.call(self.store.retry(job, from_stage))))

    def cancel(self, job: UUID) -> str:
        return str(self.engine.call(self.store.cancel(job)))

    @contextlib.contextmanager
    def without_heartbeats(self) -> Iterator[None]:
        """Until the block ends, no worker hears by a heartbeat that somebody wants its job to stop."""

        async def silent(leases: Iterable[Lease]) -> None:
            """It does not come."""

        self.engine._beat = silent  # type: ignore[method-assign]
        try:
            yield
        finally:
            vars(self.engine).pop("_beat", None)

    def job(self, job: UUID) -> dict[str, Any]:
        return self.engine.call(self.jobs.job(job)).model_dump(mode="json")

    def stages(self, job: UUID) -> dict[str, str]:
        return {one["name"]: one["status"] for one in self.job(job)["stages"]}

    def stage(self, job: UUID, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(one for one in self.job(job)["stages"] if one["name"] == name)
        return found

    def settings(self) -> dict[str, Any]:
        found: dict[str, Any] = self.engine.call(self.jobs.pipelines("press"))[0]["settings"]
        return found

    def kinds(self, job: UUID) -> list[tuple[str, str]]:
        """What happened within a job: kind and stage."""
        return [(one.kind, one.step) for one in self.engine.call(self.store.step_events(job))]


@pytest.fixture
def press(holdfast: Engine) -> Iterator[Press]:
    app.RAN.clear()
    app.ACTS.clear()
    yield Press(holdfast)
    assert holdfast.call(holdfast.store.verify()) == []
