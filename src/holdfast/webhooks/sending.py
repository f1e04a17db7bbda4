"""One try to bring a delivery to its endpoint, signed as Standard Webhooks says.

The address passes the guard at every try, since a name may lead elsewhere tomorrow. Redirects are not followed, and of
what the endpoint answers no more is read than a person would.
"""

import asyncio
from datetime import UTC, datetime

import httpx2
from standardwebhooks.webhooks import Webhook

from holdfast.errors import Failure, RequestInvalid, Transient
from holdfast.remote.certificates import certificates
from holdfast.remote.fetch.guard import Guard
from holdfast.remote.fetch.web import PORTS, parse_url, send_request
from holdfast.remote.retry_after import retry_after
from holdfast.webhooks.store import Sent, Taken

whole_seconds = 15.0
answer_most_bytes = 500


async def send(delivery: Taken, guard: Guard, within_seconds: float = whole_seconds) -> Sent:
    """How it went. Raises nothing: whatever is wrong is tried again."""
    try:
        async with (
            asyncio.timeout(within_seconds),
            httpx2.AsyncClient(trust_env=False, verify=certificates(), timeout=within_seconds) as client,
        ):
            url = parse_url(delivery.url)
            answer = await send_request(
                client, url, guard, method="POST", headers=sign_headers(delivery), content=delivery.body
            )
            try:
                return await read_outcome(answer)
            finally:
                await answer.aclose()
    except Failure as error:
        return Sent(None, error.message)
    except (TimeoutError, httpx2.TimeoutException):
        return Sent(None, f"No answer came within {within_seconds:.0f} seconds.")
    except httpx2.HTTPError as error:
        return Sent(None, f"The connection failed: {str(error).rstrip('.') or type(error).__name__}.")


def sign_headers(delivery: Taken) -> dict[str, str]:
    """The headers. The id is the delivery's own, so it is the same at every try; the time is that of this one."""
    message, now = f"msg_{delivery.id.hex}", datetime.now(UTC)
    return {
        "Content-Type": "application/json",
        "User-Agent": "holdfast",
        "webhook-id": message,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(delivery.secret).sign(message, now, delivery.body),
    }


async def read_outcome(answer: httpx2.Response) -> Sent:
    status = answer.status_code
    if answer.is_success:
        return Sent(status)
    text = await anext(answer.aiter_raw(answer_most_bytes), b"")  # a piece of this size, or all there is
    answer_text = text.decode(errors="replace").strip()
    moved = " Redirects are not followed." if answer.has_redirect_location else ""
    return Sent(status, f"{status} {answer.reason_phrase}.{moved} {answer_text}".strip(), retry_after(answer.headers))


async def check_url(url: str, guard: Guard) -> None:
    """Raise RequestInvalid for an address that nothing could be sent to; a name that is not found now may be later."""
    try:
        found = parse_url(url)
        await guard.addresses(found.raw_host.decode("ascii"), found.port or PORTS[found.scheme])
    except Transient:
        return
    except Failure as error:
        raise RequestInvalid(error.message, fix="Name an address that the server may reach.") from None
