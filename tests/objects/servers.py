"""Real servers for buckets: SeaweedFS speaks S3, Azurite speaks Azure. One of each for all processes of a run."""

import base64
import hashlib
import hmac
import json
import shutil
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from holdfast.objects.signed_links import S3Signer
from tests.sharing import Started, free_ports, spawn, wait_for

ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = base64.b64encode(b"a key for tests, known to all of them").decode()
AZURITE = Path(__file__).parents[2] / ".cache/azurite/node_modules/.bin/azurite-blob"
BUCKET = "holdfast-tests"
NEW_LINE = "\n"


def start_seaweed(folder: Path) -> Started:
    keys = {"accessKey": "test-key", "secretKey": "test-secret"}
    config = {"identities": [{"name": "tests", "credentials": [keys], "actions": ["Admin", "Read", "Write", "List"]}]}
    (folder / "s3.json").write_text(json.dumps(config))
    data = tempfile.mkdtemp(dir=folder)
    ports = free_ports(8)
    names = [
        "master.port", "master.port.grpc", "volume.port", "volume.port.grpc",
        "filer.port", "filer.port.grpc", "s3.port", "s3.port.grpc",
    ]  # fmt: skip
    pid = spawn(
        folder,
        str(Path(sys.executable).with_name("weed")),
        *(f"-logdir={folder}", "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
        *("-filer", "-s3", "-s3.config=s3.json"),
        *("-s3.iam=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false", "-volume.max=3"),
        "-filer.localSocket=" + str(folder / "filer.sock"),
        *(f"-{name}={port}" for name, port in zip(names, ports, strict=True)),
    )
    url = f"http://127.0.0.1:{ports[6]}"
    signer = S3Signer(f"{url}/{BUCKET}", "us-east-1", keys["accessKey"], keys["secretKey"])
    for key in ("", "first"):  # a bucket can be made before there is room for an object
        put = signer.presign("PUT", key, now=datetime.now(UTC), lasting=timedelta(minutes=5))
        wait_for(folder, pid, lambda put=put: httpx2.put(put, timeout=2).status_code in (200, 409))  # type: ignore[misc]
    return pid, {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": keys["accessKey"],
        "AWS_SECRET_ACCESS_KEY": keys["secretKey"],
        "AWS_REGION": "us-east-1",
    }


def start_azurite(folder: Path) -> Started:
    if not AZURITE.exists() or not shutil.which("node"):
        pytest.skip("Azurite is not installed here: `make azurite` does it, with npm")
    (port,) = free_ports(1)
    pid = spawn(
        folder,
        str(AZURITE),
        *("--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", tempfile.mkdtemp(dir=folder)),
        *("--silent", "--skipApiVersionCheck", "--disableTelemetry"),
        environment={"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"},
    )
    url = f"http://127.0.0.1:{port}/{ACCOUNT}"
    wait_for(folder, pid, lambda: make_container(f"{url}/{BUCKET}") in (201, 409))
    return pid, {
        "AZURE_STORAGE_ENDPOINT": url,
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY,
    }


def make_container(url: str) -> int:
    """The status of asking for a container, signed with the account's key."""
    date = format_datetime(datetime.now(UTC), usegmt=True)
    headers = {"x-ms-date": date, "x-ms-version": "2021-12-02"}
    signed = "".join(f"{name}:{value}\n" for name, value in headers.items())
    text = f"PUT{12 * NEW_LINE}{signed}/{ACCOUNT}{urlsplit(url).path}\nrestype:container"
    key = base64.b64decode(ACCOUNT_KEY)
    signature = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
    return httpx2.put(f"{url}?restype=container", headers=headers, timeout=2).status_code
