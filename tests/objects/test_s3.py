"""A link for S3 is good for one object, one type, one length and its time: a real server refuses everything else."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx2
import pytest

from holdfast.errors import ObjectsUnreachable, SettingInvalid
from holdfast.objects import Objects, Upload, UploadSpec, open_objects
from holdfast.objects.cloud import bucket_address
from holdfast.objects.signed_links import S3Signer
from holdfast.settings import Settings
from tests.objects.servers import BUCKET

pytestmark = pytest.mark.deep  # each needs a bucket

BODY = b"a,b\n1,2\n"


@pytest.fixture
def s3(seaweed: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Objects:
    for name, value in seaweed.items():
        monkeypatch.setenv(name, value)
    return open_objects(Settings(objects=f"s3://{BUCKET}/{uuid4().hex}"))


async def link_of(s3: Objects, now: datetime | None = None, **promise: Any) -> Upload:
    upload = UploadSpec("in/a.csv", "text/csv", most_bytes=100, **{"size": len(BODY), **promise})
    return await s3.sign_upload(
        upload, now=now or datetime.now(UTC), lasting=timedelta(minutes=15), server="http://unused"
    )


async def send(http: httpx2.AsyncClient, link: Upload, body: bytes = BODY) -> int:
    return (await http.put(link.url, content=body, headers=link.headers)).status_code


async def test_another_length_is_refused(s3: Objects, http: httpx2.AsyncClient) -> None:
    link = await link_of(s3)
    assert [await send(http, link, body) for body in (BODY + b"3", BODY[:-1], b"")] == [403, 403, 403]
    assert await s3.find("in/a.csv") is None
    assert await send(http, link) == 200


async def test_a_length_that_was_not_promised_is_not_bound(s3: Objects, http: httpx2.AsyncClient) -> None:
    assert await send(http, await link_of(s3, size=None), BODY * 3) == 200


async def test_another_type_is_refused(s3: Objects, http: httpx2.AsyncClient) -> None:
    link = await link_of(s3)
    assert await send(http, replace(link, headers={"Content-Type": "text/html"})) == 403
    assert await send(http, link) == 200


async def test_an_old_link_is_refused(s3: Objects, http: httpx2.AsyncClient) -> None:
    link = await link_of(s3, now=datetime.now(UTC) - timedelta(minutes=16))
    assert await send(http, link) == 403
    assert link.expires_at < datetime.now(UTC)


async def test_a_changed_link_is_refused(s3: Objects, http: httpx2.AsyncClient) -> None:
    link = await link_of(s3)
    changed = [
        link.url.replace("a.csv", "b.csv"),
        link.url.replace("X-Amz-Expires=900", "X-Amz-Expires=9000"),
        link.url.replace("content-length%3B", ""),
        re.sub(r"Signature=....", "Signature=0000", link.url),
    ]
    assert link.url not in changed
    assert [await send(http, Upload(url, "PUT", link.headers, link.expires_at)) for url in changed] == [403] * 4
    assert (await http.get(link.url)).status_code == 403
    assert await s3.keys("in") == []


def test_the_signature_is_the_one_of_the_documentation() -> None:
    signer = S3Signer(
        "https://examplebucket.s3.amazonaws.com", "us-east-1", "AKIAIOSFODNN7EXAMPLE",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    )  # fmt: skip
    now = datetime(2013, 5, 24, tzinfo=UTC)
    url = signer.presign("GET", "test.txt", now=now, lasting=timedelta(days=1))
    assert url.endswith("X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")


def test_a_token_of_a_session_is_a_part_of_the_link() -> None:
    signer = S3Signer("https://b.s3.amazonaws.com", "us-east-1", "id", "secret", "a/token+")
    url = signer.presign("GET", "x", now=datetime.now(UTC), lasting=timedelta(minutes=1))
    assert f"X-Amz-Security-Token={quote('a/token+', safe='')}" in url
    assert "secret" not in repr(signer)
    assert "token" not in repr(signer)


@pytest.mark.parametrize(
    ("bucket", "region", "endpoint", "address"),
    [
        ("mine", "eu-west-1", None, "https://mine.s3.eu-west-1.amazonaws.com"),
        ("my.own", "eu-west-1", None, "https://s3.eu-west-1.amazonaws.com/my.own"),
        ("mine", "cn-north-1", None, "https://mine.s3.cn-north-1.amazonaws.com.cn"),
        ("mine", "us-east-1", "http://127.0.0.1:8333/", "http://127.0.0.1:8333/mine"),
    ],
)
def test_a_bucket_is_found_where_it_is(bucket: str, region: str, endpoint: str | None, address: str) -> None:
    assert bucket_address(bucket, region, endpoint) == address


async def test_wrong_keys_are_reported_without_the_keys(s3: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "quite-wrong")
    wrong = open_objects(Settings(objects=f"s3://{BUCKET}/x"))
    for attempt in (wrong.keys("a"), wrong.find("a"), wrong.sha256("a"), wrong.copy("a", "b"), wrong.delete("a")):
        with pytest.raises(ObjectsUnreachable) as refused:
            await attempt
        assert "quite-wrong" not in str(refused.value)
        assert "Signature" not in str(refused.value) or "SignatureDoesNotMatch" in str(refused.value)


async def test_a_missing_bucket_is_reported(s3: Objects) -> None:
    with pytest.raises(ObjectsUnreachable):
        await open_objects(Settings(objects="s3://no-such-bucket-here")).keys("a")


@pytest.mark.parametrize("place", ["s3://mine", "az://mine"])
def test_without_keys_nothing_is_opened(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SettingInvalid, match=r"HOLDFAST_OBJECTS=..://mine: there"):
        open_objects(Settings(objects=place))


async def test_a_bucket_that_does_not_answer_is_reported_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "hidden-one",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    objects = open_objects(Settings(objects="s3://mine/x"))
    assert objects.label == "s3://mine/x at 127.0.0.1:1"
    with pytest.raises(ObjectsUnreachable) as refused:
        await objects.find("a")
    assert "hidden-one" not in str(refused.value)
    assert (refused.value.http_status, refused.value.exit_code) == (503, 5)
