"""Questions: a task asks a person, sleeps, and goes on with the answer. The functions of sql/, as Python.

A question is a step of its task: asked once, under one link, and answered once. Who has the link may answer; the secret
in it is known to the task that asks only, and is found again by its hash.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from holdfast.engine.store import encode
from holdfast.engine.store.calls import Calls
from holdfast.engine.task import Json


@dataclass(frozen=True)
class Answered:
    """Which question was answered; `repeated`, if the same answer was given before."""

    id: UUID
    task_id: UUID
    step: str
    repeated: bool


@dataclass(frozen=True)
class Question:
    """A question that somebody waits for."""

    id: UUID
    task_id: UUID
    lifecycle: str
    name: str
    owner: str
    step: str
    question: str
    asked_at: datetime
    until: datetime


@dataclass(frozen=True)
class LinkedQuestion:
    """A question as the holder of its link sees it. A task that has ended has no name any more."""

    name: str | None
    step: str
    question: str
    state: Literal["open", "answered", "late", "closed"]
    asked_at: datetime
    until: datetime
    answered_at: datetime | None


class Questions(Calls):
    """The questions of all tasks."""

    async def answer(
        self, task_id: UUID | str, answer: Json, *, step: str | None = None, by: str = "", owner: str | None = None
    ) -> Answered:
        """Answer a question of a task; of several that are open, the one named.

        Raises AlreadyAnswered, QuestionClosed or QuestionUnknown; an `owner` answers questions of their own only.
        """
        given = (dump_answer(answer), encode.text(by), None, encode.task_id(task_id), encode.text(step), owner)
        return await self._record(Answered, "answer", *given)

    async def answer_by_link(self, secret: str, answer: Json) -> Answered:
        """The same, for those who have the link."""
        return await self._record(Answered, "answer", dump_answer(answer), "link", hash_secret(secret))

    async def read(self, secret: str) -> LinkedQuestion:
        """The question that a link is about. Raises QuestionUnknown."""
        return await self._record(LinkedQuestion, "read_question", hash_secret(secret))

    async def open(
        self, owner: str | None = None, *, after: UUID | None = None, limit: int = 50, task: UUID | None = None
    ) -> list[Question]:
        """Questions that somebody waits for, the oldest first."""
        return await self._records(Question, "questions", owner, after, limit, task)

    async def forget(self) -> int:
        """Forget the questions of tasks that ended a month ago; how many."""
        return int(await self._call("forget_questions"))


def dump_answer(answer: Json) -> str:
    """An answer as JSON; None is one, too. Raises PayloadInvalid."""
    return encode.dump(answer) or "null"


def hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
