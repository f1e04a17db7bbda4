"""Brokers other than Postgres, from the system's packages: started for a run in a folder of their own, gone with it.

Redis is set to sync every write before it answers (appendfsync always), RabbitMQ keeps durable queues: what is
compared is tasks that survive a crash of the machine.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")

start_seconds = 180.0


class BrokerMissing(Exception):
    """There is none at hand, or it does not start."""


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[str]:
    if not (found := shutil.which("redis-server")):
        raise BrokerMissing("redis-server is not installed")
    port = free_port()
    options = {
        "port": port,
        "bind": "127.0.0.1",
        "dir": folder,
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
    }
    command = [found, *(part for name, value in options.items() for part in (f"--{name}", str(value)))]
    with running(command, {}, port):
        yield f"redis://127.0.0.1:{port}/0"


@contextlib.contextmanager
def rabbitmq(folder: Path) -> Iterator[str]:
    if not RABBITMQ.exists():
        raise BrokerMissing("rabbitmq-server is not installed")
    port, mapper = free_port(), str(free_port())
    (folder / "plugins").write_text("[].\n")
    environment = {
        "HOME": str(folder),
        "ERL_EPMD_PORT": mapper,
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }
    try:
        with running([str(RABBITMQ)], environment, port):
            yield f"amqp://guest:guest@127.0.0.1:{port}//"
    finally:
        # The port mapper that Erlang leaves behind is ours alone: it has a port of its own.
        subprocess.run(["epmd", "-port", mapper, "-kill"], capture_output=True, check=False)


BROKERS: dict[str, Callable[[Path], contextlib.AbstractContextManager[str]]] = {"redis": redis, "rabbitmq": rabbitmq}


@contextlib.contextmanager
def running(command: list[str], environment: dict[str, str], port: int) -> Iterator[None]:
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + start_seconds
        while not answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise BrokerMissing(f"{Path(command[0]).name} did not start")
            time.sleep(0.1)
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)  # a script may stand before the server
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
