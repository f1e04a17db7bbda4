"""Amazon's stand-in: moto plays Transcribe and S3 as a process of its own, with faults before it.

    with Amazon(folder) as amazon:
        amazon.record("s3://calls/monday.wav", "good morning")
        amazon.fail("s3://calls/broken.wav", "Unsupported media format")
        amazon.faults.add("POST", "^/$", lost_answer(), headers=START)
        ...                                  # the client of Amazon has `amazon.variables` in its environment
        assert amazon.begun() == ["token"]

moto ends every job well and writes no transcript. Both are made good here, while requests pass through. Every job that
was ever begun is in a file of the folder, and stays there. Everything else is in moto's memory, and gone when the
stand-in is stopped; `amazon.server.stop()` only cuts the line, and loses nothing.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import httpx2
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from holdfast.testing.providers.faults import Faults, answer_of, headers_of, replace_body
from holdfast.testing.providers.ledger import append, read_lines
from holdfast.testing.providers.serving import Forward, Server, launch

START = {"x-amz-target": r"\.StartTranscriptionJob$"}
GET = {"x-amz-target": r"\.GetTranscriptionJob$"}
"""Which calls a fault is for; those to S3 have no such header, but a path."""

LAUNCH = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()  # it ends with who started it
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(f"http://127.0.0.1:{server.port}", flush=True)
server.serve_forever()
"""


class Amazon:
    """Transcribe and S3 on a port of loopback. A job ends with its third Get, unless `pace` says otherwise.

    It is the ASGI app before moto: it notes the jobs that are begun, and gives them an end, good or bad.
    """

    _moto: "subprocess.Popen[str] | None" = None
    _http: httpx2.Client
    _forward: Forward

    def __init__(self, folder: Path, *, port: int = 0) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.faults = Faults(self, ledger=folder / "requests.jsonl", note=["x-amz-target"])
        self.server = Server(self.faults, port=port)
        self._ledger = folder / "jobs.jsonl"
        self._texts: dict[str, str] = {}
        self._reasons: dict[str, str] = {}
        self._written: set[str] = set()

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def variables(self) -> dict[str, str]:
        """What leads a client of Amazon's here."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "AKIASTANDIN",
            "AWS_SECRET_ACCESS_KEY": "no secret",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def record(self, uri: str, text: str | None = None) -> str:
        """Put a recording into its bucket; what is spoken in it, if not what its name says. The address."""
        self.put(uri, b"RIFF")
        if text is not None:
            self._texts[uri] = text
        return uri

    def put(self, uri: str, body: bytes) -> None:
        """Write an object as it is, whatever fault there is; its bucket is made if there is none."""
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        path = f"/{bucket}/{quote(key)}"
        if self._http.put(path, content=body).status_code == 404:
            self._http.put(f"/{bucket}")
            self._http.put(path, content=body).raise_for_status()

    def fail(self, uri: str, reason: str) -> None:
        """Jobs on this recording end as FAILED, for this reason."""
        self._reasons[uri] = reason

    def pace(self, *, gets: int | None = None, seconds: float | None = None) -> None:
        """From now on a job's status changes after so many Gets, or so many seconds; it changes three times."""
        if seconds is not None:
            transition: dict[str, Any] = {"progression": "time", "seconds": seconds}
        else:
            transition = {"progression": "manual", "times": gets or 1}
        asked = {"model_name": "transcribe::transcriptionjob", "transition": transition}
        self._http.post("/moto-api/state-manager/set-transition", json=asked)

    def begun(self, uri: str | None = None) -> list[str]:
        """The names of all jobs that were ever begun (on this recording), as often as they were."""
        jobs = read_lines(self._ledger)
        return [job["TranscriptionJobName"] for job in jobs if uri in (None, job["Media"]["MediaFileUri"])]

    def start(self) -> Self:
        if not find_spec("moto") or not find_spec("flask"):
            raise RuntimeError("Amazon's stand-in is moto. Install moto[s3,transcribe], flask and flask-cors.")
        log = self.folder / "moto.log"
        with log.open("wb") as output:
            try:
                self._moto, url = launch([sys.executable, "-c", LAUNCH], stdin=subprocess.PIPE, stderr=output)
            except RuntimeError as error:
                raise RuntimeError(f"moto did not start: {log.read_text()[-2000:]}") from error
        self._forward = Forward(url)
        self._http = httpx2.Client(base_url=url, trust_env=False, timeout=30)
        self._written.clear()
        self.server.start()
        return self

    def stop(self) -> None:
        self.server.stop()
        if self._moto:
            self._http.close()
            self._moto.kill()
            self._moto.communicate()
            self._moto = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        target = headers_of(scope).get("x-amz-target", "")
        if scope["type"] != "http" or not target:
            await self._forward(scope, receive, send)
            return
        asked: list[bytes] = []

        async def record_body() -> Message:
            message = await receive()
            asked.append(message.get("body", b""))
            return message

        answer = await answer_of(self._forward, scope, record_body)
        if answer.status_code == 200:
            match target.rpartition(".")[2]:
                case "StartTranscriptionJob":
                    append(self._ledger, json.loads(b"".join(asked)))
                case "GetTranscriptionJob":
                    self._end(answer)
        await answer(scope, receive, send)

    def _end(self, answer: Response) -> None:
        """A job that is completed has failed, if it is to; otherwise its transcript is where it was wanted."""
        body = json.loads(bytes(answer.body))
        job = body["TranscriptionJob"]
        if job.get("TranscriptionJobStatus") != "COMPLETED":
            return
        name, uri = job["TranscriptionJobName"], job["Media"]["MediaFileUri"]
        if (reason := self._reasons.get(uri)) is not None:
            job.pop("Transcript", None)
            job |= {"TranscriptionJobStatus": "FAILED", "FailureReason": reason}
            replace_body(answer, json.dumps(body).encode())
            return
        asked = next((one for one in read_lines(self._ledger) if one["TranscriptionJobName"] == name), {})
        bucket, key = asked.get("OutputBucketName"), asked.get("OutputKey")
        if bucket and key and name not in self._written:
            self._written.add(name)
            text = self._texts.get(uri) or text_in(uri)
            transcript = transcript_of(name, text, job.get("LanguageCode") or "en-US")
            self.put(f"s3://{bucket}/{key}", json.dumps(transcript).encode())


def text_in(uri: str) -> str:
    """What is spoken in s3://bucket/good-morning.wav: good morning."""
    return uri.rpartition("/")[2].rpartition(".")[0].replace("-", " ").replace("_", " ")


def transcript_of(name: str, text: str, language: str) -> dict[str, Any]:
    """A transcript as Amazon writes them: numbers are strings, half a second for each item."""
    items: list[dict[str, Any]] = [
        {
            "id": at,
            "type": "pronunciation",
            "alternatives": [{"confidence": "0.99", "content": content}],
            "start_time": f"{at / 2:.2f}",
            "end_time": f"{at / 2 + 0.5:.2f}",
        }
        for at, content in enumerate(text.split())
    ]
    whole = {
        "id": 0,
        "transcript": text,
        "start_time": "0.0",
        "end_time": f"{len(items) / 2:.2f}",
        "items": [item["id"] for item in items],
    }
    results = {
        "language_code": language,
        "language_identification": [{"score": "0.99", "code": language}],
        "transcripts": [{"transcript": text}],
        "items": items,
        "audio_segments": [whole] if items else [],
    }
    return {"jobName": name, "accountId": "123456789012", "status": "COMPLETED", "results": results}
