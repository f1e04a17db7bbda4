"""What an application offers, as its worker declares it over HTTP: tools, pipelines, batches, graphs and schedules."""

from typing import Annotated, Literal

from pydantic import Field

from holdfast.http.fields import Body, Json, Name, Real, Text, Whole

TOO_MANY = Field(max_length=1000, fail_fast=True)


class PublishedTool(Body):
    id: Name
    title: Text
    agents: Annotated[list[dict[str, Json]], TOO_MANY]


class PublishedPipeline(Body):
    name: Name
    title: Text
    stages: Annotated[list[dict[str, Json]], TOO_MANY]
    params: dict[str, Json]
    queue: Name | None = None
    max_attempts: Annotated[Whole, Field(ge=1, le=1000)]
    limit_seconds: Annotated[Real, Field(gt=0, le=86400 * 365)] | None = None


class PublishedBatch(Body):
    task_type: Name
    provider: Name
    name: Name
    queue: Name | None = None
    offer: dict[str, Json]


class PublishedDag(Body):
    name: Name
    title: Text
    nodes: Annotated[list[dict[str, Json]], Field(max_length=5000, fail_fast=True)]
    edges: Annotated[list[dict[str, Json]], Field(max_length=20_000, fail_fast=True)]
    params: dict[str, Json]
    writes: dict[Name, Literal["replace", "extends"]]
    cutover: Literal["auto", "manual"]


class PublishedTarget(Body):
    """The task or the graph that a schedule starts."""

    name: Name
    payload: dict[str, Json] = {}  # noqa: RUF012
    lifecycle: Name = "dispatch"
    queue: Name | None = None
    priority: Annotated[Whole, Field(ge=0, le=9)] = 0
    max_attempts: Annotated[Whole, Field(ge=1, le=1000)] | None = None
    tags: Annotated[list[Name], Field(max_length=20)] = []  # noqa: RUF012
    limit_key: Name | None = None
    limit_to: Annotated[Whole, Field(ge=1, le=1_000_000)] | None = None
    time_limit_seconds: Annotated[Real, Field(gt=0, le=86400 * 36500)] | None = None


class PublishedSchedule(Body):
    name: Name
    cron: Name
    timezone: Name
    starts: Literal["task", "dag"]
    target: PublishedTarget
    missed: Literal["latest", "all", "skip"]
    at: Name | None = None
    owner: Annotated[str, Field(max_length=200)] = ""
    own_queue: Name | None = None


class Published(Body):
    tools: Annotated[list[PublishedTool], TOO_MANY] = []  # noqa: RUF012
    pipelines: Annotated[list[PublishedPipeline], TOO_MANY] = []  # noqa: RUF012
    batches: Annotated[list[PublishedBatch], TOO_MANY] = []  # noqa: RUF012
    dags: Annotated[list[PublishedDag], TOO_MANY] = []  # noqa: RUF012
    schedules: Annotated[list[PublishedSchedule], TOO_MANY] = []  # noqa: RUF012
