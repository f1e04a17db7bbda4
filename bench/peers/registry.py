"""The peers: versions, settings and why, what each of them promises, and where its unfinished tasks can be seen."""

from dataclasses import dataclass

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
    """The distribution whose version is reported; None if the peer is not a package."""
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
    broker: str = ""
    """Where its tasks are, if not in Postgres: `redis` or `rabbitmq`."""
    finished: str = ""
    """SQL that puts a million finished tasks into its tables, as it would leave them."""

    @property
    def module(self) -> str:
        return f"bench.peers.adaptors.{self.adaptor or self.name}"


PEERS = [
    Peer(
        "holdfast",
        package="holdfast",
        settings="2,000 slots (500 for steps; default: 20), results in lists of 500 (default), bulk submit in lists of"
        " 1,000. Recovery: default lease 4 s; best: lease 1 s",
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
            select d.id, e.version, e.verb, e.before, e.after, 1
            from holdfast.task_done d, (values (0, 'submit', '', 'Queued'), (1, 'claim', 'Queued', 'Running'),
                                               (2, 'done', 'Running', 'Completed')) e (version, verb, before, after);
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
        "absurd",
        package="absurd-sdk",
        environment="absurd",
        settings="Async worker, uvloop, concurrency 500 (100 for steps), poll interval 0.25 s (default). It has no bulk"
        " call: its SQL function, 1,000 calls in one pipeline and transaction. Recovery: default claim_timeout 120 s;"
        " best: 5 s",
        promises="Tasks, runs and checkpoints are kept; a run whose claim passed is failed and tried again; steps are"
        " checkpointed",
        unfinished="select count(*) from absurd.t_bench where state <> 'completed'",
        workloads=EVERYWHERE | STEPS,
        tasks=4000,
        step_tasks=500,
    ),
    Peer(
        "procrastinate",
        package="procrastinate",
        environment="procrastinate",
        settings="psycopg, uvloop, concurrency 20, pool of 20, batch_defer in lists of 1,000. Recovery: by default"
        " none; best: heartbeats every 1 s, and the loop around get_stalled_jobs that its documentation asks for, at 3"
        " s",
        promises="Jobs and their events are kept. Stalled jobs are found if the user's own loop looks for them. No"
        " steps, no results",
        unfinished="select count(*) from procrastinate_jobs where status <> 'succeeded'",
        tasks=4000,
    ),
    Peer(
        "dbos",
        package="dbos",
        environment="dbos",
        settings="worker_concurrency 1,000 (steps 200 and a pool of 50), queue polled every 0.1 s (latency 0.05 s,"
        " steps 0.2 s; default 1 s). No bulk call: enqueue_in_transaction, 1,000 in one transaction. Recovery: by"
        " default another worker has another executor id; best: the same id is started again",
        promises="Workflows, inputs, outputs and steps are kept; a workflow continues after its last step when its"
        " executor is started again, or when its paid service says so",
        unfinished="select count(*) from dbos.workflow_status where status <> 'SUCCESS'",
        workloads=EVERYWHERE | STEPS,
        tasks=3000,
        step_tasks=300,
    ),
    Peer(
        "chancy",
        package="chancy",
        environment="chancy",
        settings="AsyncExecutor, uvloop, concurrency 1,000, eager_polling, compiled psycopg. Recovery: default"
        " heartbeat timeout 90 s; best: 3 s, recovery and leadership looked after every second",
        promises="Finished jobs are kept for a while; updates of a lost claim are discarded. No steps",
        unfinished="select count(*) from chancy_jobs where state <> 'succeeded'",
        tasks=10_000,
    ),
    Peer(
        "saq",
        package="saq",
        environment="saq",
        settings="Postgres queue, uvloop, concurrency 50. No bulk call: 1,000 enqueues at once over its pool. Recovery:"
        " by default a swept job is not tried again; best: heartbeat 3 s, which the handler sends, retries 3, sweep 1"
        " s",
        promises="Finished jobs are kept for 10 minutes with their result. No steps",
        unfinished="select count(*) from saq_jobs where status <> 'complete'",
        workloads=EVERYWHERE - {"killed"},
        tasks=4000,
    ),
    Peer(
        "oban",
        package="oban",
        environment="oban",
        settings="Python 3.12, since it needs that; uvloop, limit 500, enqueue_many in lists of 1,000, without the paid"
        " part. Recovery: default rescue_after 300 s; best: 3 s, looked after every second (it takes attempts for lost"
        " by their age alone, and the dead leader's term of 30 s has to pass)",
        promises="Finished jobs are kept for a day. A long job is taken for lost. No steps",
        unfinished="select count(*) from oban_jobs where state <> 'completed'",
        tasks=10_000,
        needs_python="3.12",
    ),
    Peer(
        "celery rabbitmq",
        package="celery",
        environment="celery",
        adaptor="celery",
        settings="RabbitMQ with durable queues, persistent messages and confirmed publishing; 20 threads, late"
        " acknowledgement, prefetch 100, no results. No bulk call. Recovery: default early acknowledgement; best: late,"
        " reject_on_worker_lost",
        promises="Tasks are in the broker, outside of the application's transactions; a finished task leaves nothing."
        " By default a task is lost with its worker. No steps. The end of a drain is the end of its last handler",
        workloads=EVERYWHERE - {"killed"},
        tasks=4000,
        broker="rabbitmq",
    ),
    Peer(
        "celery redis",
        package="celery",
        environment="celery",
        adaptor="celery",
        settings="Redis with appendfsync always; 20 threads, late acknowledgement, prefetch 100, no results. No bulk"
        " call. Recovery: default early acknowledgement; best: late, visibility_timeout 5 s",
        promises="As with RabbitMQ. A task that runs longer than visibility_timeout is run a second time beside itself",
        workloads=EVERYWHERE - {"killed"},
        tasks=4000,
        broker="redis",
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
