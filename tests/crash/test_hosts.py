"""Hosts that lose sight of each other: every task that a client was told of is completed, and completed once.

The hosts are network namespaces, the witnesses those of the storm (test_workers.py): what handlers and client wrote
down on disk, and the event table. HOLDFAST_CRASH_SEED makes the same schedule of cuts again.
"""

import contextlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import pytest

from holdfast.postgres.connections import open_connection
from tests.crash.checker import verdict
from tests.crash.cuts import KINDS, Cuts
from tests.crash.export import export
from tests.crash.figures import ambiguous, describe_counts, held_at, held_by_process
from tests.crash.history import History
from tests.crash.hosted import HOSTS, PEERS, WORKERS, Hosted, crash_budget
from tests.crash.hosts import Network, NotAllowed
from tests.crash.world import World
from tests.eventually import eventually
from tests.worker.crew import ROOT

cut_seconds = float(os.environ.get("HOLDFAST_CRASH_SECONDS", "60"))
seed = int(os.environ.get("HOLDFAST_CRASH_SEED", time.time_ns() % 10**6))
lease_seconds = 4.0
answer_within_seconds = 60.0
calm_within_seconds = 60.0


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        network = Network(HOSTS)
    except NotAllowed as error:
        pytest.skip(str(error))
    yield network
    network.close()


@pytest.fixture(params=PEERS)
def hosted(request: pytest.FixtureRequest, network: Network) -> Iterator[Hosted]:
    """Where everything of this run is; what failed is kept until the same seed runs again."""
    folder = ROOT / ".cache" / "crash" / f"hosts-{request.param}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"\nseed {seed}, histories in {folder}")  # noqa: T201
    yield Hosted(network, folder, seed, request.param, lease_seconds)
    if (folder / "passed").exists():
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long
@pytest.mark.timeout(cut_seconds + 300)
async def test_hosts_that_lose_sight_of_each_other_lose_nothing(hosted: Hosted) -> None:
    async with hosted.running():
        await hosted.check_ways()
        hosted.start_client()
        await Cuts(hosted, History(hosted.histories, "cuts"), seed).strike(cut_seconds)
        healed = time.monotonic()
        await hosted.check_ways()
        await hosted.dismiss_client(within=answer_within_seconds)
        await eventually(lambda: all_ended(hosted), "everything to end", within=calm_within_seconds)
        calm_after = time.monotonic() - healed
        await hosted.leave()
        async with open_connection(hosted.database.owner_url(by_socket=True)) as owner:
            world = await export(owner, hosted.histories, lease_seconds)
        world.crash_budget = crash_budget
        found = counted(world, hosted)
        (hosted.folder / "summary.json").write_text(json.dumps(asdict(found), indent=2))
        print(f"{found.table()}\n{'all ended, after the last cut':32} {calm_after:.1f} s")  # noqa: T201
        if violations := verdict(world):
            pytest.fail(violations)
        assert await hosted.store.verify() == []
        assert set(found.ended) == {"Completed"}, "what was acknowledged is completed, all of it"
        refuse_vacuous(found)
    (hosted.folder / "passed").touch()


async def all_ended(hosted: Hosted) -> bool:
    return (await hosted.store.list_tasks(live=True, limit=1)).approx_count == 0


@dataclass
class Found:
    """What a run amounted to."""

    tasks: int
    ended: dict[str, int]
    cuts: dict[str, int]
    cuts_while_running: int
    leases_lost: int
    stopped_in_time: int
    stale_refused: int
    failed_over: int
    ambiguous_resolved: int

    def table(self) -> str:
        rows = [
            ("tasks", f"{self.tasks}, {describe_counts(self.ended)}"),
            ("cuts", f"{sum(self.cuts.values())} of {len(self.cuts)} kinds"),
            *((f"  {kind}", number) for kind, number in sorted(self.cuts.items())),
            ("workers cut off at work", self.cuts_while_running),
            ("leases lost", self.leases_lost),
            ("stopped by the worker itself", self.stopped_in_time),
            ("stale results refused", self.stale_refused),
            ("requests failed over", self.failed_over),
            ("ambiguous commits resolved", self.ambiguous_resolved),
        ]
        return "\n".join(f"{name:32} {value}" for name, value in rows)


def counted(world: World, hosted: Hosted) -> Found:
    held = held_by_process(world)
    faults = list(world.lines_of("fault", *KINDS))
    logged = logged_by_workers(hosted)
    struck = [line for line in faults if line["kind"].startswith("worker ")]
    return Found(
        tasks=len(world.tasks),
        ended=dict(Counter(row["state"] for row in world.tasks.values())),
        cuts=dict(Counter(line["kind"] for line in faults)),
        cuts_while_running=sum(
            bool(held_at(world, held, line["pids"], line["began"], whole_worker=False)) for line in struck
        ),
        leases_lost=sum(event["cause"] == "lease_lost" for events in world.events.values() for event in events),
        stopped_in_time=logged["lease about to end; stopped"],
        stale_refused=logged["result refused"],
        failed_over=sum(line.get("tried", 0) > 0 for line in world.lines_of("submit", "ok")),
        ambiguous_resolved=ambiguous(world),
    )


def logged_by_workers(hosted: Hosted) -> Counter[str]:
    """How often they logged what."""
    found: Counter[str] = Counter()
    for name in WORKERS:
        for line in (hosted.folder / f"{name}.log").read_text().splitlines():
            with contextlib.suppress(ValueError):
                found[json.loads(line)["event"]] += 1
    return found


def refuse_vacuous(found: Found) -> None:
    """A run in which nothing happened proves nothing."""
    assert found.tasks > 100, "vacuous: hardly anything was asked for"
    assert len(found.cuts) >= len(KINDS) - 3, f"vacuous: only {found.cuts}"
    for what in ("cuts_while_running", "leases_lost", "stopped_in_time", "stale_refused", "failed_over"):
        assert getattr(found, what) > 0, f"vacuous: no {what}"
