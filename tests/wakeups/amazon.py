"""SQS for tests: moto plays it, one server for all processes of a run; each test has a queue and a line of its own.

The line is what stands between: it can be cut, and requests can go wrong on it.
"""

import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import httpx2

from holdfast.testing.providers.faults import Faults
from holdfast.testing.providers.serving import Forward, Server
from holdfast.wakeups.queue import Queue
from tests import sharing

TARGET = "x-amz-target"
SEND = {TARGET: r"\.SendMessageBatch$"}
RECEIVE = {TARGET: r"\.ReceiveMessage$"}
KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIASTANDIN",
    "AWS_SECRET_ACCESS_KEY": "no secret",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def start_moto(folder: Path) -> sharing.Started:
    (port,) = sharing.free_ports(1)
    serve = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    pid = sharing.spawn(folder, sys.executable, "-c", serve)
    url = f"http://127.0.0.1:{port}"
    sharing.wait_for(folder, pid, lambda: httpx2.get(f"{url}/moto-api/", timeout=2).status_code == 200)
    return pid, {**KEYS, "AWS_ENDPOINT_URL": url}


@dataclass
class Line:
    """A queue, and the way to it."""

    server: Server
    faults: Faults
    queue_url: str
    queue: Queue

    @property
    def variables(self) -> dict[str, str]:
        """What leads a worker here."""
        return {**KEYS, "AWS_ENDPOINT_URL": self.server.url, "HOLDFAST_WAKEUPS": f"sqs:{self.queue_url}"}

    async def send(self, *tasks: UUID) -> None:
        assert await self.queue.send(tasks) == []

    async def say(self, *bodies: str) -> None:
        """Messages as they are, whoever may understand them."""
        client = await self.queue._client()
        for body in bodies:
            await client.send_message(QueueUrl=self.queue_url, MessageBody=body)

    async def bodies(self) -> list[str]:
        """All messages that can be seen, taken out."""
        client = await self.queue._client()
        found: list[str] = []
        while True:
            some = (await client.receive_message(QueueUrl=self.queue_url, MaxNumberOfMessages=10)).get("Messages", [])
            if not some:
                return found
            for one in some:
                found.append(one["Body"])
                await client.delete_message(QueueUrl=self.queue_url, ReceiptHandle=one["ReceiptHandle"])

    async def counted(self) -> tuple[int, int]:
        """How many messages can be seen, and how many are kept from others."""
        client = await self.queue._client()
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = await client.get_queue_attributes(QueueUrl=self.queue_url, AttributeNames=names)
        seen, hidden = (int(answer["Attributes"][name]) for name in names)
        return seen, hidden

    def asked(self, verb: str) -> int:
        """How many requests of this kind came."""
        return sum(one.noted.get(TARGET, "").endswith(f".{verb}") for one in self.faults.requests())


@contextlib.asynccontextmanager
async def line_to(moto: str) -> AsyncIterator[Line]:
    """A queue of its own behind a line of its own; AWS' variables must be set by who calls."""
    faults = Faults(Forward(moto), note=[TARGET])
    with Server(faults) as server:
        async with Queue(f"{server.url}/123456789012/{uuid4().hex}") as queue:
            client = await queue._client()
            made = await client.create_queue(QueueName=queue.url.rpartition("/")[2])
            assert made["QueueUrl"].endswith(queue.url.rpartition("/")[2])
            yield Line(server, faults, queue.url, queue)
