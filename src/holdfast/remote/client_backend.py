"""`ClientBackend` over HTTP: for programs that start tasks and wait for them.

A task that is started without a key is given one here: so it can be asked for again until an answer comes, and is made
once all the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from holdfast.engine.store import encode
from holdfast.engine.task import Ended, Event, Explanation, Json, Submission, Submitted
from holdfast.errors import RequestInvalid
from holdfast.remote.server import Server

TASKS = "/api/v1/tasks"
many = 1000
NOT_SENT = {"name", "lifecycle", "owner", "parent", "on_failure", "trace"}
"""Fields of a Submission that are sent otherwise, or not at all."""
BY_DATABASE = "Set HOLDFAST_URL: with the database at hand it can be."


class RemoteClient:
    """One short method for each question."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def make_queue(self, name: str) -> None:
        """Nothing: queues are made by the workers that serve them."""

    async def submit(self, *tasks: Submission) -> list[Submitted]:
        """Make these tasks, all or none. Raises RequestInvalid for what a server does not take."""
        if len(tasks) > many:
            raise RequestInvalid(f"A server takes up to {many} tasks at once.", fix="Start them in several calls.")
        if not tasks:
            return []
        body = [new_task(task) for task in tasks]
        trace = {"traceparent": tasks[0].trace} if tasks[0].trace else {}
        made = await self._server.request("POST", "/dispatch/tasks/many", body, headers=trace)
        return [Submitted(UUID(one["task_id"]), one["created"]) for one in made]

    async def start_dag(
        self, dag: str, params: Mapping[str, Json], *, key: str | None, tags: Sequence[str], trace: str | None
    ) -> UUID:
        """A run of a declared graph. Raises RequestInvalid or KeyConflict."""
        headers = {"Idempotency-Key": key or uuid4().hex} | ({"traceparent": trace} if trace else {})
        body = {"dag": dag, "params": dict(params), "tags": list(tags)}
        return UUID((await self._server.request("POST", "/dags", body, headers=headers))["dag_id"])

    async def read(self, task_id: UUID | str) -> dict[str, Any]:
        return dict(await self._server.request("GET", f"{TASKS}/{encode.task_id(task_id)}"))

    async def outcomes(self, ids: Iterable[UUID | str]) -> dict[UUID, Ended | None]:
        wanted = [encode.task_id(one) for one in ids]
        found: dict[UUID, Ended | None] = {}
        for begin in range(0, len(wanted), many):
            answer = await self._server.request("POST", "/api/v1/outcomes", {"ids": wanted[begin : begin + many]})
            ended = [encode.from_json(Ended, one) for one in answer["items"]]
            found |= {UUID(one): None for one in answer["missing"]} | {one.task_id: one for one in ended}
        return found

    async def events(self, task_id: UUID | str) -> list[Event]:
        answer = await self._server.request("GET", f"{TASKS}/{encode.task_id(task_id)}/events")
        return [encode.from_json(Event, one) for one in answer["items"]]

    async def explain(self, task_id: UUID | str) -> Explanation:
        answer = await self._server.request("GET", f"{TASKS}/{encode.task_id(task_id)}/why")
        return encode.from_json(Explanation, answer)

    async def cancel(self, task_id: UUID | str, reason: str | None = None) -> str:
        path = f"{TASKS}/{encode.task_id(task_id)}/cancel"
        return str((await self._server.request("POST", path, {"reason": reason}))["effect"])


def new_task(task: Submission) -> dict[str, Json]:
    """A task to be, as `POST /dispatch/tasks/many` takes it. Raises RequestInvalid."""
    if task.lifecycle != "dispatch":
        raise RequestInvalid(f"{task.name}: a task of the lifecycle {task.lifecycle} is not started over HTTP.",
                             fix=BY_DATABASE)  # fmt: skip
    if task.owner or task.parent is not None or not all(isinstance(one, UUID) for one in task.after):
        raise RequestInvalid(
            f"{task.name}: over HTTP a task belongs to the owner of the key, and waits for existing tasks.",
            fix=f"Leave out the owner, the parent, and places in `after`. {BY_DATABASE}",
        )
    after = [{"task_id": one, "on_failure": policy} for one, policy in encode.waits(task)]
    own = {"task": task.name, "key": task.key or uuid4().hex, "after": after, "tags": list(task.tags)}
    given = {"payload": {}} | {name: value for name, value in vars(task).items() if value is not None} | own
    return {name: value for name, value in given.items() if name not in NOT_SENT}
