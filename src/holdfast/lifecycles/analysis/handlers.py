"""The handler of user tasks: runs the agents of a task one after the other, each as a step.

An agent that has completed does not run again, whatever happens to the worker. It gets the frozen inputs as files and
an empty folder; the files in it at the end are stored under the token of the lease, so that a worker which has lost its
lease cannot overwrite anything, and their names are the step's result. Files are streamed, memory stays flat.
"""

import mimetypes
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import Fatal, ObjectMissing, ObjectsUnreachable, Transient
from holdfast.execution.context import current, get_service, progress, step
from holdfast.execution.threads import call_function
from holdfast.lifecycles.analysis.store import Analyses, File
from holdfast.lifecycles.analysis.tools import (
    Agent,
    InputFile,
    Job,
    Tool,
    cannot_read,
    check_parameters,
    read_parameters,
)
from holdfast.objects import Objects
from holdfast.objects.scratch import scratch


def handler(tool: Tool, objects: Callable[[], Objects]) -> Callable[[str, list[str]], Awaitable[dict[str, Any]]]:
    """The handler of a tool's tasks, with files at `objects`."""

    async def analyse(tool_id: str, agents: list[str]) -> dict[str, Any]:
        """Run the agents that the task names."""
        lease = current()
        task, store = await get_service(Analyses).read(lease.task_id), objects()
        chosen = [agent_of(tool, name) for name in agents]
        with scratch() as folder:
            inputs = await fetch_inputs(store, task.files, folder)
            parameters = parameters_of(inputs, tool, chosen)
            for done, agent in enumerate(chosen):
                progress(done, len(agents), note=agent.name)
                work = folder / f"agent-{done}"
                work.mkdir()
                job = Job(inputs["primary"], work, inputs.get("baseline"), parameters)
                place = f"{task.folder}/outputs/{agent.name}/{lease.token.hex}"
                await step(agent.name, run_agent, agent, job, store, place)
        progress(len(agents), len(agents))
        return {"agents": agents}

    return analyse


def agent_of(tool: Tool, name: str) -> Agent:
    """The agent of this name. Raises Fatal: tasks outlive the release that knew their agents."""
    for agent in tool.agents:
        if agent.name == name:
            return agent
    raise Fatal(f"{tool.id} has no agent {name} here.", code="AGENT_ERROR")


async def fetch_inputs(objects: Objects, files: Sequence[File], folder: Path) -> dict[str, InputFile]:
    """The frozen inputs, on this machine, by role. Raises SchemaInvalid or Transient."""
    inputs = {}
    for one in files:
        path = folder / f"{one.role}.input"
        try:
            await objects.fetch(str(one.input_key), path)
        except ObjectMissing as error:
            raise cannot_read(f"{one.filename} is not in storage any more.") from error
        except ObjectsUnreachable as error:
            raise Transient(error.detail, code="INTERNAL_ERROR") from error
        inputs[one.role] = InputFile(path, one.filename)
    return inputs


def parameters_of(inputs: Mapping[str, InputFile], tool: Tool, chosen: Sequence[Agent]) -> Mapping[str, Any]:
    """parameters.json, checked before any agent is charged. Raises SchemaInvalid for unknown sections or options."""
    given = inputs.get("parameters")
    if given is None:
        return {}
    parameters = read_parameters(given.path)
    check_parameters(parameters, chosen, known=["reading", *(agent.name for agent in tool.agents)])
    return parameters


async def run_agent(agent: Agent, job: Job, objects: Objects, place: str) -> list[dict[str, Any]]:
    """Run one agent and put the files of its folder where objects live. Raises Failure."""
    outputs = []
    try:
        await call_function(agent.run, (job,), {})
        for path in sorted(one for one in job.folder.rglob("*") if one.is_file() and not one.is_symlink()):
            name = path.relative_to(job.folder).as_posix()
            kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
            found = await objects.put(f"{place}/{name}", path, content_type=kind)
            outputs.append({**vars(found), "name": f"{agent.name}/{name}", "content_type": kind})
    except ObjectsUnreachable as error:
        raise Transient(error.detail, code="INTERNAL_ERROR") from error
    return outputs
