"""A queue of Amazon's, and the five calls that wake-ups need of it. What a message holds is known only here.

A message is `{"task_id": "..."}` and nothing else. Endpoint, keys and region come from Amazon's own variables; without
them, the queue's address tells where it is and in which region. No call is made twice here: who calls does so later.
"""

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from holdfast.distribution import install_hint
from holdfast.errors import SettingInvalid
from holdfast.settings import Settings, vendor_variable

log = logging.getLogger("holdfast.wakeups")

T = TypeVar("T")

batch_at_most = 10
"""What Amazon takes in one call."""
calls_at_once = 10
connect_within_seconds = 5.0
answer_within_seconds = 30.0
longest_poll_seconds = 20
OWN_HOST = re.compile(r"(?:sqs\.([a-z0-9-]+)|([a-z0-9-]+)\.queue)\.amazonaws\.com(?:\.cn)?")
ENDPOINTS = ("AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL")


@dataclass(frozen=True)
class Message:
    """One message as it was received: which, how often so far, and the receipt that settles it."""

    id: str
    receipt: str
    task_id: UUID | None
    """None if it is not ours."""
    received: int


class Queue:
    """A queue, whose client is made with the first call. To be closed: `async with Queue(url) as queue`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._stack = contextlib.AsyncExitStack()
        self._sqs: Any = None
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()
        self._sqs = None

    async def _client(self) -> Any:
        async with self._opening:
            if self._sqs is None:
                # Half a second of importing, which leases and tasks need not wait for.
                await asyncio.to_thread(import_module, "aiobotocore.session")
                self._sqs = await self._stack.enter_async_context(self._make_client())
        return self._sqs

    def _make_client(self) -> Any:
        from aiobotocore.config import AioConfig
        from aiobotocore.session import get_session

        config = AioConfig(
            connect_timeout=connect_within_seconds,
            read_timeout=answer_within_seconds,
            max_pool_connections=calls_at_once + 2,
            retries={"total_max_attempts": 1},
        )
        parts = urlsplit(self.url)
        endpoint = None if vendor_variable(*ENDPOINTS) else f"{parts.scheme}://{parts.netloc}"
        return get_session().create_client(
            "sqs", region_name=region_of(self.url), endpoint_url=endpoint, config=config
        )  # fmt: skip

    async def send(self, tasks: Sequence[UUID]) -> list[UUID]:
        """A message for each; the answer is which were not taken, at worst all. Raises nothing."""
        entries = [{"MessageBody": json.dumps({"task_id": str(one)})} for one in tasks]
        return await self._call_in_batches("send_message_batch", tasks, entries, "wake-ups could not be sent")

    async def receive(self, *, visibility_seconds: float, poll_seconds: int = longest_poll_seconds) -> list[Message]:
        """Up to ten messages, as soon as there are any; others do not see them for so long. Raises what went wrong."""
        answer = await (await self._client()).receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=batch_at_most,
            WaitTimeSeconds=poll_seconds,
            VisibilityTimeout=max(round(visibility_seconds), 1),
            MessageSystemAttributeNames=["ApproximateReceiveCount"],
        )
        return [
            Message(
                one["MessageId"],
                one["ReceiptHandle"],
                task_named(one.get("Body", "")),
                int(one.get("Attributes", {}).get("ApproximateReceiveCount", 1)),
            )
            for one in answer.get("Messages", ())
        ]

    async def delete(self, messages: Sequence[Message]) -> list[Message]:
        """Have done with these; the answer is for which it did not work. Raises nothing."""
        entries = [{"ReceiptHandle": one.receipt} for one in messages]
        return await self._call_in_batches("delete_message_batch", messages, entries, "messages could not be deleted")

    async def hide(self, messages: Sequence[tuple[Message, float]]) -> list[tuple[Message, float]]:
        """Keep each from others for so many seconds; the answer is for which it did not work. Raises nothing."""
        entries = [{"ReceiptHandle": one.receipt, "VisibilityTimeout": round(seconds)} for one, seconds in messages]
        action = "change_message_visibility_batch"
        return await self._call_in_batches(action, messages, entries, "messages could not be kept")

    async def _call_in_batches(
        self, action: str, things: Sequence[T], entries: Sequence[Mapping[str, Any]], complaint: str
    ) -> list[T]:
        """Those of these things that failed, in calls of ten, some at once."""
        slots = asyncio.Semaphore(calls_at_once)

        async def call(begin: int) -> list[T]:
            numbers = range(begin, min(begin + batch_at_most, len(entries)))
            sent = [{"Id": str(number), **entries[number]} for number in numbers]
            async with slots:
                try:
                    answer = await getattr(await self._client(), action)(QueueUrl=self.url, Entries=sent)
                except Exception as error:  # whatever it was, it was not done
                    log.debug(complaint, extra={"error": describe(error)})
                    return [things[number] for number in numbers]
            done = {int(one["Id"]) for one in answer.get("Successful", ())}
            return [things[number] for number in numbers if number not in done]

        calls = [call(begin) for begin in range(0, len(things), batch_at_most)]
        return [thing for failed in await asyncio.gather(*calls) for thing in failed]

    async def depth(self) -> int:
        """About how many messages wait to be received. Raises what went wrong."""
        wanted = "ApproximateNumberOfMessages"
        answer = await (await self._client()).get_queue_attributes(QueueUrl=self.url, AttributeNames=[wanted])
        return int(answer["Attributes"][wanted])


def task_named(body: str) -> UUID | None:
    """The task that a message is about; None if it is not ours."""
    try:
        given = json.loads(body)
        return UUID(given["task_id"]) if isinstance(given, dict) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def describe(error: BaseException) -> str:
    return str(error) or type(error).__name__


def queue_named(settings: Settings) -> Queue | None:
    """The queue of the settings, if they name one. Raises SettingInvalid where its driver is missing."""
    if settings.sqs_queue is None:
        return None
    if not find_spec("aiobotocore"):
        raise SettingInvalid(
            "HOLDFAST_WAKEUPS names a queue of SQS, and what speaks to it is not installed.",
            fix=f"{install_hint('sqs')}, or unset it.",
        )
    return Queue(settings.sqs_queue)


def region_of(url: str) -> str:
    """Where the queue is: its address tells; for a server of another kind, the variables, or anything."""
    found = OWN_HOST.fullmatch(urlsplit(url).hostname or "")
    named = found and (found[1] or found[2])
    return named or vendor_variable("AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1"
