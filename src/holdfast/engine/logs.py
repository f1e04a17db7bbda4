"""Logs of servers, workers and commands: lines for a person at a terminal, JSON for everything else, on stderr.

Everybody logs with the standard `logging`; what is particular goes into `extra`. Written here rather than taken from a
library because every runner that starts would wait a third of a second for its import.
"""

import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
CONTEXT: ContextVar[dict[str, Any]] = ContextVar("holdfast_log_context", default={})  # noqa: B039 - never changed
COLOURS = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31m"}


@contextlib.contextmanager
def log_with(**context: Any) -> Iterator[None]:
    """Put these into every line that is logged within."""
    token = CONTEXT.set({**CONTEXT.get(), **context})
    try:
        yield
    finally:
        CONTEXT.reset(token)


def configure_logs(level: int = logging.INFO) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ForPeople() if sys.stderr.isatty() else ForMachines())
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # we log its start and stop
    for name in ("watchfiles", "httpx", "httpx2", "botocore", "aiobotocore"):  # each says more than is of use here
        logging.getLogger(name).setLevel(logging.WARNING)


def particulars(record: logging.LogRecord) -> dict[str, Any]:
    extra = {name: value for name, value in vars(record).items() if name not in OWN}
    return {**CONTEXT.get(), **extra}


class ForMachines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
            **particulars(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class ForPeople(logging.Formatter):
    """Time, what happened, and what is particular to it."""

    def format(self, record: logging.LogRecord) -> str:
        at = f"{datetime.fromtimestamp(record.created):%H:%M:%S}"
        colour = COLOURS.get(record.levelname, "")
        extra = " ".join(f"{name}={value}" for name, value in particulars(record).items())
        line = f"\x1b[2m{at}\x1b[0m {colour}{printable(record.getMessage())}\x1b[0m \x1b[2m{printable(extra)}\x1b[0m"
        return line + ("\n" + self.formatException(record.exc_info) if record.exc_info else "")


def printable(text: str) -> str:
    """Text of others, without what would steer the terminal."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text)
