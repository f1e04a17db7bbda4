"""The peers: versions, settings and why, what each of them promises, and where its unfinished tasks can be seen."""

from dataclasses import dataclass, field

EVERYWHERE = frozenset({"submit", "drain1", "drain2", "idle", "default", "best", "killed"})
STEPS = frozenset({"steps"})
UNDER_WEIGHT = frozenset({"million", "snapshot"})

million = 1_000_000


@dataclass(frozen=True)
class Peer:
    """One column of the comparison."""

    name: str
    settings: str
    """What a user who knows it would choose, and where that differs from its defaults."""
    promises: str
    """What becomes of a task, in the words of somebody who has to rely on it."""
    package: str = ""
    """The distribution whose version is told; none for what is no package."""
    environment: str = ""
    """Under this name an environment is made of `requirements/NAME.txt`; without one, it is the project's own."""
    adaptor: str = ""
    unfinished: str = ""
    """How many tasks are not finished, as SQL. Without it, handlers that ended are counted."""
    workloads: frozenset[str] = EVERYWHERE
    tasks: int = 20_000
    """How many a drain has. Fewer for the slow: their rate does not depend on it, the time we have does."""
    step_tasks: int = 1000
    batch: int = 500
    needs_python: str = ""
    broker: str = "postgres"
    finished: str = ""
    """SQL that puts a million finished tasks into its tables, as it would leave them."""
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def module(self) -> str:
        return f"bench.peers.adaptors.{self.adaptor or self.name}"


PEERS = [
    Peer(
        "holdfast",
        package="holdfast",
        settings="500 slots, results in lists of 500 (--slots 500 --batch 500; default: 20 and 200), bulk submit in"
        " lists of 1,000. Recovery: default lease 4 s; best: lease 1 s",
        promises="Every move checked against the lifecycle and kept as an event; completions fenced by a token;"
        " finished tasks kept with payload and result; steps checkpointed. A worker is two processes",
        unfinished="select count(*) from holdfast.task",
        workloads=EVERYWHERE | STEPS | UNDER_WEIGHT | {"runner"},
        step_tasks=2000,
        finished=f"""
            set session_replication_role = replica;
            insert into holdfast.task_done (id, lifecycle, name, state, actor, queue, max_attempts, outcome)
            select holdfast.uuid7(), l.id, 'noop', 'Completed', 'nobody', 'default', 3, 'done'
            from holdfast.lifecycle l, generate_series(1, {million}) n where l.name = 'dispatch';
            insert into holdfast.event (task_id, version, verb, from_state, to_state, attempt)
            select d.id, v, 'done', 'Running', 'Completed', 1 from holdfast.task_done d, generate_series(0, 2) v;
            insert into holdfast.input (id, payload) select id, '{{"number": 1}}' from holdfast.task_done;
        """,
    ),
    Peer(
        "pgqueuer",
        package="pgqueuer",
        environment="pgqueuer",
        settings="asyncpg, uvloop, batch_size 500 (default 10), durable tables (default), bulk submit in lists of"
        " 1,000. Recovery: default heartbeat_timeout 30 s; best: 3 s, and dequeue_timeout 1 s",
        promises="A finished job's row is deleted; a log row stays for each change. Completions are not fenced: whoever"
        " comes, deletes. No steps, no results",
        unfinished="select count(*) from pgqueuer",
        workloads=EVERYWHERE | UNDER_WEIGHT,
        finished=f"""
            insert into pgqueuer_log (job_id, status, priority, entrypoint, aggregated)
            select n, s::pgqueuer_status, 0, 'noop', true
            from generate_series(1, {million}) n, unnest(array['queued', 'picked', 'successful']) s;
        """,
    ),
    Peer(
        "limit 500",
        adaptor="limit",
        settings="Not a queue: insert, claim with SKIP LOCKED by one update, delete; one statement and one commit for"
        " each list of 500, by asyncpg and uvloop in Python",
        promises="None: nothing is checked, fenced, kept or recovered",
        unfinished="select count(*) from bare",
        workloads=frozenset({"submit", "drain1", "drain2"}),
    ),
    Peer(
        "limit 100",
        adaptor="limit",
        settings="The same with lists of 100",
        promises="None",
        unfinished="select count(*) from bare",
        workloads=frozenset({"drain1", "drain2"}),
        batch=100,
    ),
]  # fmt: skip
