"""What workers run: the agents of a task, one after the other, each as a step.

An agent that has completed is not run again, whatever happens to the worker. It is given the frozen inputs as files and
an empty folder; what it leaves there is stored under the token of the lease, so that a worker which has lost its lease
cannot overwrite anything, and its names are the step's result. Files are streamed, memory stays flat.
"""

import mimetypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from holdfast.errors import Fatal, ObjectMissing, ObjectsUnreachable, Transient
from holdfast.execution.context import current, get_service, progress, step
from holdfast.execution.threads import call_function
from holdfast.lifecycles.analysis.analyses import Analyses
from holdfast.lifecycles.analysis.job import (
    Agent,
    InputFile,
    Job,
    cannot_read,
    check_parameters,
    read_parameters,
)
from holdfast.lifecycles.analysis.tools import Tool
from holdfast.objects import Objects
from holdfast.objects.scratch import scratch

Outputs = list[dict[str, Any]]


class Handler(Protocol):
    async def __call__(self, tool_id: str, agents: list[str]) -> dict[str, Any]: ...


def handler(tool: Tool, objects: Callable[[], Objects]) -> Handler:
    """The handler of a tool's tasks, with files at `objects`."""

    async def analyse(tool_id: str, agents: list[str]) -> dict[str, Any]:
        """Run the agents that the task names."""
        lease = current()
        found, store = await get_service(Analyses).read(lease.task_id), objects()
        chosen = [named(tool, name) for name in agents]
        with scratch() as folder:
            inputs = await fetched(store, found, folder)
            parameters = parameters_of(inputs, tool, chosen)
            for done, agent in enumerate(chosen):
                progress(done, len(agents), note=agent.name)
                work = folder / f"agent-{done}"
                work.mkdir()
                job = Job(inputs["primary"], work, inputs.get("baseline"), parameters)
                place = f"{found['folder']}/outputs/{agent.name}/{lease.token.hex}"
                await step(agent.name, completed, agent, job, store, place)
        progress(len(agents), len(agents))
        return {"agents": agents}

    return analyse


def named(tool: Tool, name: str) -> Agent:
    """The agent of this name. Raises Fatal: tasks outlive the release that knew their agents."""
    for agent in tool.agents:
        if agent.name == name:
            return agent
    raise Fatal(f"{tool.id} has no agent {name} here.", code="AGENT_ERROR")


async def fetched(objects: Objects, found: Mapping[str, Any], folder: Path) -> dict[str, InputFile]:
    """The frozen inputs, on this machine. Raises SchemaInvalid or Transient."""
    inputs = {}
    for one in found["files"]:
        path = folder / f"{one['role']}.input"
        try:
            await objects.fetch(one["input_key"], path)
        except ObjectMissing as error:
            raise cannot_read(f"{one['filename']} is not in storage any more.") from error
        except ObjectsUnreachable as error:
            raise Transient(error.detail, code="INTERNAL_ERROR") from error
        inputs[one["role"]] = InputFile(path, one["filename"])
    return inputs


def parameters_of(inputs: Mapping[str, InputFile], tool: Tool, chosen: Sequence[Agent]) -> Mapping[str, Any]:
    """parameters.json, looked at before anything is paid for. Raises SchemaInvalid for what no agent understands."""
    given = inputs.get("parameters")
    if given is None:
        return {}
    parameters = read_parameters(given.path)
    check_parameters(parameters, chosen, known=["reading", *(agent.name for agent in tool.agents)])
    return parameters


async def completed(agent: Agent, job: Job, objects: Objects, place: str) -> Outputs:
    """Run one agent and store what it wrote. Raises Failure."""
    try:
        await call_function(agent.run, (job,), {})
        return await stored(objects, job.folder, agent.name, place)
    except ObjectsUnreachable as error:
        raise Transient(error.detail, code="INTERNAL_ERROR") from error


async def stored(objects: Objects, folder: Path, agent: str, place: str) -> Outputs:
    """What lies in the folder, put where objects live."""
    outputs: Outputs = []
    for path in files_below(folder):
        name = path.relative_to(folder).as_posix()
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        found = await objects.put(f"{place}/{name}", path, content_type=kind)
        outputs.append({"name": f"{agent}/{name}", "key": found.key, "bytes": found.bytes, "content_type": kind})
    return outputs


def files_below(folder: Path) -> list[Path]:
    return sorted(one for one in folder.rglob("*") if one.is_file() and not one.is_symlink())
