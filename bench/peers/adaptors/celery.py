"""Celery with RabbitMQ or Redis: threads, late acknowledgement, no results. Its handlers are plain functions."""

import os
import time
from collections.abc import Sequence

from celery import Celery

from bench.peers.adaptors import contract

is_rabbitmq = contract.URL.startswith("amqp")
app = Celery("bench", broker=contract.URL)
app.conf.update(
    task_default_queue=contract.FOLDER.name,
    task_ignore_result=True,
    task_acks_late=contract.MODE != "default",
    task_reject_on_worker_lost=contract.MODE != "default",
    worker_prefetch_multiplier=5,
    broker_connection_retry_on_startup=True,
    broker_transport_options=(
        {"confirm_publish": True} if is_rabbitmq else {"visibility_timeout": 5} if contract.MODE == "best" else {}
    ),
)


class Peer(contract.Adaptor):
    async def setup(self) -> None:
        """The first worker makes the queue."""

    async def open(self) -> None:
        app.connection_for_write().ensure_connection(max_retries=3)

    async def submit(self, task: str, number: int) -> None:
        app.send_task(task, (number,))

    async def submit_many(self, task: str, numbers: Sequence[int]) -> None:
        with app.producer_pool.acquire(block=True) as producer:
            for number in numbers:
                app.send_task(task, (number,), producer=producer)

    async def work(self, mode: str) -> None:
        page = contract.tally()

        @app.task(name="noop")
        def noop(number: int) -> None:
            page.ran(number)
            page.ended()

        @app.task(name="nap")
        def nap(number: int) -> None:
            page.ran(number)
            time.sleep(contract.nap_seconds)
            page.ended()

        contract.wait_at_gate()
        quiet = ["--without-gossip", "--without-mingle", "--loglevel=ERROR"]
        name = f"--hostname={os.environ['PEER_WORKER']}@%h"  # two of one name do not get on
        app.worker_main(["worker", "--pool=threads", "--concurrency=20", name, *quiet])


if __name__ == "__main__":
    contract.run(Peer())
