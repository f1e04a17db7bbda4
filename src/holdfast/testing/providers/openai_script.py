"""What the stand-in of OpenAI is told, and what it answers to prompts."""

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

Mangling = Literal["duplicate", "shuffle", "missing", "foreign", "truncated", "huge", "body_as_text", "numbers_as_text"]
REFUSED = re.compile(r"!(\d{3})\b *(.*)", re.DOTALL)


@dataclass(frozen=True)
class Script:
    """How the stand-in behaves. Kept in its folder, so that it behaves the same after a restart."""

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

    @classmethod
    def read(cls, path: Path) -> "Script":
        return cls(**json.loads(path.read_text())) if path.exists() else cls()

    def changed(self, path: Path, changes: Mapping[str, Any]) -> "Script":
        """With these changes, and kept."""
        script = replace(self, **changes)
        path.write_text(json.dumps(asdict(script)))
        return script


def error(message: str, code: str | None = None, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def prompt_of(body: Mapping[str, Any]) -> str:
    messages = body.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else {}
    content = last.get("content", "") if isinstance(last, dict) else ""
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def answer_to(body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """The status and the body for a prompt: its words backwards. A prompt `!429 slow_down` is refused like that."""
    prompt = prompt_of(body)
    if refused := REFUSED.fullmatch(prompt):
        status, code = int(refused[1]), refused[2].strip() or None
        return status, error(f"This prompt is answered {status}.", code)
    if not isinstance(body.get("messages"), list):
        return 400, error("Missing required parameter: 'messages'.", "missing_required_parameter")
    words = prompt.split()
    return 200, {
        "id": f"chatcmpl-{abs(hash_of(prompt)):x}",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": body.get("model") or "stand-in",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": " ".join(reversed(words)), "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": len(words) + 3,
            "completion_tokens": len(words),
            "total_tokens": 2 * len(words) + 3,
        },
    }


def hash_of(text: str) -> int:
    """The same in every process."""
    return sum((at + 1) * ord(letter) for at, letter in enumerate(text))


def output_line(custom_id: str, status: int, body: Any) -> dict[str, Any]:
    response = {"status_code": status, "request_id": f"req_{custom_id}", "body": body}
    return {"id": f"batch_req_{custom_id}", "custom_id": custom_id, "response": response, "error": None}


def undone_line(custom_id: str, how: str) -> dict[str, Any]:
    why = {"code": f"batch_{how}", "message": f"This request was not done: the batch was {how}."}
    return {"id": f"batch_req_{custom_id}", "custom_id": custom_id, "response": None, "error": why}


def written(lines: Sequence[dict[str, Any]], mangled: Sequence[Mangling]) -> bytes:
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
        rows.append({**rows[0], "custom_id": "somebody-elses"})
    if "shuffle" in mangled:
        random.Random(7).shuffle(rows)  # noqa: S311 - the same each time
    text = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    return text[: -len(json.dumps(rows[-1])) // 2] if "truncated" in mangled and rows else text
