"""The embedded server: shared by all who come, revived when it is killed, gone with the last of them."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import asyncpg
import psutil
import pytest

from holdfast.postgres.connections import open_connection
from holdfast.postgres.embedded import Embedded, read_postmaster
from tests.crash.holders import (
    AS_NOBODY,
    Hold,
    assert_gone,
    eventually_read,
    is_root,
    kill_at_once,
    postmaster_of,
    processes_of,
    read,
    rulers_of,
    watchdog_of,
    write,
)
from tests.eventually import eventually_sync


@pytest.mark.deep
async def test_several_processes_share_one_server_that_stops_with_the_last(home: Path, hold: Hold) -> None:
    first, second = hold(), hold()
    url = first.wait_until_held()
    assert second.wait_until_held() == url
    await write(url, 1)
    first.leave()
    assert await read(url) == [1]
    second.leave()
    assert_gone(home)
    assert hold().wait_until_held() == url
    assert await read(url) == [1]


@pytest.mark.deep
def test_five_processes_that_start_at_once_make_one_server(home: Path, hold: Hold) -> None:
    holders = [hold() for _ in range(5)]
    assert len({holder.wait_until_held() for holder in holders}) == 1
    eventually_sync(lambda: len(rulers_of(home)) == 2)


async def test_kill_9_of_one_holder_after_another_hurts_no_other(home: Path, hold: Hold) -> None:
    holders = [hold() for _ in range(3)]
    url = {holder.wait_until_held() for holder in holders}.pop()
    server = postmaster_of(home)
    await write(url, 0)
    for number, holder in enumerate(holders[:-1], start=1):
        holder.kill()
        await write(url, number)
    assert postmaster_of(home) == server
    holders[-1].kill()
    assert_gone(home)
    hold().wait_until_held()
    assert await read(url) == [0, 1, 2]


@pytest.mark.deep
async def test_a_killed_watchdog_is_replaced_and_the_server_with_it(home: Path, hold: Hold) -> None:
    holder = hold()
    url = holder.wait_until_held()
    for number in range(3):
        await write(url, number)
        killed = processes_of(home)
        watchdog_of(home).kill()
        psutil.wait_procs(killed, timeout=60)
        assert await eventually_read(url) == list(range(number + 1))
    holder.leave()
    assert_gone(home)


@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
def test_no_server_is_left_when_everybody_else_is_killed_at_once(home: Path, hold: Hold) -> None:
    holder = hold()
    holder.wait_until_held()
    servers = processes_of(home)
    watchdog_of(home).kill()
    holder.kill()
    assert not psutil.wait_procs(servers, timeout=60)[1]


async def test_a_killed_postmaster_is_revived_at_the_same_address(home: Path, hold: Hold) -> None:
    url = hold().wait_until_held()
    for number in range(3):
        await write(url, number)
        server = postmaster_of(home)
        server.kill()
        server.wait(60)
        assert await eventually_read(url) == list(range(number + 1))
        assert postmaster_of(home) != server


@pytest.mark.deep
async def test_watchdog_and_postmaster_killed_together_come_back(home: Path, hold: Hold) -> None:
    url = hold().wait_until_held()
    await write(url, 1)
    kill_at_once(watchdog_of(home), postmaster_of(home))
    assert await eventually_read(url) == [1]
    eventually_sync(lambda: len(rulers_of(home)) == 2)


@pytest.mark.deep
async def test_all_killed_at_once_the_next_start_recovers(home: Path, hold: Hold) -> None:
    holder = hold()
    url = holder.wait_until_held()
    await write(url, 1)
    kill_at_once(psutil.Process(holder.process.pid), watchdog_of(home), postmaster_of(home))
    holder.kill()
    assert hold().wait_until_held() == url
    assert await read(url) == [1]


@pytest.mark.deep
async def test_a_server_left_behind_is_adopted_by_the_next_start(home: Path, hold: Hold, tmp_path: Path) -> None:
    """As where the kernel does not tell: this watchdog's server outlives it, because `setpriv` knows no such option."""
    blind = tmp_path / "bin" / "setpriv"
    blind.parent.mkdir()
    blind.write_text(
        f'#!/bin/sh\ncase "$*" in *--pdeathsig=INT*true) exit 1; esac\nexec {shutil.which("setpriv")} "$@"\n'
    )
    blind.chmod(0o755)
    holder = hold({"PATH": f"{blind.parent}:{os.environ['PATH']}"})
    url = holder.wait_until_held()
    server, alone = postmaster_of(home), watchdog_of(home)
    alone.suspend()
    holder.kill()
    alone.kill()
    next_holder = hold()
    assert next_holder.wait_until_held() == url
    assert postmaster_of(home) == server
    server.kill()
    assert next_holder.process.poll() is None
    eventually_sync(lambda: (running := read_postmaster(home)) and running.pid != server.pid)
    next_holder.leave()
    assert_gone(home)


@pytest.mark.deep
def test_leaving_and_coming_back_at_once_never_meets_a_stopping_server(home: Path) -> None:
    for _ in range(15):
        with Embedded(home) as server:
            running = read_postmaster(home)
            assert running
            assert running.ready
            with socket.create_connection(("127.0.0.1", running.port)):
                assert str(running.port) in server.url()
    assert_gone(home)


@pytest.mark.deep
def test_one_server_by_whatever_link_its_folder_is_reached(home: Path, hold: Hold, tmp_path: Path) -> None:
    url = hold().wait_until_held()
    (tmp_path / "link").symlink_to(tmp_path)
    with Embedded(tmp_path / "link" / home.name) as server:
        assert server.owner_url() == url


@pytest.mark.deep
def test_a_start_killed_in_the_middle_leaves_nothing_half_made(home: Path, hold: Hold) -> None:
    started = threading.Event()
    holder = hold()
    while not (home / "postgres.new" / "base").exists():
        started.wait(0.001)
    watchdog_of(home).kill()
    holder.kill()
    assert not (home / "postgres").exists()
    assert hold().wait_until_held()


@pytest.mark.deep
def test_a_stranger_with_the_dead_servers_number_is_no_obstacle(home: Path) -> None:
    with Embedded(home):
        leftover = (home / "postgres" / "postmaster.pid").read_text().splitlines()
    assert_gone(home)
    prefix = AS_NOBODY if is_root else []
    with subprocess.Popen([*prefix, "sleep", "60"]) as stranger:
        pid_file = home / "postgres" / "postmaster.pid"
        pid_file.write_text("\n".join([str(stranger.pid), *leftover[1:]]) + "\n")
        shutil.chown(pid_file, (home / "postgres").stat().st_uid)
        with Embedded(home):
            assert postmaster_of(home).pid != stranger.pid
        assert_gone(home)
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows whose the backends are")
async def test_a_backend_that_only_computes_does_not_stand_in_the_way(home: Path, hold: Hold) -> None:
    holder = hold()
    url = holder.wait_until_held()
    await write(url, 1)
    for last in (False, True):
        async with open_connection(url) as connection:
            await connection.execute("select set_config('application_name', 'busy', false)")
            busy = asyncio.create_task(connection.execute("do $$ begin loop end loop; end $$"))
            pid = connection.get_server_pid()
            await asyncio.wait([busy], timeout=0.2)
            backend, server = psutil.Process(pid), postmaster_of(home)
            if last:
                watchdog_of(home).suspend()
                holder.process.kill()
            server.kill()
            if last:
                watchdog_of(home).resume()
            with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
                await busy
        backend.wait(60)
        if not last:
            assert await eventually_read(url) == [1]
    assert_gone(home)
