"""A fake server of OpenAI: files, batches, chat completions, models.

`ledger` is the witness: every batch that was ever begun, in the order they were; `completions` has every prompt that
was answered in a chat. One in another process answers them at GET /_ledger and /_completions; POST /_script with fields
of its script changes how it behaves.
"""

import json
import random
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from email import message_from_bytes
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from holdfast.engine.task import Json
from holdfast.testing.providers.ledger import append, as_object, read_lines, write

STAGES = ("validating", "in_progress", "finalizing")
ENDPOINTS = ("/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/completions", "/v1/moderations")
DAY_SECONDS = 86_400
Batch = dict[str, Any]
Mangling = Literal["duplicate", "shuffle", "missing", "foreign", "truncated", "huge", "body_as_text", "numbers_as_text"]
REFUSED = re.compile(r"!(\d{3})\b *(.*)", re.DOTALL)


@dataclass(frozen=True)
class Script:
    """How the stand-in behaves."""

    key: str | None = None
    """The only key that lets in; None for any."""
    has_batches: bool = True
    """Without them the server answers 404, as most do that only speak chat."""
    polls: int = 1
    """How many polls each of validating, in_progress and finalizing lasts."""
    seconds: float | None = None
    """How long each of them lasts; then polls do not count."""
    ends: Literal["completed", "failed", "expired", "cancelled"] = "completed"
    part: float = 1.0
    """How much of an expired or cancelled batch was done."""
    failed_code: str = "invalid_request"
    """Why a batch failed, if it ends so."""
    unknown_polls: int = 0
    """A new batch is unknown (404) to so many polls."""
    hidden_lists: int = 0
    """A new batch is missing from so many listings."""
    hidden_seconds: float = 0
    """A new batch is missing from listings for so long."""
    page_most: int = 100
    mangled: Sequence[Mangling] = ()
    """What is wrong with the lines of the output file."""
    empty_error_file: bool = False
    cancel: Literal["works", "too_late", "refused"] = "works"
    """`too_late`: the batch completes all the same. `refused`: 400, as for one that has ended."""
    forgotten: Sequence[str] = field(default_factory=tuple)
    """Batches that existed, and are unknown now."""


class Refused(Exception):
    """An answer with another status than 200."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        self.answer = JSONResponse(error(message, code), status)


class OpenAIStandIn:
    """An ASGI app: files, batches, chat completions and models. `behave` changes its script at any time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("files", "batches"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    @property
    def script(self) -> Script:
        """Kept in the folder, so that it behaves the same after a restart."""
        path = self.folder / "script.json"
        return Script(**(as_object(path.read_bytes()) if path.exists() else {}))

    def behave(self, **changes: Any) -> Script:
        """From now on, behave like this: fields of the script."""
        script = replace(self.script, **changes)
        write(self.folder / "script.json", json.dumps(asdict(script)).encode())
        return script

    def ledger(self) -> list[dict[str, Any]]:
        """Every batch that was ever begun: id, metadata, input_file_id."""
        return [{name: batch[name] for name in ("id", "metadata", "input_file_id")} for batch in self._batches()]

    def completions(self) -> list[str]:
        """Every prompt that was answered in a chat."""
        return [line["prompt"] for line in read_lines(self.folder / "completions.jsonl")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        body = await request.body()
        try:
            match request.url.path:
                case "/_script":
                    found: Response | Json = asdict(self.behave(**as_object(body)))
                case "/_ledger":
                    found = self.ledger()
                case "/_completions":
                    found = self.completions()
                case _:
                    found = self._answer(request, body)
        except Refused as refused:
            found = refused.answer
        response = found if isinstance(found, Response) else JSONResponse(found)
        response.headers["x-request-id"] = f"req_{secrets.token_hex(8)}"
        await response(scope, receive, send)

    def _answer(self, request: Request, body: bytes) -> Response | Json:
        """What the vendor answers. Raises Refused."""
        method, path, script = request.method, request.url.path, self.script
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        if script.key is not None and key != script.key:
            raise Refused(401, f"Incorrect API key provided: {key}.", "invalid_api_key")
        parts = path.removeprefix("/v1").strip("/").split("/")
        if parts[0] in ("files", "batches") and not script.has_batches:
            raise Refused(404, "File Not Found", "not_found_error")
        match method, parts:
            case "GET", ["models"]:
                models = [{"id": "stand-in", "object": "model", "created": 1_790_000_000, "owned_by": "holdfast"}]
                return {"object": "list", "data": models}
            case "POST", ["chat", "completions"]:
                return self._chat(as_object(body))
            case "POST", ["files"]:
                return self._upload(request.headers.get("content-type", ""), body)
            case "GET", ["files"]:
                files = [self._file(path.name) for path in sorted((self.folder / "files").iterdir()) if not path.suffix]
                return {"object": "list", "data": files, "has_more": False}
            case "GET", ["files", file]:
                return self._file(file)
            case "GET", ["files", file, "content"]:
                self._file(file)
                return Response((self.folder / "files" / file).read_bytes(), media_type="application/octet-stream")
            case "DELETE", ["files", file]:
                self._file(file)
                (self.folder / "files" / file).unlink()
                return {"id": file, "object": "file", "deleted": True}
            case "POST", ["batches"]:
                return self._begin(as_object(body))
            case "GET", ["batches"]:
                return self._list(request.query_params.get("after"), request.query_params.get("limit"))
            case "GET", ["batches", batch]:
                return self._poll(self._batch(batch), script)
            case "POST", ["batches", batch, "cancel"]:
                return self._cancel(self._batch(batch), script)
        raise Refused(404, f"Invalid URL ({method} {path})", "unknown_url")

    def _chat(self, body: dict[str, Any]) -> Response | Json:
        if body.get("stream"):
            raise Refused(400, "This server does not stream.", "unsupported_value")
        status, answer = answer_to(body)
        if status != 200:
            return JSONResponse(answer, status)
        append(self.folder / "completions.jsonl", {"prompt": prompt_of(body)})
        return answer

    def _upload(self, kind: str, body: bytes) -> dict[str, Any]:
        fields = parts_of(kind, body)
        for name in ("file", "purpose"):
            if name not in fields:
                raise Refused(400, f"Missing required parameter: '{name}'.", "missing_required_parameter")
        filename, content = fields["file"]
        return self._keep(filename, content, fields["purpose"][1].decode())

    def _keep(self, filename: str, content: bytes, purpose: str) -> dict[str, Any]:
        file = f"file-{secrets.token_hex(8)}"
        about = {
            "id": file,
            "object": "file",
            "bytes": len(content),
            "created_at": int(time.time()),
            "filename": filename,
            "purpose": purpose,
            "status": "processed",
            "expires_at": int(time.time()) + 30 * DAY_SECONDS,
        }
        write(self.folder / "files" / f"{file}.json", json.dumps(about).encode())
        write(self.folder / "files" / file, content)
        return about

    def _file(self, file: str) -> dict[str, Any]:
        if not re.fullmatch(r"file-\w+", file) or not (self.folder / "files" / file).exists():
            raise Refused(404, f"No such File object: {file}", "not_found")
        return as_object((self.folder / "files" / f"{file}.json").read_bytes())

    def _begin(self, asked: dict[str, Any]) -> Batch:
        for name in ("input_file_id", "endpoint", "completion_window"):
            if not isinstance(asked.get(name), str):
                raise Refused(400, f"Missing required parameter: '{name}'.", "missing_required_parameter")
        self._file(asked["input_file_id"])
        if asked["endpoint"] not in ENDPOINTS or asked["completion_window"] != "24h":
            raise Refused(400, "Invalid value for 'endpoint' or 'completion_window'.", "invalid_value")
        metadata = asked.get("metadata") or {}
        lengths = [(len(name), len(value) if isinstance(value, str) else 513) for name, value in metadata.items()]
        if len(lengths) > 16 or any(name > 64 or value > 512 for name, value in lengths):
            raise Refused(400, "Invalid 'metadata': 16 pairs of 64 and 512 characters at most.", "invalid_metadata")
        number = len(self.ledger()) + 1
        now = time.time()
        batch: Batch = {
            "id": f"batch_{number:06}{secrets.token_hex(6)}",
            "object": "batch",
            "endpoint": asked["endpoint"],
            "errors": None,
            "input_file_id": asked["input_file_id"],
            "completion_window": "24h",
            "status": "validating",
            "output_file_id": None,
            "error_file_id": None,
            "created_at": int(now),
            "expires_at": int(now) + DAY_SECONDS,
            **{f"{stage}_at": None for stage in ("in_progress", "finalizing", "completed", "failed", "expired")},
            **{f"{stage}_at": None for stage in ("cancelling", "cancelled")},
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
            "metadata": metadata,
            "_": {"number": number, "began": now, "polls": 0, "lists": 0},
        }
        return self._save(batch)

    def _batches(self) -> list[Batch]:
        """All of them, oldest first."""
        return [as_object(path.read_bytes()) for path in sorted((self.folder / "batches").glob("batch_*.json"))]

    def _batch(self, batch: str) -> Batch:
        path = self.folder / "batches" / f"{batch}.json"
        if not re.fullmatch(r"batch_\w+", batch) or not path.exists() or batch in self.script.forgotten:
            raise Refused(404, f"No batch found with id '{batch}'.")
        return as_object(path.read_bytes())

    def _save(self, batch: Batch) -> Batch:
        """Keep it; the fields of it that are shown."""
        write(self.folder / "batches" / f"{batch['id']}.json", json.dumps(batch).encode())
        return public_fields(batch)

    def _list(self, after: str | None, limit: str | None) -> dict[str, Any]:
        script = self.script
        rows = []
        for batch in reversed(self._batches()):
            hidden = batch["_"]["lists"] < script.hidden_lists
            if not after and hidden:
                batch["_"]["lists"] += 1
                self._save(batch)
            if not hidden and time.time() - batch["_"]["began"] >= script.hidden_seconds:
                rows.append(public_fields(batch))
        if after:
            places = [at for at, row in enumerate(rows) if row["id"] == after]
            rows = rows[places[0] + 1 :] if places else []
        page = rows[: min(int(limit or 20), script.page_most)]
        ends = {"first_id": page[0]["id"] if page else None, "last_id": page[-1]["id"] if page else None}
        return {"object": "list", "data": page, **ends, "has_more": len(page) < len(rows)}

    def _poll(self, batch: Batch, script: Script) -> Batch:
        """A poll, which lets the work go on."""
        own = batch["_"]
        own["polls"] += 1
        if own["polls"] <= script.unknown_polls:
            self._save(batch)
            raise Refused(404, f"No batch found with id '{batch['id']}'.")
        status = batch["status"]
        if status == "cancelling":
            self._end(batch, "cancelled", script)
        elif status in STAGES:
            polls = own["polls"] - script.unknown_polls - 1
            at = (time.time() - own["began"]) / script.seconds if script.seconds else polls / max(script.polls, 1)
            stage = len(STAGES) if not script.seconds and not script.polls else int(at)
            if stage >= 1 and (errors := self._refused_lines(batch)):
                batch["errors"] = {"object": "list", "data": errors}
                self._end(batch, "failed", script)
            elif stage >= len(STAGES):
                self._end(batch, script.ends, script)
            elif STAGES[stage] != status:
                batch |= {"status": STAGES[stage], f"{STAGES[stage]}_at": int(time.time())}
                batch["request_counts"]["total"] = len(list(self._requests(batch)))
        return self._save(batch)

    def _cancel(self, batch: Batch, script: Script) -> Batch:
        if script.cancel == "refused" or batch["status"] not in (*STAGES, "cancelling"):
            raise Refused(400, f"Cannot cancel a batch with status '{batch['status']}'.")
        if script.cancel == "too_late":
            self._end(batch, "completed", script)
        else:
            batch |= {"status": "cancelling", "cancelling_at": int(time.time())}
        return self._save(batch)

    def _requests(self, batch: Batch) -> Iterator[dict[str, Any]]:
        yield from read_lines(self.folder / "files" / batch["input_file_id"])

    def _refused_lines(self, batch: Batch) -> list[dict[str, Any]]:
        """What validation finds in the input file."""
        seen: set[Any] = set()
        errors = []
        lines = (self.folder / "files" / batch["input_file_id"]).read_text().splitlines()
        for number, text in enumerate(lines, 1):
            line = as_object(text.encode())
            name = line.get("custom_id")
            if not line:
                code, message = "invalid_json_line", "This line is not parseable as valid JSON."
            elif name is None or not isinstance(line.get("body"), dict):
                code, message = "missing_required_parameter", "custom_id or body is missing."
            elif name in seen:
                code, message = "duplicate_custom_id", f"The custom_id '{name}' is used more than once."
            elif line.get("url") != batch["endpoint"]:
                code, message = "invalid_url", "The URL provided for this request does not match the batch endpoint."
            else:
                seen.add(name)
                continue
            errors.append({"code": code, "line": number, "message": message, "param": None})
        empty = {"code": "empty_file", "line": None, "message": "The input file is empty.", "param": None}
        return errors if lines else [empty]

    def _end(self, batch: Batch, status: str, script: Script) -> None:
        batch |= {"status": status, f"{status}_at": int(time.time())}
        if status == "failed":
            message = f"The batch failed: {script.failed_code}."
            errors = [{"code": script.failed_code, "line": None, "message": message, "param": None}]
            batch["errors"] = batch["errors"] or {"object": "list", "data": errors}
            return
        requests = list(self._requests(batch))
        count = len(requests) if status == "completed" else int(len(requests) * script.part)
        answers = [(one["custom_id"], *answer_to(one["body"])) for one in requests[:count]]
        good = [output_line(*answer) for answer in answers if answer[1] == 200]
        bad = [output_line(*answer) for answer in answers if answer[1] != 200]
        bad += [undone_line(one["custom_id"], status) for one in requests[count:]]
        if good:
            file = self._keep(f"{batch['id']}_output.jsonl", file_of(good, script.mangled), "batch_output")
            batch["output_file_id"] = file["id"]
        if bad or script.empty_error_file:
            batch["error_file_id"] = self._keep(f"{batch['id']}_error.jsonl", file_of(bad, ()), "batch_output")["id"]
        batch["request_counts"] = {"total": len(requests), "completed": len(good), "failed": len(bad)}
        used = [line["response"]["body"]["usage"] for line in good]
        tokens_in, tokens_out = (sum(one[name] for one in used) for name in ("prompt_tokens", "completion_tokens"))
        batch["usage"] = {
            "input_tokens": tokens_in,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": tokens_out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens_in + tokens_out,
        }


def public_fields(batch: Batch) -> Batch:
    return {name: value for name, value in batch.items() if name != "_"}


def parts_of(kind: str, body: bytes) -> dict[str, tuple[str, bytes]]:
    """The fields of a form: the name of the file, if there is one, and the content."""
    form = message_from_bytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
    parts: list[Any] = list(form.walk())[1:] if form.is_multipart() else []
    return {
        part.get_param("name", header="content-disposition"): (part.get_filename(""), part.get_payload(decode=True))
        for part in parts
    }


# Answers


def error(message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


def prompt_of(body: Mapping[str, Any]) -> str:
    messages = body.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else {}
    content = last.get("content", "") if isinstance(last, dict) else ""
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def answer_to(body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """The status and the body for a prompt: its parts backwards. A prompt `!429 slow_down` is refused like that."""
    prompt = prompt_of(body)
    if refused := REFUSED.fullmatch(prompt):
        status, code = int(refused[1]), refused[2].strip() or None
        return status, error(f"This prompt is answered {status}.", code)
    if not isinstance(body.get("messages"), list):
        return 400, error("Missing required parameter: 'messages'.", "missing_required_parameter")
    parts = prompt.split()
    return 200, {
        "id": f"chatcmpl-{crc32(prompt.encode('utf-8', 'replace')):x}",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": body.get("model") or "stand-in",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": " ".join(reversed(parts)), "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": len(parts) + 3,
            "completion_tokens": len(parts),
            "total_tokens": 2 * len(parts) + 3,
        },
    }


def output_line(custom_id: str, status: int, body: Any) -> dict[str, Any]:
    response = {"status_code": status, "request_id": f"req_{custom_id}", "body": body}
    return {"id": f"batch_req_{custom_id}", "custom_id": custom_id, "response": response, "error": None}


def undone_line(custom_id: str, how: str) -> dict[str, Any]:
    why = {"code": f"batch_{how}", "message": f"This request was not done: the batch was {how}."}
    return {"id": f"batch_req_{custom_id}", "custom_id": custom_id, "response": None, "error": why}


def file_of(lines: Sequence[dict[str, Any]], mangled: Sequence[Mangling]) -> bytes:
    """A file of these lines, with everything wrong that is asked for."""
    rows = [json.loads(json.dumps(line)) for line in lines]
    if "numbers_as_text" in mangled:
        for row in rows:
            row["response"]["status_code"] = str(row["response"]["status_code"])
            usage = row["response"]["body"]["usage"]
            row["response"]["body"]["usage"] = {name: str(value) for name, value in usage.items()}
    if "huge" in mangled and rows:
        rows[0]["response"]["body"]["choices"][0]["message"]["content"] = "long " * 300_000
    if "body_as_text" in mangled:
        for row in rows:
            row["response"]["body"] = json.dumps(row["response"]["body"])
    if "missing" in mangled:
        rows = rows[:-1]
    if "duplicate" in mangled:
        rows = [*rows, *(json.loads(json.dumps(row)) for row in rows)]
    if "foreign" in mangled and rows:
        rows.append({**rows[0], "custom_id": "another-job"})
    if "shuffle" in mangled:
        random.Random(7).shuffle(rows)  # noqa: S311 - the same each time
    text = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    return text[: -len(json.dumps(rows[-1])) // 2] if "truncated" in mangled and rows else text
