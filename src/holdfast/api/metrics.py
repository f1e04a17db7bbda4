"""`/metrics` for Prometheus: the database's gauges and counters, read when asked, and this process's requests.

What the database counts is the same whichever server is asked: scrape all of them, and take the maximum, not the sum.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.engine.store.commands import Store
from holdfast.engine.store.keys import ROLES
from holdfast.http.access import make_router

HELP = {
    "queue_depth": "Tasks that are due and wait for a worker, up to 10,000",
    "queue_oldest_wait_seconds": "For how long the first of them has waited",
    "queue_paused": "1 if nothing of the queue is claimed",
    "leases": "Tasks that workers hold",
    "lease_oldest_age_seconds": "For how long the oldest lease has been held",
    "workers_live": "Workers that were heard of within half a minute",
    "inbox_open": "Failures that wait for a person, up to 10,000",
    "tasks_live": "Tasks that have not ended, among 100,000 at most",
}
COUNTED = {
    "reaped": "Leases that ran out and were taken back",
    "expired": "Time limits that passed",
    "lost": "Heartbeats, checkpoints and completions refused because the lease was lost",
}


def routes(store: Store, registry: CollectorRegistry) -> APIRouter:
    router = make_router("", "server", *ROLES)

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """What is measured, in the text format of Prometheus."""
        counted = generate_latest(Counted(await store.metrics()))
        return Response(counted + generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router


@dataclass(frozen=True)
class Counted(Collector):
    """What the database has just counted: names, labels and values."""

    rows: Iterable[tuple[str, dict[str, str], float]]

    def collect(self) -> Iterable[Metric]:
        found: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for name, labels, value in self.rows:
            keys = sorted(labels)
            if name not in found:
                kind = CounterMetricFamily if name in COUNTED else GaugeMetricFamily
                title = f"holdfast_{name}_total" if name in COUNTED else f"holdfast_{name}"
                found[name] = kind(title, COUNTED.get(name) or HELP[name], labels=keys)
            found[name].add_metric([labels[key] for key in keys], value)
        return found.values()
