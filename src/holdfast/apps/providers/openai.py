"""OpenAI's Batch API, and every server that speaks as it does.

OPENAI_API_KEY lets in, OPENAI_BASE_URL says where another server is. Prompts go up as one file, the batch carries our
token in its metadata, and by that it is found again: the listing shows the newest first. A server without batches is
asked once whether it has them; then we do the prompts ourselves (`Fanout`).
"""

import json
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from typing import IO, Any, Literal
from urllib.parse import quote, urlsplit

from holdfast.apps.providers.answers import (
    Listed,
    Page,
    as_int,
    as_object,
    find_listed,
    id_in,
    read_results,
    unknown_job,
)
from holdfast.apps.providers.kept_jobs import STOPPED, Fanout, is_here
from holdfast.apps.providers.transport import Line, Transport
from holdfast.engine.task import Category, Json
from holdfast.errors import Fatal, SchemaInvalid, Transient
from holdfast.execution.threads import in_thread
from holdfast.lifecycles.batch.provider import CannotTell, Ended, Input, Job, Provider, Result, Running, Usage
from holdfast.remote.http_errors import SPENT_UP, category_of, error_in, redact
from holdfast.remote.models import DEFAULT_SERVER
from holdfast.settings import vendor_variable

TOKEN = "holdfast_job"  # noqa: S105 - the name of the pair of metadata that carries it
CHAT = "/v1/chat/completions"
FILES = ("output_file_id", "error_file_id")
NO_BATCHES = (404, 405, 501)
OVER: dict[str, Literal["succeeded", "failed", "cancelled", "expired"]] = {
    "completed": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
    "expired": "expired",
}
WAITS = {"token_limit_exceeded", "rate_limit_exceeded"}
file_most_bytes = 200_000_000
upload_most = timedelta(minutes=15)
completion_most = timedelta(minutes=5)


class OpenAI(Provider):
    """Batches of chat completions."""

    name = "OPENAI"
    task_types = ("completion",)
    inputs_per_job = 50_000
    poll_every = timedelta(seconds=60)
    listed_within = timedelta(seconds=60)  # nothing is promised of the listing; a copy that lags is seconds behind

    def __init__(self, *, fanout_at_once: int = 4, fanout_spell: timedelta = timedelta(seconds=5)) -> None:
        self._url = (vendor_variable("OPENAI_BASE_URL") or DEFAULT_SERVER).rstrip("/")
        self.account = account_of(self._url, vendor_variable("OPENAI_PROJECT_ID"))
        self._http = Transport(self._url, authorisation)
        self._fanout = Fanout(self._complete, at_once=fanout_at_once, spell=fanout_spell)
        self._has_batches: bool | None = True if self._url == DEFAULT_SERVER else None

    def missing(self, task_type: str) -> str | None:
        if not self._url.startswith(("http://", "https://")):
            return "OPENAI_BASE_URL is not a web address: write https://host:port/v1."
        if self._url == DEFAULT_SERVER and not vendor_variable("OPENAI_API_KEY"):
            return "Set OPENAI_API_KEY, or OPENAI_BASE_URL if the server is another."
        return None

    def models(self, task_type: str) -> Sequence[str]:
        chosen = vendor_variable("OPENAI_MODEL")
        return (chosen,) if chosen else ()

    def refuse(self, task_type: str, one: Input) -> str | None:
        if not isinstance(one.body, dict) or not isinstance(one.body.get("messages"), list):
            return 'It is not a prompt: write {"messages": [{"role": "user", "content": "..."}]}.'
        return "A batch cannot stream: leave stream out." if one.body.get("stream") else None

    async def check(self) -> None:
        await self._http.ask("GET", "models")

    async def close(self) -> None:
        await self._http.close()

    async def submit(self, job: Job, inputs: Sequence[Input]) -> str:
        if job.model is None and self._url == DEFAULT_SERVER:
            raise SchemaInvalid("No model is named. Name one with the task, or set OPENAI_MODEL.")
        if not await self._batches():
            return await self._fanout.submit(job, inputs)
        asked = {
            "input_file_id": await self._upload(job, inputs),
            "endpoint": CHAT,
            "completion_window": "24h",
            "metadata": {TOKEN: job.token},
        }
        answer = await self._http.ask("POST", "batches", json=asked)
        return id_in(as_object(answer.json), f"{self._url} began a batch")

    async def find(self, job: Job) -> str | None:
        if job.account != self.account:
            raise CannotTell(f"It was to be submitted to {job.account}; OPENAI_BASE_URL now names {self.account}.")
        if here := await self._fanout.find(job):
            return here
        if await self._batches():
            return await find_listed(job, self._list)
        if as_object(job.memo).get("input_file_id"):
            raise CannotTell(f"{self._url} had batches when this job was submitted, and says now that it has none.")
        return None

    async def poll(self, job: Job) -> Running | Ended:
        self._check_account(job)
        if is_here(job):
            return await self._fanout.poll(job)
        answer = await self._http.ask("GET", address_of(job), expect=(404,))
        if answer.status == 404:
            return unknown_job(job, f"{self._url} does not know the batch {job.external_id} (any more).")
        batch = as_object(answer.json)
        status = str(batch.get("status") or "unknown")
        if status not in OVER:
            counts = as_object(batch.get("request_counts"))
            done = as_int(counts.get("completed")) + as_int(counts.get("failed")) if counts else None
            return Running(status, again_in=answer.again_in, done=done)
        files = files_of(batch)
        error, category = reason_of(status, batch)
        memo = {**as_object(job.memo), **files}
        return Ended(status, OVER[status], error, category, has_results=any(files.values()), memo=memo)

    def fetch(self, job: Job, inputs: Sequence[Input]) -> AsyncIterator[Result]:
        self._check_account(job)
        return self._fanout.fetch(job, inputs) if is_here(job) else self._fetch(job, inputs)

    async def _fetch(self, job: Job, inputs: Sequence[Input]) -> AsyncIterator[Result]:
        """The good ones first, then the failed."""
        files = as_object(job.memo)
        if "output_file_id" not in files:
            files = files_of(as_object((await self._http.ask("GET", address_of(job))).json))
        names = [file for name in FILES if (file := files.get(name))]
        paths = [f"files/{quote(str(name), safe='')}/content" for name in names]
        async with aclosing(read_results(self._http, paths, inputs, partial(result_of, job.model))) as results:
            async for result in results:
                yield result

    async def cancel(self, job: Job) -> Ended | None:
        self._check_account(job)
        if is_here(job):
            return STOPPED
        over = (400, 404, 409)  # it has ended, or is gone
        await self._http.ask("POST", f"{address_of(job)}/cancel", expect=over)
        return None

    async def _batches(self) -> bool:
        """Whether the server has batches; asked once."""
        if self._has_batches is None:
            answer = await self._http.ask("GET", "batches", params={"limit": 1}, expect=NO_BATCHES)
            self._has_batches = answer.status not in NO_BATCHES
        return self._has_batches

    async def _upload(self, job: Job, inputs: Sequence[Input]) -> str:
        """The file of prompts; the one that was uploaded before, if there is one."""
        kept = as_object(job.memo).get("input_file_id")
        if isinstance(kept, str):
            return kept
        with tempfile.TemporaryFile() as file:
            size = await in_thread(write_prompts, file, job.model, inputs)
            if size > file_most_bytes:
                raise SchemaInvalid(
                    f"These {len(inputs)} prompts are {size:,} bytes; a batch takes {file_most_bytes:,}. "
                    "Split the task, or shorten the prompts."
                )
            upload = {"file": (f"{job.token}.jsonl", file, "application/jsonl")}
            answer = await self._http.ask("POST", "files", form={"purpose": "batch"}, files=upload, whole=upload_most)
        found = id_in(as_object(answer.json), f"{self._url} took a file")
        await job.remember({"input_file_id": found})
        return found

    async def _list(self, after: str | None) -> Page:
        params = {"limit": 100, **({"after": after} if after else {})}
        page = as_object((await self._http.ask("GET", "batches", params=params)).json)
        if not isinstance(page.get("data"), list) or (page.get("has_more") and not page["data"]):
            raise Transient(f"{self._url} lists its batches in a way that says nothing.")
        rows = [row for row in page["data"] if isinstance(row, dict)]
        jobs = [
            Listed(row.get("id"), as_object(row.get("metadata")).get(TOKEN), as_int(row.get("created_at")))
            for row in rows
        ]
        return Page(jobs, str(rows[-1].get("id")) if page.get("has_more") and rows else None)

    async def _complete(self, job: Job, one: Input) -> Result:
        asked = chat_request(job.model, one)
        answer = await self._http.ask("POST", "chat/completions", json=asked, whole=completion_most)
        return completion_result(one.key, answer.json, job.model)

    def _check_account(self, job: Job) -> None:
        if job.account != self.account:
            raise Fatal(f"This job is at {job.account}, but OPENAI_BASE_URL now names {self.account}. Set it back.")


def authorisation() -> Mapping[str, str]:
    """Read each time: a key may be changed while jobs are under way."""
    key = vendor_variable("OPENAI_API_KEY")
    headers = {
        "Authorization": key and f"Bearer {key}",
        "OpenAI-Organization": vendor_variable("OPENAI_ORG_ID"),
        "OpenAI-Project": vendor_variable("OPENAI_PROJECT_ID"),
    }
    return {name: value for name, value in headers.items() if value}


def account_of(url: str, project: str | None) -> str:
    """The server, and the project there if one is named: neither sees the batches of another."""
    server = urlsplit(url).netloc.rpartition("@")[2] or "default"
    return f"{server}/{project}" if project else server


def address_of(job: Job) -> str:
    return f"batches/{quote(str(job.external_id), safe='')}"


def chat_request(model: str | None, one: Input) -> dict[str, Any]:
    return {**one.body, **({"model": model} if model else {})}


def write_prompts(file: IO[bytes], model: str | None, inputs: Sequence[Input]) -> int:
    for one in inputs:
        line = {"custom_id": one.key, "method": "POST", "url": CHAT, "body": chat_request(model, one)}
        file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
    size = file.tell()
    file.seek(0)
    return size


def files_of(batch: Mapping[str, Any]) -> dict[str, Json]:
    return {name: batch.get(name) or None for name in FILES}


def reason_of(status: str, batch: Mapping[str, Any]) -> tuple[str | None, Category | None]:
    """Why it ended without being completed, and of which category that is."""
    if status == "completed":
        return None, None
    if status != "failed":
        return f"The batch was {status}." if status == "cancelled" else "The batch did not end in time.", "Transient"
    errors = [error for error in as_object(batch.get("errors")).get("data") or () if isinstance(error, dict)]
    reasons = [f"line {one['line']}: {error_in(one)[1]}" if one.get("line") else error_in(one)[1] for one in errors]
    code = next((code for one in errors if (code := error_in(one)[0])), None)
    category: Category = "RateLimited" if code in WAITS else "Fatal" if code in SPENT_UP else "SchemaInvalid"
    return redact(f"The batch was refused: {'; '.join(reasons[:5]) or code or 'without a reason'}")[:1000], category


def result_of(model: str | None, line: Line) -> Result | None:
    """The result in a line of the files; None if it names no input."""
    row = as_object(line.json)
    key = row.get("custom_id")
    if not isinstance(key, str):
        return None
    response = as_object(row.get("response"))
    status = as_int(response.get("status_code"))
    if response and 200 <= status < 300:
        return completion_result(key, response.get("body"), model)
    body = as_object(response.get("body"))
    code, text = error_in(as_object(row.get("error")) or body, str(response.get("body") or ""))
    category = category_of(status, code) if status else "Fatal" if code in SPENT_UP else "Transient"
    error = redact(text)[:1000] or code or (f"It was answered {status}." if status else "It has no answer.")
    return Result(key, error=error, category=category, usage=usage_of(body, model))


def completion_result(key: str, answer: Json, model: str | None) -> Result:
    """The answer to one prompt, without what is of no use."""
    body = as_object(answer)
    choices = body.get("choices")
    choice = as_object(choices[0]) if isinstance(choices, list) and choices else {}
    message = as_object(choice.get("message"))
    usage = usage_of(body, model)
    if not message:
        return Result(key, error="The answer holds no message.", category="SchemaInvalid", usage=usage)
    output = {"text": text_of(message), "finish_reason": choice.get("finish_reason"), "model": body.get("model")}
    output |= {name: message[name] for name in ("tool_calls", "refusal") if message.get(name)}
    return Result(key, output, usage=usage)


def text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(as_object(part).get("text") or "") for part in content)
    return str(content or "")


def usage_of(body: Mapping[str, Any], model: str | None) -> Usage | None:
    """The tokens, under the name that the model was asked for by: prices go by that."""
    usage = as_object(body.get("usage"))
    name = model or body.get("model")
    if not usage or not name:
        return None
    return Usage(str(name), as_int(usage.get("prompt_tokens")), as_int(usage.get("completion_tokens")))
