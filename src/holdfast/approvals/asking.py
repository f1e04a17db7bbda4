"""What a task calls to ask a person: `answer = await ask("publish", "Publish 1,204 prices?", within="2d")`.

A question is a step by its name. The first time it is written down, its `tell` is called with the link, and the handler
is left: the task sleeps, with no worker and at no cost. Once it is answered the task is due at once, its handler runs
again, and `ask` returns the answer. What else the handler has under way is finished before it is left, so several may
be asked at once.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast, overload

from holdfast.durations import parse_duration
from holdfast.engine import values
from holdfast.engine.store.calls import patiently
from holdfast.engine.store.commands import refuse
from holdfast.engine.task import Asked, Duration, Json, Later
from holdfast.errors import StepInvalid, Unanswered
from holdfast.execution.attempt import STEP_USAGE, Attempt, Wait
from holdfast.execution.context import find_attempt
from holdfast.execution.suspend import SuspendHandler
from holdfast.execution.threads import call_function

T = TypeVar("T")
Tell = Callable[[str], object]

longest_name = 150  # the step that sends the link has a longer name
longest_message = 300


class Asking:
    """`await ask("publish", "Publish?", within="2d", tell=mail_the_link)`: what a person answers."""

    @overload
    def __call__(
        self, name: str, question: str, /, *, within: Duration, tell: Tell | None = None
    ) -> Coroutine[Any, Any, Any]: ...

    @overload
    def __call__(
        self, name: str, question: str, /, *, within: Duration, tell: Tell | None = None, answer_as: type[T]
    ) -> Coroutine[Any, Any, T]: ...

    def __call__(
        self, name: str, question: str, /, *, within: Duration, tell: Tell | None = None, answer_as: Any = Any
    ) -> Coroutine[Any, Any, Any]:
        """The answer, as `answer_as` says or as plain JSON. `tell`, sync or async, is called once with the link.

        Raises Unanswered if none comes `within` that time, and StepInvalid.
        """
        attempt = asking_attempt(name, question)
        if not attempt.is_in_loop():
            raise StepInvalid(f"{name!r}: this task is not async.", fix=f"Write ask.sync({name!r}, ...), no await.")
        return attempt.track_await(name, self._ask, attempt, name, question, within, tell, answer_as)

    @overload
    def sync(self, name: str, question: str, /, *, within: Duration, tell: Tell | None = None) -> Any: ...

    @overload
    def sync(
        self, name: str, question: str, /, *, within: Duration, tell: Tell | None = None, answer_as: type[T]
    ) -> T: ...

    def sync(
        self, name: str, question: str, /, *, within: Duration, tell: Tell | None = None, answer_as: Any = Any
    ) -> Any:
        """The same in a task that is a plain `def`."""
        attempt = asking_attempt(name, question)
        if attempt.is_in_loop():
            raise StepInvalid(f"{name!r}: this task is async.", fix=f"Write await ask({name!r}, ...).")
        return attempt.call_from_thread(self._ask(attempt, name, question, within, tell, answer_as))

    async def _ask(
        self, attempt: Attempt, name: str, question: str, within: Duration, tell: Tell | None, answer_as: Any
    ) -> Any:
        with attempt.mark_busy():
            known, answer = await attempt.find_step(name)
            if not known:
                asked = await write_question(attempt, name, question, within)
                if asked.status == "open":
                    await tell_once(attempt, name, tell, asked)
        if not known:
            if asked.status == "open":
                await suspend_for_answers(attempt, name, question, asked)
            answer = asked.answer
        return values.read_back(f"The answer to {name!r}", answer, answer_as)


ask = Asking()


def asking_attempt(name: object, question: object) -> Attempt:
    """The attempt that asks. Raises StepInvalid for a call that cannot be meant."""
    attempt = find_attempt(name, asking_attempt)
    if attempt is None:
        raise StepInvalid("No task is running here.", fix="Call ask() in a task that a worker runs.")
    if not isinstance(question, str) or not question.strip():
        raise StepInvalid(f"{name!r} asks nothing.", fix='Write ask("publish", "Publish the prices?", within="2d").')
    if not 1 <= len(cast(str, name)) <= longest_name:
        raise StepInvalid(f"A question's name has 1 to {longest_name} characters.", fix="Give it a short name.")
    if STEP_USAGE.get() is not None:
        raise StepInvalid(
            f"{name!r} is asked within a step, which would run again with the answer.",
            fix="Ask in the task itself, before the step or after it.",
        )
    return attempt


async def write_question(attempt: Attempt, name: str, question: str, within: Duration) -> Asked:
    """The question, written down or found. Raises LeaseLost, Unanswered or RequestInvalid."""
    lasting = parse_duration(within)
    asked = await patiently(lambda: attempt.backend.ask(attempt.lease, name, question, lasting))
    refuse(asked.status, attempt.lease, f"the question {name!r}")
    if asked.status == "late":
        error = Unanswered(f"No answer to {name!r} came in time: {question[:longest_message]}", code="unanswered")
        attempt.blame(error, name)
        raise error
    return asked


async def tell_once(attempt: Attempt, name: str, tell: Tell | None, asked: Asked) -> None:
    """Call `tell` with the link, unless it was called with it. A retried task has the old steps and a new link."""
    if tell is None:
        return
    step, mark = f"{name}:told", str(asked.id)
    known, sent_for = await attempt.find_step(step)
    if known and sent_for != mark:
        step = f"{step}:{mark}"
        known, _ = await attempt.find_step(step)
    if not known:
        with attempt.track_step(step) as spent:
            # At the server that HOLDFAST_API names, by default the one on this machine.
            await call_function(tell, (f"{attempt.settings.server}/answers/{asked.secret}",), {})
            await attempt.save_step(step, cast(Json, mark), spent)


async def suspend_for_answers(attempt: Attempt, name: str, question: str, asked: Asked) -> None:
    """Leave the handler, once all that it has under way is finished and all that it asks is asked."""
    assert asked.until is not None  # noqa: S101
    attempt.waits.append(Wait(name, asked.until, question))
    await attempt.wait_until_idle()
    first = min(attempt.waits, key=lambda wait: wait.until)
    more = f" (and {len(attempt.waits) - 1} more)" if len(attempt.waits) > 1 else ""
    message = f"Waits for an answer: {first.about[:longest_message]}{more}"
    raise SuspendHandler(
        Later(at=first.until, kind="question", message=message, steps=[wait.step for wait in attempt.waits])
    )  # fmt: skip
