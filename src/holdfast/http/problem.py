"""Errors over HTTP are `application/problem+json` (RFC 9457), whoever raised them."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from holdfast.errors import HoldfastError


class ProblemResponse(JSONResponse):
    media_type = "application/problem+json"


def problem(
    request: Request, status: int, title: str, detail: str, *, kind: str = "about:blank", **extra: Any
) -> ProblemResponse:
    body = {"type": kind, "title": title, "status": status, "detail": detail, "instance": request.url.path, **extra}
    return ProblemResponse(body, status_code=status)


def answer_errors(app: FastAPI) -> None:
    """Teach `app` to answer every error as a problem."""

    @app.exception_handler(HoldfastError)
    async def ours(request: Request, error: HoldfastError) -> ProblemResponse:
        slug = re.sub(r"(?<!^)(?=[A-Z])", "-", type(error).__name__).lower()
        detail = "\n".join(part for part in (error.detail, error.fix) if part)
        return problem(request, error.http_status, error.title, detail, kind=f"urn:holdfast:{slug}")

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> ProblemResponse:
        answer = problem(request, error.status_code, HTTPStatus(error.status_code).phrase, str(error.detail))
        answer.headers.update(headers_of(error.headers))
        return answer

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> ProblemResponse:
        errors = [{"loc": list(each["loc"]), "message": each["msg"]} for each in error.errors()]
        return problem(request, 422, "The request is not valid", f"{len(errors)} field(s) are wrong.", errors=errors)


def headers_of(headers: Mapping[str, str] | None) -> dict[str, str]:
    """The headers an error brings along, such as Allow with 405."""
    return {name: value for name, value in (headers or {}).items() if name.lower() != "content-length"}
