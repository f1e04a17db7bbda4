"""Buckets: S3 and what speaks like it, Azure Blob Storage, Google Cloud Storage.

Each vendor's own variables name the place and the credentials. Every call ends in bounded time, and a vendor's refusal
becomes an error of ours, without addresses' queries or keys. Links bind what the vendor can bind: see
docs/operations/objects.md. Nothing is asked until it is needed, so a server starts while its bucket is away.
"""

import asyncio
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from holdfast.errors import ObjectMissing, ObjectsUnreachable, SettingInvalid, UploadTooLarge
from holdfast.execution.threads import in_thread
from holdfast.objects import Download, Found, Upload, UploadSpec, check_key, check_link, check_upload
from holdfast.objects.scratch import whole_file
from holdfast.objects.signed_links import AzureSigner, S3Signer
from holdfast.settings import vendor_variable

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, RetryConfig, S3Config

brief = timedelta(seconds=60)
"""For calls without bytes."""
long = timedelta(hours=1)
part_bytes = 8 << 20
parts_at_once = 4
deleted_at_once = 1000

RETRIES: "RetryConfig" = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=20),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=3), "base": 2},
}


def client_options(endpoint: str | None) -> "ClientConfig":
    return {
        "connect_timeout": timedelta(seconds=5),
        "read_timeout": timedelta(seconds=30),
        "timeout": timedelta(minutes=30),
        "allow_http": bool(endpoint) and str(endpoint).startswith("http://"),
    }


@dataclass(frozen=True)
class GoogleSigner:
    """Google's links bind neither type nor size, and carry no name; they go by the clock of this machine."""

    store: GCSStore
    link_most_bytes = 5 << 40

    async def sign_upload(
        self, key: str, content_type: str, size: int | None, now: datetime, lasting: timedelta
    ) -> tuple[str, dict[str, str]]:
        return await obstore.sign_async(self.store, "PUT", key, lasting), {"Content-Type": content_type}

    async def sign_download(self, key: str, content_type: str, filename: str, now: datetime, lasting: timedelta) -> str:
        return await obstore.sign_async(self.store, "GET", key, lasting)


class Bucket:
    """A bucket of any vendor; how links are signed differs, and what it takes by one (`link_most_bytes`).

    With keys of one's own there is no such limit: files go in parts.
    """

    def __init__(
        self, store: S3Store | AzureStore | GCSStore, label: str, signer: S3Signer | AzureSigner | GoogleSigner
    ) -> None:
        self.store = store
        self.label = label
        self.signer = signer

    async def sign_upload(self, upload: UploadSpec, *, now: datetime, lasting: timedelta, server: str) -> Upload:
        """A link that takes this object. Raises UploadTooLarge or RequestInvalid."""
        check_upload(upload, lasting)
        if (upload.size or 0) > self.signer.link_most_bytes:
            raise UploadTooLarge(
                f"{upload.size} bytes; {self.label} takes {self.signer.link_most_bytes} by one link.",
                fix="Split it. A worker that has HOLDFAST_OBJECTS and the bucket's keys needs no link, nor that.",
            )
        async with self.translate_errors(upload.key, brief):
            url, headers = await self.signer.sign_upload(upload.key, upload.content_type, upload.size, now, lasting)
        return Upload(url, "PUT", headers, now + lasting)

    async def sign_download(
        self, key: str, *, filename: str, content_type: str, now: datetime, lasting: timedelta, server: str
    ) -> Download:
        """A link that gives this object. Raises RequestInvalid."""
        check_link(key, content_type, lasting)
        async with self.translate_errors(key, brief):
            return Download(await self.signer.sign_download(key, content_type, filename, now, lasting), now + lasting)

    async def find(self, key: str) -> Found | None:
        try:
            async with self.translate_errors(key, brief):
                return Found(key, (await obstore.head_async(self.store, check_key(key)))["size"])
        except ObjectMissing:
            return None

    async def sha256(self, key: str) -> str:
        """Raises ObjectMissing."""
        digest = hashlib.sha256()
        async with self.translate_errors(key, long):
            async for part in (await obstore.get_async(self.store, check_key(key))).stream(part_bytes):
                await in_thread(digest.update, part)
        return digest.hexdigest()

    async def copy(self, source: str, target: str) -> None:
        """Raises ObjectMissing."""
        async with self.translate_errors(source, long):
            await obstore.copy_async(self.store, check_key(source), check_key(target))

    async def fetch(self, key: str, path: Path) -> None:
        """Raises ObjectMissing."""
        async with self.translate_errors(key, long):
            answer = await obstore.get_async(self.store, check_key(key))
            with whole_file(path) as file:
                async for part in answer.stream(part_bytes):
                    await in_thread(file.write, part)

    async def put(self, key: str, path: Path, *, content_type: str) -> Found:
        size = await in_thread(lambda: path.stat().st_size)
        async with self.translate_errors(key, long):
            await obstore.put_async(
                self.store, check_key(key), path, attributes={"Content-Type": content_type}, chunk_size=part_bytes,
                max_concurrency=parts_at_once,
            )  # fmt: skip
        return Found(key, size)

    async def delete(self, prefix: str) -> int:
        found = [one.key for one in await self.keys(prefix)]
        for start in range(0, len(found), deleted_at_once):
            async with self.translate_errors(prefix, brief):
                await obstore.delete_async(self.store, found[start : start + deleted_at_once])
        return len(found)

    async def keys(self, prefix: str) -> list[Found]:
        found: list[Found] = []
        async with self.translate_errors(prefix, long):
            async for batch in obstore.list(self.store, check_key(prefix)):
                found += [Found(one["path"], one["size"]) for one in batch]
        return sorted(found, key=lambda one: one.key)

    @contextlib.asynccontextmanager
    async def translate_errors(self, key: str, most: timedelta) -> AsyncIterator[None]:
        """Raise ObjectMissing, or ObjectsUnreachable with what the vendor says."""
        try:
            async with asyncio.timeout(most.total_seconds()):
                yield
        except FileNotFoundError as error:
            if not isinstance(error.errno, int):  # the vendor's; a path of ours has a number
                raise ObjectMissing(f"{key} is not there.") from None
            raise
        except TimeoutError:
            raise self.unreachable(f"No answer within {most}.") from None
        except (BaseError, ValueError) as error:
            raise self.unreachable(describe(error)) from None

    def unreachable(self, reason: str) -> ObjectsUnreachable:
        fix = "See that the bucket is there and its variables are right: holdfast doctor"
        return ObjectsUnreachable(f"{self.label}: {reason}", fix=fix)


def open_bucket(place: str) -> Bucket:
    """The bucket at `s3://`, `az://` or `gs://`. Raises SettingInvalid."""
    parts = urlsplit(place)
    prefix = parts.path.strip("/")
    try:
        match parts.scheme:
            case "s3":
                return open_s3(parts.netloc, prefix, place)
            case "az":
                return open_azure(parts.netloc, prefix, place)
            case _:
                options = client_options(None)
                store = GCSStore(parts.netloc, prefix=prefix or None, client_options=options, retry_config=RETRIES)
                return Bucket(store, place, GoogleSigner(store))
    except (BaseError, ValueError) as error:
        fix = "Set the vendor's own variables: AWS_..., AZURE_STORAGE_... or GOOGLE_..."
        raise SettingInvalid(f"HOLDFAST_OBJECTS={place}: {describe(error)}", fix=fix) from None


def open_s3(bucket: str, prefix: str, place: str) -> Bucket:
    """Raises SettingInvalid where there are no keys to sign links with."""
    key_id, secret = vendor_variable("AWS_ACCESS_KEY_ID"), vendor_variable("AWS_SECRET_ACCESS_KEY")
    if not key_id or not secret:
        raise SettingInvalid(
            f"HOLDFAST_OBJECTS={place}: there are no keys to sign links with.",
            fix="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN if they came with one.",
        )
    token = vendor_variable("AWS_SESSION_TOKEN", "AWS_TOKEN")
    region = vendor_variable("AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1"
    endpoint = vendor_variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    config: S3Config = {"access_key_id": key_id, "secret_access_key": secret, "region": region}
    if token:
        config["session_token"] = token
    if endpoint:
        config["endpoint"] = endpoint
    options = client_options(endpoint)
    store = S3Store(bucket, prefix=prefix or None, config=config, client_options=options, retry_config=RETRIES)
    address = bucket_address(bucket, region, endpoint)
    signer = S3Signer(address, region, key_id, secret, token, prefix=f"{prefix}/" if prefix else "")
    return Bucket(store, f"{place} at {host_of(endpoint)}" if endpoint else place, signer)


def open_azure(container: str, prefix: str, place: str) -> Bucket:
    """Raises SettingInvalid where there is no account, or no key to sign links with."""
    account = vendor_variable("AZURE_STORAGE_ACCOUNT_NAME")
    key = vendor_variable("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY")
    if not account or not key:
        raise SettingInvalid(
            f"HOLDFAST_OBJECTS={place}: there is no account to sign links with.",
            fix="Set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY.",
        )
    endpoint = vendor_variable("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
    config: AzureConfig = {"account_name": account, "account_key": key}
    options = client_options(endpoint)
    store = AzureStore(container, prefix=prefix or None, config=config, client_options=options, retry_config=RETRIES)
    endpoint = endpoint or f"https://{account}.blob.core.windows.net"
    signer = AzureSigner(endpoint, account, container, key, prefix=f"{prefix}/" if prefix else "")
    return Bucket(store, f"{place} at {host_of(endpoint)}", signer)


def bucket_address(bucket: str, region: str, endpoint: str | None) -> str:
    """At an endpoint of one's own: a path, unless a variable says that its name holds the bucket; at AWS: a name."""
    if endpoint:
        in_name = (vendor_variable("AWS_VIRTUAL_HOSTED_STYLE_REQUEST") or "").lower() in ("true", "1", "yes", "on")
        return endpoint.rstrip("/") if in_name else f"{endpoint.rstrip('/')}/{bucket}"
    domain = f"s3.{region}.amazonaws.com{'.cn' * region.startswith('cn-')}"
    return f"https://{domain}/{bucket}" if "." in bucket else f"https://{bucket}.{domain}"


def host_of(address: str) -> str:
    return urlsplit(address).netloc.rpartition("@")[2]


def describe(error: Exception) -> str:
    """The first line of the library's message, without the queries of addresses, where signatures are."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return re.sub(r"\?[^\s\"')]+", "?...", lines[0])[:500]
