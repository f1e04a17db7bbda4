"""From settings to wake-ups: the one place that knows which ways there are to wake a worker."""

from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.engine.store.calls import Calls
from holdfast.settings import Settings
from holdfast.wakeups import Wakeups
from holdfast.wakeups.publishing import PendingWakeups, publish_on
from holdfast.wakeups.queue import queue_named
from holdfast.wakeups.sqs import SqsWakeups, WhichWait


def open_queue_wakeups(settings: Settings, which_wait: WhichWait) -> Wakeups | None:
    """Wake-ups through the queue that these settings name, if they do.

    Raises SettingInvalid where what it needs is not installed.
    """
    queue = queue_named(settings)
    return SqsWakeups(queue, which_wait) if queue else None


def publishers(settings: Settings, calls: Calls) -> list[Callable[[], Coroutine[Any, Any, None]]]:
    """What a process has to do so that workers are woken: nothing, where Postgres does it. Raises SettingInvalid."""
    queue = queue_named(settings)
    return [lambda: publish_on(PendingWakeups.over(calls), queue)] if queue else []
