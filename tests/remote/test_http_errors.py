"""A status means the same wherever it is read: a provider, a document, an exception of a handler."""

from datetime import timedelta

import pytest

from holdfast.errors import Failure, Fatal, RateLimited, SchemaInvalid, Transient
from holdfast.remote.http_errors import failure_for
from holdfast.remote.retry_after import retry_wait

TABLE: list[tuple[type[Failure], list[int]]] = [
    (SchemaInvalid, [400, 413, 415, 422]),
    (RateLimited, [429]),
    (Transient, [408, 409, 425, 500, 501, 502, 503, 504, 520, 529, 599]),
    (Fatal, [301, 304, 401, 402, 403, 404, 405, 406, 407, 410, 418, 451]),
]


@pytest.mark.parametrize(("failure", "status"), [(kind, status) for kind, many in TABLE for status in many])
def test_each_status_has_one_category(failure: type[Failure], status: int) -> None:
    assert type(failure_for(status, "It failed.", {})) is failure


def test_a_503_that_asks_to_wait_is_waited_for_and_may_have_done_its_work() -> None:
    failure = failure_for(503, "Maintenance.", {"retry-after": "90"})
    assert (type(failure), failure.retry_after) == (Transient, timedelta(seconds=90))


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached"])
def test_a_limit_that_somebody_has_to_pay_for_is_fatal(code: str) -> None:
    failure = failure_for(429, "Pay.", {"retry-after": "1"}, code=code)
    assert (type(failure), failure.retry_after) == (Fatal, None)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after": "Tue, 04 Mar 2025 12:05:00 GMT", "date": "Tue, 04 Mar 2025 12:00:00 GMT"}, 300),
        ({"retry-after": "Tue, 04 Mar 2025 12:05:00 GMT"}, 0),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}, 360),
        ({"x-ratelimit-reset-tokens": "6m", "x-ratelimit-remaining-requests": "0"}, None),
        ({"x-ratelimit-reset": "20ms"}, 0.02),
        ({"retry-after": "1e300"}, 86_400),
        *(({"retry-after": text}, None) for text in ("soon", "-5", "nan", "")),
    ],
    ids=str,
)
def test_a_wait_is_read_in_every_form_that_servers_write_it(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_wait(headers) == (None if seconds is None else timedelta(seconds=seconds))
