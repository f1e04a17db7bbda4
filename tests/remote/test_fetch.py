"""Documents are fetched whole or not at all, and what goes wrong has its category and code."""

import gzip
import hashlib
import os
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.errors import Failure, Fatal, RateLimited, SchemaInvalid, Transient
from holdfast.objects.local import Folder
from holdfast.remote.fetch import Fetched, web
from tests.remote.conftest import Fetching
from tests.remote.site import Site

BODY = b"The Peldaxakket index.\n" * 100


def fetched(body: bytes, content_type: str | None = None) -> Fetched:
    return Fetched(len(body), hashlib.sha256(body).hexdigest(), content_type)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a report? of 100%#.txt"
    path.write_bytes(BODY)
    return path


async def test_a_file_is_copied_counted_and_hashed(fetching: Fetching, source: Path) -> None:
    assert await fetching(source.as_uri()) == fetched(BODY)
    assert fetching.content == BODY
    assert await fetching(source.as_uri().replace("file://", "FILE://localhost")) == fetched(BODY)


@pytest.mark.parametrize(
    ("path", "failure", "code"),
    [
        ("/nowhere/at/all", Fatal, "missing"),
        ("/dev/null/below", Fatal, "missing"),
        ("/dev/zero", SchemaInvalid, "not-a-file"),
        ("/", SchemaInvalid, "not-a-file"),
        ("//server/share", SchemaInvalid, "uri"),
        ("relative", SchemaInvalid, "uri"),
        ("/with%00nul", SchemaInvalid, "uri"),
    ],
)
async def test_what_is_no_regular_file_is_refused(
    fetching: Fetching, path: str, failure: type[Failure], code: str
) -> None:
    with pytest.raises(failure) as caught:
        await fetching(f"file://{path}")
    assert caught.value.code == code
    assert fetching.content is None


async def test_a_pipe_does_not_hold_the_worker_up(fetching: Fetching, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SchemaInvalid, match="a device or a pipe"):
        await fetching((tmp_path / "pipe").as_uri())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_that_may_not_be_read_is_forbidden(fetching: Fetching, tmp_path: Path) -> None:
    (tmp_path / "secret").touch(mode=0)
    with pytest.raises(Fatal) as caught:
        await fetching((tmp_path / "secret").as_uri())
    assert caught.value.code == "forbidden"


async def test_an_object_is_fetched(fetching: Fetching, folder: Folder, source: Path) -> None:
    await folder.put("papers/1.txt", source, content_type="text/plain")
    assert await fetching("object:papers/1.txt") == fetched(BODY)
    assert fetching.content == BODY
    with pytest.raises(SchemaInvalid, match="larger than 100 bytes"):
        await fetching("object:papers/1.txt", most_bytes=100)
    assert fetching.content is None


@pytest.mark.parametrize(
    ("uri", "failure", "code"),
    [
        ("object:papers/none.txt", Fatal, "missing"),
        ("object:../secret", SchemaInvalid, "uri"),
        ("ftp://example.org/a", SchemaInvalid, "uri"),
        ("gopher:x", SchemaInvalid, "uri"),
        ("papers/1.txt", SchemaInvalid, "uri"),
        ("http://", Fatal, "address-refused"),
        ("http://exa mple.org/", Fatal, "address-refused"),
        ("http://example.org:99999/", SchemaInvalid, "uri"),
    ],
)
async def test_what_cannot_be_fetched_is_refused(
    fetching: Fetching, uri: str, failure: type[Failure], code: str
) -> None:
    with pytest.raises(failure) as caught:
        await fetching(uri)
    assert caught.value.code == code


async def test_an_unknown_address_is_refused_with_what_can_be_fetched(fetching: Fetching) -> None:
    with pytest.raises(SchemaInvalid, match=r"file:///folder/name, object:key, http://host/path or https://host/path"):
        await fetching("s3://bucket/key")


async def test_a_place_for_objects_that_cannot_be_used_is_transient(fetching: Fetching, folder: Folder) -> None:
    (folder.folder / "papers").symlink_to("papers")
    with pytest.raises(Transient) as caught:
        await fetching("object:papers/1.txt")
    assert caught.value.code == "unreachable"


async def test_a_page_is_fetched_as_it_is_asked_for(fetching: Fetching, site: Site) -> None:
    url = site.answer("/a?b=c", BODY, Content_Type="text/plain; charset=utf-8")
    assert await fetching(url + "#part") == fetched(BODY, "text/plain; charset=utf-8")
    assert fetching.content == BODY
    [(path, headers, _)] = site.asked
    assert (path, headers["Host"], headers["Accept-Encoding"]) == ("/a?b=c", f"127.0.0.1:{site.port}", "identity")


@pytest.mark.parametrize(
    ("status", "failure", "code"),
    [
        (404, Fatal, "missing"),
        (410, Fatal, "missing"),
        (401, Fatal, "forbidden"),
        (403, Fatal, "forbidden"),
        (400, SchemaInvalid, "refused"),
        (451, Fatal, "refused"),
        (304, Fatal, "refused"),
        (206, Fatal, "refused"),
        (408, Transient, "server-error"),
        (409, Transient, "server-error"),
        (500, Transient, "server-error"),
        (503, Transient, "server-error"),
        (429, RateLimited, "rate-limited"),
        (200, SchemaInvalid, "empty"),
        (204, SchemaInvalid, "empty"),
    ],
)
async def test_an_answer_has_its_category(
    fetching: Fetching, site: Site, status: int, failure: type[Failure], code: str
) -> None:
    with pytest.raises(failure) as caught:
        await fetching(site.answer("/a", status=status))
    assert (caught.value.code, caught.value.retry_after) == (code, None)
    assert fetching.content is None


NOON = "Tue, 04 Mar 2025 12:00:00 GMT"


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("120", timedelta(minutes=2)),
        ("1.5", timedelta(seconds=1.5)),
        ("0", timedelta(0)),
        ("9" * 5000, timedelta(days=1)),
        ("Tue, 04 Mar 2025 12:05:00 GMT", timedelta(minutes=5)),
        ("Tuesday, 04-Mar-25 12:00:30 GMT", timedelta(seconds=30)),
        ("Tue, 04 Mar 2025 11:00:00 GMT", timedelta(0)),
        ("Tue, 04 Mar 2031 11:00:00 GMT", timedelta(days=1)),
    ],
    ids=["seconds", "half a second", "none", "endless", "date", "old-date", "past", "years"],
)
@pytest.mark.parametrize(("status", "failure"), [(429, RateLimited), (503, Transient)])
async def test_a_server_says_how_long_to_wait(
    fetching: Fetching, site: Site, status: int, failure: type[Failure], header: str, wait: timedelta
) -> None:
    with pytest.raises(failure) as caught:
        await fetching(site.answer("/a", status=status, Retry_After=header, Date=NOON))
    assert caught.value.retry_after == wait


@pytest.mark.parametrize("header", ["soon", "-5", "nan", ""])
async def test_a_wait_that_is_none_is_no_wait(fetching: Fetching, site: Site, header: str) -> None:
    with pytest.raises(RateLimited) as caught:
        await fetching(site.answer("/a", status=429, Retry_After=header))
    assert caught.value.retry_after is None
    with pytest.raises(Transient):
        await fetching(site.answer("/b", status=503, Retry_After=header))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf of it",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n20\r\nhalf",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
    ids=["shorter than declared", "chunks without an end", "half a head", "nothing", "another protocol"],
)
async def test_what_is_cut_off_is_transient(fetching: Fetching, site: Site, answer: bytes) -> None:
    with pytest.raises(Transient) as caught:
        await fetching(site.raw("/a", answer))
    assert caught.value.code == "unreachable"
    assert fetching.content is None


async def test_a_document_without_a_declared_length_is_fetched(fetching: Fetching, site: Site) -> None:
    assert await fetching(site.raw("/a", b"HTTP/1.1 200 OK\r\n\r\n", BODY)) == fetched(BODY)


@pytest.mark.parametrize("head", [b"Content-Length: 99999999\r\n", b""], ids=["declared", "counted"])
async def test_a_document_that_is_too_large_is_refused_as_it_comes(fetching: Fetching, site: Site, head: bytes) -> None:
    endless = [b"x" * 100_000] * 50
    with pytest.raises(SchemaInvalid, match="larger than 1,048,576 bytes") as caught:
        await fetching(site.raw("/a", b"HTTP/1.1 200 OK\r\n" + head + b"\r\n", *endless))
    assert caught.value.code == "too-large"
    assert fetching.content is None


async def test_a_file_of_just_the_size_is_taken(fetching: Fetching, source: Path) -> None:
    assert (await fetching(source.as_uri(), most_bytes=len(BODY))).bytes == len(BODY)
    with pytest.raises(SchemaInvalid, match="larger than"):
        await fetching(source.as_uri(), most_bytes=len(BODY) - 1)


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "br"])
async def test_what_is_packed_is_not_unpacked(fetching: Fetching, site: Site, encoding: str) -> None:
    bomb = gzip.compress(bytes(2_000_000))
    with pytest.raises(Fatal, match="though it was asked not to") as caught:
        await fetching(site.answer("/a", bomb, Content_Encoding=encoding))
    assert caught.value.code == "encoded"
    assert fetching.content is None


async def test_a_server_that_does_not_listen_is_transient(fetching: Fetching, site: Site) -> None:
    with pytest.raises(Transient) as caught:
        await fetching("http://127.0.0.1:1/")
    assert caught.value.code == "unreachable"


async def test_a_server_that_never_ends_is_left_after_a_while(
    fetching: Fetching, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "whole_seconds", 0.1)
    url = site.answer("/a", b"the beginning", Content_Length="1000")
    with pytest.raises(Transient) as caught:
        await fetching(url)
    assert caught.value.code == "timeout"
    assert fetching.content is None


async def test_a_proxy_of_the_environment_is_not_used(
    fetching: Fetching, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert (await fetching(site.answer("/a", BODY))).bytes == len(BODY)


@pytest.fixture
def full_disk(fetching: Fetching) -> None:
    fetching.target.symlink_to("/dev/full")


@pytest.mark.usefixtures("full_disk")
async def test_a_disk_that_takes_nothing_is_transient(fetching: Fetching, site: Site) -> None:
    with pytest.raises(Transient) as caught:
        await fetching(site.answer("/a", BODY))
    assert caught.value.code == "disk"
