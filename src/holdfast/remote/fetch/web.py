"""Documents of the web. Every server that is asked, also by a redirect, has passed the guard.

The request goes to the very address that was checked, and names the host as it was written: in its Host header, and to
TLS, which checks the certificate against it. No proxy is used, as one would resolve the name again.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from holdfast.errors import Failure, Fatal, SchemaInvalid, Transient
from holdfast.execution.threads import in_thread
from holdfast.remote.certificates import certificates
from holdfast.remote.fetch import Counted, Fetched, piece_bytes
from holdfast.remote.fetch.guard import Guard, refuse_address
from holdfast.remote.http_errors import category_of, failure_for

whole_seconds = 300.0
TIMEOUT = httpx2.Timeout(30, connect=10)
HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "holdfast"}
PORTS = {"http": 80, "https": 443}
redirects_most = 5
tried_most = 4  # addresses of one host
CODES = {401: "forbidden", 403: "forbidden", 404: "missing", 410: "missing", 429: "rate-limited"}


async def read_web(uri: str, target: Path, guard: Guard, counted: Counted) -> Fetched:
    """Write what the server answers. Raises SchemaInvalid, Fatal, Transient or RateLimited."""
    try:
        async with asyncio.timeout(whole_seconds), open_answer(uri, guard) as answer:
            return await receive(answer, target, counted)
    except TimeoutError:
        raise Transient(f"The document did not come within {whole_seconds:.0f} seconds.", code="timeout") from None
    except httpx2.TimeoutException:
        raise Transient("The server does not answer, or stopped answering.", code="timeout") from None
    except httpx2.TransportError as error:
        raise Transient(
            f"The connection failed: {str(error).rstrip('.') or type(error).__name__}.", code="unreachable"
        ) from None


@asynccontextmanager
async def open_answer(uri: str, guard: Guard) -> AsyncIterator[httpx2.Response]:
    """The first answer that is not a redirect, its body still to be read.

    A client for each hop: a connection to an address is not used again for another host that has the same.
    """
    url = parse_url(uri)
    for _ in range(redirects_most + 1):
        async with httpx2.AsyncClient(trust_env=False, verify=certificates(), timeout=TIMEOUT) as client:
            answer = await send_request(client, url, guard)
            try:
                if not answer.has_redirect_location:
                    yield answer
                    return
                url = redirect_target(url, answer.headers["Location"])
            finally:
                await answer.aclose()
    raise Fatal(f"The address leads on and on, over more than {redirects_most} redirects.", code="redirects")


async def send_request(
    client: httpx2.AsyncClient,
    url: httpx2.URL,
    guard: Guard,
    *,
    method: str = "GET",
    headers: Mapping[str, str] = HEADERS,
    content: str | None = None,
) -> httpx2.Response:
    """The head of the answer, from the first address of the host that takes the connection."""
    host = url.raw_host.decode("ascii")
    found = await guard.addresses(host, url.port or PORTS[url.scheme])
    unreached: httpx2.TransportError | None = None
    for address in found[:tried_most]:
        request = client.build_request(
            method,
            url.copy_with(host=str(address)),
            headers={**headers, "Host": url.netloc.decode("ascii")},
            content=content,
            extensions={"sni_hostname": host},
        )
        try:
            return await client.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            unreached = error
    raise unreached or Transient(f"{host} has no address.", code="unreachable")


def parse_url(uri: str) -> httpx2.URL:
    """The address, with its host as one writes it: no user, no dot at the end. Raises SchemaInvalid or Fatal."""
    try:
        url = httpx2.URL(uri)
        host = url.raw_host.decode("ascii").removesuffix(".")
        if host:
            url = url.copy_with(host=host, fragment=None)
        if url.port is not None and not 0 < url.port < 65536:
            raise ValueError("no port has this number")
    except (httpx2.InvalidURL, UnicodeError, ValueError):
        raise SchemaInvalid(f"{uri.partition('?')[0][:200]!r} is not an address of the web.", code="uri") from None
    if url.scheme not in PORTS or not host:
        raise refuse_address("Only http:// and https:// are followed, and only with a host.")
    if url.userinfo:
        raise refuse_address("A user and a password in an address are not sent anywhere.")
    return url


def redirect_target(url: httpx2.URL, location: str) -> httpx2.URL:
    """Where a redirect leads. Raises Fatal for where none may lead."""
    try:
        target = parse_url(str(url.join(location)))
    except (httpx2.InvalidURL, ValueError):
        raise Fatal(f"{url.host} redirects to what is not an address.", code="redirects") from None
    if url.scheme == "https" and target.scheme == "http":
        raise refuse_address(f"{url.host} redirects from https to http.")
    return target


async def receive(answer: httpx2.Response, target: Path, counted: Counted) -> Fetched:
    """Write the body as it was sent. Raises what the status means."""
    if failure := failure_of(answer):
        raise failure
    encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        host = answer.request.headers["Host"]
        raise Fatal(f"{host} sends it encoded ({encoding[:40]}), though it was asked not to.", code="encoded")
    if (length := answer.headers.get("Content-Length", "")).isdecimal():
        counted.expect(int(length))
    with target.open("wb") as file:
        async for piece in answer.aiter_raw(piece_bytes):
            await in_thread(file.write, counted.add(piece))
    return counted.finish(answer.headers.get("Content-Type"))


def failure_of(answer: httpx2.Response) -> Failure | None:
    """The failure that an answer is which does not hold the document."""
    status = answer.status_code
    if answer.is_success and status != 206:  # a part of it is not what was asked for
        return None
    message = f"{answer.request.headers['Host']} answers {status} {answer.reason_phrase}".rstrip() + "."
    code = CODES.get(status, "server-error" if category_of(status) == "Transient" else "refused")
    return failure_for(status, message, answer.headers, code=code)
