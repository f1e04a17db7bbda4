"""An endpoint, the webhooks of a test's own database, and who delivers."""

import asyncio
from collections.abc import Iterator
from ipaddress import ip_network

import pytest

from holdfast.engine.store.commands import Store
from holdfast.remote.fetch.guard import Guard
from holdfast.webhooks.delivering import Deliverer
from holdfast.webhooks.store import Webhooks
from tests.webhooks.receiver import Receiver, receiving

HERE = Guard([ip_network("127.0.0.1/32")])  # stands for what is public


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def webhooks(store: Store) -> Webhooks:
    return Webhooks.over(store)


@pytest.fixture
def server(webhooks: Webhooks) -> Deliverer:
    """What a server does for webhooks."""
    return Deliverer(webhooks, HERE)


async def all_sent(*servers: Deliverer) -> None:
    """All that is due now is sent, by these."""
    busy = True
    while busy:
        busy = any([await server.send_due() for server in servers])
        for server in servers:
            while server.in_flight:
                await asyncio.wait(server.in_flight)
