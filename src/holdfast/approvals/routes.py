"""Questions over HTTP: behind a link, for those who have it; and as a list, for owners and operators.

A link needs no key: the 256 random bits in it are the right to answer that one question. To look answers nothing.
"""

import json
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from holdfast.approvals.page import question_page, refusal_page
from holdfast.approvals.store import Question, Questions
from holdfast.engine.store import encode
from holdfast.engine.store.commands import Store
from holdfast.errors import HoldfastError, QuestionError, RequestInvalid
from holdfast.http.access import UserOrOperator, body_most_bytes, make_router, owned_by, read_json
from holdfast.http.fields import Body, Name, Text
from holdfast.http.shapes import Limit, Page, mark_repeated, page

Token = Annotated[str, Path(min_length=1, max_length=200)]
FORM = "application/x-www-form-urlencoded"

PRIVATE = {"Cache-Control": "no-store", "Referrer-Policy": "same-origin"}
ANSWER: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"description": "Any JSON value"}},
            FORM: {
                "schema": {
                    "type": "object",
                    "properties": {"approved": {"enum": ["true", "false"]}, "note": {"type": "string"}},
                    "required": ["approved"],
                }
            },
        },
    }
}
REPLAYED: dict[int | str, dict[str, Any]] = {200: {"headers": {"Idempotency-Replayed": {"schema": {"type": "string"}}}}}


class QuestionByLink(BaseModel):
    """A question, for those who have its link."""

    question: str
    step: str
    task: str | None = Field(validation_alias="name")
    state: Literal["open", "answered", "late", "closed"]
    asked_at: datetime
    until: datetime
    answered_at: datetime | None


class AnswerKept(BaseModel):
    """The answer counts."""

    state: Literal["answered"] = "answered"
    step: str


class AnswerGiven(Body):
    """Any JSON value; or whether it is approved, and a note."""

    answer: Any = None
    approved: bool | None = None
    note: Text | None = None

    def value(self) -> Any:
        """The answer as the task gets it. Raises RequestInvalid unless it is given in one way."""
        if (self.approved is None) == ("answer" not in self.model_fields_set):
            raise RequestInvalid(
                "Answer in one way.", fix='Send {"answer": ...}, or {"approved": true, "note": "..."}.'
            )
        return self.answer if self.approved is None else approval(self.approved, self.note)


class AnswerTaken(BaseModel):
    task_id: UUID
    step: str
    repeated: bool


def routes(store: Store) -> APIRouter:
    """The list, and the links."""
    router = make_router("", "questions")
    questions = Questions.over(store)

    @router.get("/answers/{token}", response_model=QuestionByLink)
    async def look(token: Token, request: Request) -> Response:
        """What is asked, and whether anybody still waits for the answer. A page for browsers, else JSON."""
        try:
            found = await questions.read(token)
        except QuestionError as error:
            return answer_refusal(request, error)
        if wants_page(request):
            return question_page(found)
        answer = QuestionByLink.model_validate(found, from_attributes=True)
        return JSONResponse(answer.model_dump(mode="json"), headers=PRIVATE)

    @router.post("/answers/{token}", response_model=AnswerKept, openapi_extra=ANSWER, responses=REPLAYED)
    async def answer(token: Token, request: Request) -> Response:
        """Answer it: with any JSON, or with the page's form. The same again is the same; another answer is refused."""
        try:
            answered = await questions.answer_by_link(token, await read_answer(request))
            if wants_page(request):
                return question_page(await questions.read(token))
        except QuestionError as error:
            return answer_refusal(request, error)
        response = JSONResponse(AnswerKept(step=answered.step).model_dump(), headers=PRIVATE)
        mark_repeated(response, answered.repeated)
        return response

    @router.get("/api/v1/questions")
    async def list_questions(
        caller: UserOrOperator, cursor: UUID | None = None, limit: Limit = 50
    ) -> Page[Question, UUID]:
        """Questions that somebody waits for, the oldest first; for a user, of their own tasks."""
        found = await questions.open(owned_by(caller), after=cursor, limit=limit)
        return page(found, limit, lambda last: last.id)

    @router.post("/api/v1/questions/{task_id}/{step:path}", responses=REPLAYED)
    async def answer_question(
        task_id: UUID, step: Name, asked: AnswerGiven, caller: UserOrOperator, response: Response
    ) -> AnswerTaken:
        """Answer a question. The same again is the same; another answer is refused."""
        owner = owned_by(caller)
        answered = await questions.answer(task_id, asked.value(), step=step, by=caller.name, owner=owner)
        mark_repeated(response, answered.repeated)
        return AnswerTaken(task_id=answered.task_id, step=answered.step, repeated=answered.repeated)

    return router


def answer_refusal(request: Request, error: HoldfastError) -> Response:
    """A page for who looks at pages. Raises the error for everybody else."""
    if wants_page(request):
        return refusal_page(error)
    raise error


def wants_page(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


async def read_answer(request: Request) -> Any:
    """What was sent. Raises BodyTooLarge, RequestInvalid or RequestValidationError."""
    is_form = request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM
    await read_json(request, body_most_bytes)
    body = await request.body()
    is_form = is_form and not body.lstrip().startswith((b"{", b"["))  # curl calls all that it sends a form
    try:
        if not is_form:
            return json.loads(body)
        fields = {name: values[0] for name, values in parse_qs(body.decode(), max_num_fields=10).items()}
    except (ValueError, RecursionError):
        raise RequestValidationError([{"loc": ("body",), "msg": "is neither JSON nor a form"}]) from None
    if fields.get("approved") not in ("true", "false"):
        raise RequestValidationError([{"loc": ("body", "approved"), "msg": "is neither true nor false"}])
    return approval(fields["approved"] == "true", encode.text(fields.get("note")))


def approval(approved: bool, note: str | None) -> dict[str, Any]:
    """What buttons say."""
    return {"approved": approved, "note": note or None}
