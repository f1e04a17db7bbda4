"""A folder for an embedded server, and processes that hold it."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.crash.holders import Hold, Holder, assert_gone, processes_of


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder for a server; whatever the test did, no server is left in it."""
    home = tmp_path / ".holdfast"
    yield home
    assert_gone(home)


@pytest.fixture
def open_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that every account can reach; pytest's own are private to their user."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def hold(home: Path) -> Iterator[Hold]:
    """Start another holder of the server in `home`."""
    holders: list[Holder] = []

    def start(environment: dict[str, str] | None = None) -> Holder:
        holders.append(Holder(home, environment))
        return holders[-1]

    yield start
    servers = processes_of(home)
    for holder in holders:
        holder.leave()
    psutil.wait_procs(servers, timeout=30)
