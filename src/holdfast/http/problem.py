"""Errors over HTTP are `application/problem+json` (RFC 9457), wherever they arise.

A problem has a `code` that programs go by; of a task it says the state and which states may follow. No problem tells
what a log should not hold: no key, no token, nothing of the request's body.
"""

import logging
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any

import asyncpg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from holdfast.engine.store import encode
from holdfast.engine.store.commands import Store
from holdfast.errors import (
    DatabaseError,
    DatabaseUnreachable,
    HoldfastError,
    KeyRefused,
    ObjectsUnreachable,
    TaskError,
    TaskNotFound,
)

# The database is there and asks to be left alone for a moment: a deadlock lost eight times, no memory, a shutdown.
PASSING = (
    asyncpg.exceptions.TransactionRollbackError,
    asyncpg.exceptions.InsufficientResourcesError,
    asyncpg.exceptions.OperatorInterventionError,
)
retry_after_seconds = 2
log = logging.getLogger("holdfast.api")
errors_listed = 20


class Problem(BaseModel):
    """What went wrong, and what may be done next."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str | None
    task_id: str | None = None
    state: str | None = None
    allowed: list[str] | None = None
    errors: list[dict[str, Any]] | None = None
    missing: list[str] | None = None


class ProblemResponse(JSONResponse):
    media_type = "application/problem+json"


PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "description": "A problem",
        "content": {"application/problem+json": {"schema": Problem.model_json_schema()}},
    },
    "503": {
        "description": "The database is away, or the files",
        "headers": {"Retry-After": {"schema": {"type": "integer"}}},
    },
}


def problem(request: Request, status: int, title: str, detail: str, *, code: str, **extra: Any) -> ProblemResponse:
    request_id = getattr(request.state, "request_id", None)
    about = "about:blank" if code == slug(status) else f"urn:holdfast:{code}"
    body = {"type": about, "title": title, "status": status, "detail": encode.readable(detail),
            "instance": encode.readable(request.url.path), "code": code, "request_id": request_id, **extra}  # fmt: skip
    headers = {"X-Request-Id": request_id} if request_id else {}
    if status == 503:
        headers["Retry-After"] = str(retry_after_seconds)
    return ProblemResponse(body, status_code=status, headers=headers)


def refusal(request: Request, error: HoldfastError, **about: Any) -> ProblemResponse:
    """What one of our own errors answers."""
    detail = "\n".join(part for part in (error.detail, error.fix) if part)
    if isinstance(error, (DatabaseError, ObjectsUnreachable)) and not getattr(request.state, "principal", None):
        log.warning("%s", error)  # a caller without a key must not learn where the database is, or the files
        detail = "The server's log says why."
    answer = problem(request, error.http_status, error.title, detail, code=error.http_code, **error.more, **about)
    if isinstance(error, KeyRefused):
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def slug(status: int) -> str:
    return HTTPStatus(status).phrase.lower().replace(" ", "-")


def answer_errors(app: FastAPI, store: Store) -> None:
    """Teach `app` to answer every error as a problem, with the state of the task that it is about."""

    @app.exception_handler(HoldfastError)
    async def ours(request: Request, error: HoldfastError) -> ProblemResponse:
        return refusal(request, error, **await situation(request, error, store))

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> ProblemResponse:
        phrase = HTTPStatus(error.status_code).phrase
        answer = problem(request, error.status_code, phrase, str(error.detail), code=slug(error.status_code))
        answer.headers.update(error.headers or {})  # such as Retry-After with 429
        if error.status_code == 405:  # the first route of this path has refused; others may have taken it
            path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
            answer.headers["Allow"] = ", ".join(methods_at(path, request.app.routes))
        return answer

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> ProblemResponse:
        found = error.errors()
        errors = [
            {"loc": [part if isinstance(part, int) else encode.readable(part)[:200] for part in each["loc"]],
             "message": encode.readable(each["msg"])[:500]}
            for each in found[:errors_listed]
        ]  # fmt: skip
        detail = f"{len(found)} field(s) are wrong."
        return problem(request, 422, "The request is not valid", detail, code="request-invalid", errors=errors)

    async def answer_passing_trouble(request: Request, error: Exception) -> ProblemResponse:
        return await ours(request, DatabaseUnreachable(type(error).__name__, fix="Ask again."))

    for kind in PASSING:
        app.add_exception_handler(kind, answer_passing_trouble)

    @app.exception_handler(Exception)
    async def ours_to_mend(request: Request, error: Exception) -> ProblemResponse:
        detail = "This is a mistake of the server; its log has more under the request_id."
        return problem(request, 500, "The server made a mistake", detail, code="internal-server-error")


async def situation(request: Request, error: HoldfastError, store: Store) -> dict[str, Any]:
    """Where the task of a refused request is, and where it may go. Nothing of tasks that are not the caller's."""
    task_id = request.path_params.get("task_id") or getattr(request.state, "task_id", None)
    if not task_id or not isinstance(error, TaskError) or isinstance(error, TaskNotFound):
        return {}
    try:
        found = await store.next_states(task_id)
    except (DatabaseError, *PASSING):
        found = None
    return {"task_id": str(task_id)} | ({"state": found[0], "allowed": found[1]} if found else {})


def methods_at(path: str, routes: Iterable[Any]) -> list[str]:
    """What may be asked at this path: of the routes that fit it, those that name it most plainly."""
    found = sorted(routes_at(path, routes), key=lambda route: route.path.count("{"))
    return sorted({method for route in found if route.path == found[0].path for method in route.methods or ()})


def routes_at(path: str, routes: Iterable[Any]) -> Iterator[APIRoute]:
    """The routes that fit a path, in their order."""
    for route in routes:
        if isinstance(route, APIRoute):
            if route.path_regex.match(path):
                yield route
        elif router := getattr(route, "original_router", None):  # one that was included
            yield from routes_at(path, router.routes)
