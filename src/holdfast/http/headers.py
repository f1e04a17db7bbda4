"""Headers that several routes read: the key that makes a request count once, the trace that it belongs to."""

import re
from typing import Annotated

from fastapi import Header

IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=200)]
TraceParent = Annotated[str | None, Header(description="The trace it belongs to (W3C); what is none is ignored")]
TRACE = re.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def trace_of(traceparent: str | None) -> str | None:
    """The header's value, if it is one."""
    return traceparent if TRACE.fullmatch(traceparent or "") else None
