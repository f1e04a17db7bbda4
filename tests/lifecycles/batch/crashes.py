"""Crashes at the lines that matter: before and after each call to a provider, and each report to the database."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from holdfast.batch import Ended, Input, Job, Provider, Result, Running
from holdfast.engine.task import Lease
from holdfast.execution.attempt import ATTEMPT
from holdfast.lifecycles.batch.store import Batches, JobEvent, JobRow
from holdfast.remote.lease_rpc import remote_kind


def crash() -> None:
    """The process dies here, as far as the database and the provider can tell."""
    attempt = ATTEMPT.get()
    assert attempt is not None
    attempt.interrupt(None)
    raise asyncio.CancelledError("the process has crashed here")


Point = Callable[[str], None]


class Watched(Provider):
    """A provider between two points where a crash may come: before it is asked, and before its answer is heard."""

    def __init__(self, inner: Provider, point: Point) -> None:
        self.inner = inner
        self.point = point

    def __getattribute__(self, name: str) -> Any:
        own = ("inner", "point", "submit", "find", "poll", "fetch", "cancel", "__class__", "__dict__")
        return (
            object.__getattribute__(self, name)
            if name in own
            else getattr(object.__getattribute__(self, "inner"), name)
        )

    async def submit(self, job: Job, inputs: Sequence[Input]) -> str:
        self.point("before submit")
        answer = await self.inner.submit(job, inputs)
        self.point("after submit")
        return answer

    async def find(self, job: Job) -> str | None:
        self.point("before find")
        answer = await self.inner.find(job)
        self.point("after find")
        return answer

    async def poll(self, job: Job) -> Running | Ended:
        self.point("before poll")
        answer = await self.inner.poll(job)
        self.point("after poll")
        return answer

    async def fetch(self, job: Job, inputs: Sequence[Input]) -> AsyncIterator[Result]:
        self.point("before fetch")
        async for one in self.inner.fetch(job, inputs):
            yield one
        self.point("after fetch")

    async def cancel(self, job: Job) -> Ended | None:
        self.point("before cancel")
        answer = await self.inner.cancel(job)
        self.point("after cancel")
        return answer


def watch_reports(monkeypatch: pytest.MonkeyPatch, point: Point) -> None:
    """A crash may come before and after each report to the database about jobs, whatever carries it."""
    for kind in (Batches, remote_kind(Batches)):
        watch_kind(monkeypatch, kind, point)


def watch_kind(monkeypatch: pytest.MonkeyPatch, kind: Any, point: Point) -> None:
    report, plan, merged = kind.report, kind.plan, kind.keep_merged

    async def watched_report(
        self: Batches, lease: Lease, task: UUID, *events: JobEvent
    ) -> tuple[bool, dict[int, JobRow]]:
        verbs = " ".join(sorted({one["verb"] for one in events}))
        point(f"before {verbs}")
        answer: tuple[bool, dict[int, JobRow]] = await report(self, lease, task, *events)
        point(f"after {verbs}")
        return answer

    async def watched_plan(self: Batches, *given: Any) -> None:
        point("before plan")
        await plan(self, *given)
        point("after plan")

    async def watched_keep(self: Batches, *given: Any) -> None:
        point("before merged")
        await merged(self, *given)
        point("after merged")

    monkeypatch.setattr(kind, "report", watched_report)
    monkeypatch.setattr(kind, "plan", watched_plan)
    monkeypatch.setattr(kind, "keep_merged", watched_keep)
